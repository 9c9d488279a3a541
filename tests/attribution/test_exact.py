"""Thresholds, ranks and ties are decided by exact numbers."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from attribution_support import arm, boundary, random_pool
from hypothesis import given, strategies as st

from recompact.attribution.detection import sample
from recompact.attribution.effects import channel_of, effect_of, harm_score, hazard_and_burden
from recompact.attribution.halving import Halving, half_of, rollouts
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.values.outcome import Outcome, Outcomes, Thresholds, exact


def lengths(pre: tuple[int, ...], post: tuple[int, ...]) -> Outcomes:
    return Outcomes(arm(*((1.0, n) for n in pre)), arm(*((1.0, n) for n in post)))


def test_sixty_one_thirds_less_forty_six_thirds_is_five_and_retained() -> None:
    both = lengths((15, 15, 16), (20, 20, 21))
    effect = effect_of(both)
    assert effect is not None
    assert effect.burden == 5
    assert effect.channel == "burden"
    assert Uniform(3).retained({boundary(1): both}) == [boundary(1)]


@pytest.mark.parametrize("total", range(3, 136))
def test_every_total_that_makes_five_steps_is_retained(total: int) -> None:
    pre, post = (total - 2, 1, 1), (total - 2 + 15, 1, 1)
    assert Uniform(3).retained({boundary(1): lengths(pre, post)}) == [boundary(1)]
    assert Uniform(3).retained({boundary(1): lengths(pre, (total - 2 + 14, 1, 1))}) == []


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=9),
    st.lists(st.integers(1, 50), min_size=1, max_size=9),
    st.sampled_from([0.1, 0.3, 0.7, 2.3, 5.0, 1.1]),
)
def test_burden_is_compared_as_fractions_say(pre: list[int], post: list[int], threshold: float) -> None:
    both = lengths(tuple(pre), tuple(post))
    _, burden = hazard_and_burden(tuple(both.pre.values()), tuple(both.post.values()))
    assert burden == Fraction(sum(post), len(post)) - Fraction(sum(pre), len(pre))
    reached = burden >= Fraction(str(threshold))
    assert (channel_of(0, burden, Thresholds(0.5, threshold)) == "burden") == reached
    assert (harm_score(0, burden, Thresholds(0.5, threshold)) >= 1) == (reached or threshold <= 0)


def test_ties_between_the_channels_are_ties() -> None:
    # H = 1/3 and B = 10/3 are two thirds of their thresholds; in floats one of the two is larger.
    lost = Outcomes(arm((1, 5), (1, 5), (1, 5)), arm((1, 5), (1, 5), (0, 5)))
    longer = lengths((5, 5, 5), (8, 8, 9))
    scores = {harm_score(*hazard_and_burden(tuple(o.pre.values()), tuple(o.post.values()))) for o in (lost, longer)}
    assert scores == {Fraction(2, 3)}
    known = {boundary(1): lost, boundary(2): longer}
    first = {Halving(seed=seed)._rank(known, list(known), 3)[0] for seed in range(20)}
    assert first == set(known)  # the lot decides, not the channel


def test_rewards_and_thresholds_mean_the_numbers_that_they_are_written_as() -> None:
    assert exact(1 / 3) == Fraction(1, 3)
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1.0) == 1
    two_thirds, one_sixth = (Outcome(2 / 3, 5),), (Outcome(1 / 6, 5),)
    assert channel_of(*hazard_and_burden(two_thirds, one_sixth)) == "error"
    tenth = Outcomes(arm(*[(1, 5)] * 10), arm(*[(1, 5)] * 9, (0, 5)))
    assert Uniform(10, Thresholds(hazard=0.1)).retained({boundary(1): tenth}) == [boundary(1)]


PAPER_TABLE = {133: 464, 198: 694, 214: 750, 298: 1042, 200: 700, 204: 714}


def test_the_papers_rollout_table_in_all_six_rows() -> None:
    assert {n: rollouts(n) for n in PAPER_TABLE} == PAPER_TABLE
    assert Halving().half == "even"
    for n, expected in PAPER_TABLE.items():
        assert sample(Halving(), random_pool(n, 3, seed=n)).continuations == expected
    assert (rollouts(133, half="up"), rollouts(298, half="up")) == (468, 1044)


@given(st.integers(0, 500), st.integers(1, 5), st.sampled_from(["even", "up"]))
def test_rollouts_is_what_halving_asks_for(number: int, rounds: int, half: str) -> None:
    assert half_of(number, half) in (number // 2, number // 2 + 1)  # type: ignore[arg-type]
    assert half_of(number, half) >= min(number, 1)  # type: ignore[arg-type]
    if number <= 12:
        pool = random_pool(number, rounds, seed=Random(number).randint(0, 99))
        halving = Halving(rounds=rounds, half=half)  # type: ignore[arg-type]
        assert sample(halving, pool).continuations == rollouts(number, rounds, half)  # type: ignore[arg-type]


@given(st.integers(1, 12), st.integers(1, 5), st.sampled_from(["even", "up"]))
def test_where_all_are_harmful_halving_retains_at_least_one(number: int, rounds: int, half: str) -> None:
    pool = {boundary(n): Outcomes(arm(*[(1, 5)] * rounds), arm(*[(0, 5)] * rounds)) for n in range(number)}
    assert sample(Halving(rounds=rounds, half=half), pool).retained  # type: ignore[arg-type]


def test_a_compaction_that_clearly_helped_is_not_retained() -> None:
    rescued = Outcomes(arm(*[(0, 5)] * 3), arm(*[(1, 20)] * 3))
    effect = effect_of(rescued)
    assert effect is not None
    assert (effect.burden, effect.channel, effect.selected) == (15, "none", False)
    assert effect.hazard_estimate.high < 0
    for allocation in (Uniform(3), Halving(), Racing()):
        assert list(allocation.retained({boundary(1): rescued})) == []
