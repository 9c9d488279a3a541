from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean

import pytest
from attribution_support import arm, boundary, outcomes
from hypothesis import given, strategies as st

from recompact.attribution.allocation import Allocation
from recompact.attribution.detection import sample
from recompact.attribution.effects import (
    burden_estimate,
    channel_of,
    effect_of,
    effects_of,
    equal_draws,
    harm_score,
    hazard_and_burden,
    hazard_estimate,
)
from recompact.attribution.halving import Halving
from recompact.attribution.posterior import doubt_after, probability_burden, probability_harmful, probability_hazard
from recompact.attribution.prior import PUBLISHED, SUCCESS_PRIOR, cells, learn_priors, published_prior
from recompact.attribution.racing import Racing
from recompact.values.outcome import BoundaryId, Outcome, Outcomes, Thresholds


def results(successes: int, draws: int) -> list[Outcome]:
    return [Outcome(float(n < successes), 5) for n in range(draws)]


def test_newcombe_as_published() -> None:
    # Newcombe (1998), method 10, 56/70 against 48/80.
    interval = hazard_estimate(results(56, 70), results(48, 80))
    assert interval.low == pytest.approx(0.0524, abs=5e-5)
    assert interval.high == pytest.approx(0.3339, abs=5e-5)


def test_one_pair_says_little_and_the_interval_says_so() -> None:
    effect = effect_of(outcomes((1, 10, 0, 10)))
    assert effect is not None
    assert effect.hazard_estimate.low < 0 < effect.hazard_estimate.high
    assert effect.burden_estimate.low < -3
    assert effect.burden_estimate.high > 3


def test_equal_lengths_do_not_give_an_interval_of_width_zero() -> None:
    interval = burden_estimate(list(arm(*[(1, 9)] * 3).values()), list(arm(*[(1, 9)] * 3).values()))
    assert interval.high - interval.low > 1


@pytest.mark.parametrize(("p", "q"), [(0.9, 0.9), (0.9, 0.3), (0.5, 0.5), (0.7, 0.6)])
@pytest.mark.parametrize("draws", [3, 9])
def test_hazard_estimate_covers(p: float, q: float, draws: int) -> None:
    chance = Random(f"{p}/{q}/{draws}")

    def once() -> bool:
        pre = [Outcome(float(chance.random() < p), 1) for _ in range(draws)]
        post = [Outcome(float(chance.random() < q), 1) for _ in range(draws)]
        interval = hazard_estimate(pre, post)
        return interval.low <= p - q <= interval.high

    assert 0.90 <= fmean(once() for _ in range(2000)) <= 1.0


def test_hazard_estimate_covers_rewards_that_are_not_0_or_1() -> None:
    chance = Random(3)

    def once() -> bool:
        pre, post = ([Outcome(chance.betavariate(a, 2), 1) for _ in range(9)] for a in (4, 2))
        interval = hazard_estimate(pre, post)
        return interval.low <= 4 / 6 - 1 / 2 <= interval.high

    assert fmean(once() for _ in range(1000)) >= 0.95


@pytest.mark.parametrize("draws", [2, 3, 9])
@pytest.mark.parametrize("dispersion", [0.2, 0.42, 1.0])
def test_burden_estimate_covers(draws: int, dispersion: float) -> None:
    chance = Random(f"{draws}/{dispersion}")

    def lengths(mean: float) -> list[Outcome]:
        return [Outcome(1.0, round(chance.gauss(mean, (dispersion * mean) ** 0.5))) for _ in range(draws)]

    def once() -> bool:
        interval = burden_estimate(lengths(14), lengths(18))
        return interval.low <= 4 <= interval.high

    assert 0.90 <= fmean(once() for _ in range(1500)) <= 1.0


@pytest.mark.parametrize("draws", [1, 3])
def test_burden_covers_lengths_that_vary_more_than_the_published_ones(draws: int) -> None:
    """The run itself tells how much lengths vary: here ten times as much as in the published runs."""
    chance = Random(f"varied/{draws}")

    def lengths(mean: float) -> dict[int, Outcome]:
        return {n: Outcome(1.0, max(1, round(chance.gauss(mean, (4 * mean) ** 0.5)))) for n in range(draws)}

    def held() -> tuple[float, float]:
        known = {boundary(n): Outcomes(lengths(30), lengths(34)) for n in range(25)}
        priors = learn_priors(known)
        learned = [effect_of(own, prior=priors.of(id)) for id, own in known.items()]
        assumed = [effect_of(own) for own in known.values()]
        return tuple(  # type: ignore[return-value]
            fmean(e.burden_estimate.low <= 4 <= e.burden_estimate.high for e in each if e)
            for each in (learned, assumed)
        )

    learned, assumed = zip(*(held() for _ in range(30)), strict=True)
    assert fmean(learned) >= 0.94
    assert fmean(assumed) < 0.9


@pytest.mark.parametrize("draws", [1, 3, 9])
def test_burden_covers_where_some_draws_run_out_of_steps(draws: int) -> None:
    chance = Random(f"limit/{draws}")

    def arm_of(mean: float) -> list[Outcome]:
        out = [chance.random() < 0.1 for _ in range(draws)]
        return [Outcome(1.0, 50 if each else round(chance.gauss(mean, 2)), 0, each) for each in out]

    def once() -> bool:
        interval = burden_estimate(arm_of(12), arm_of(15))
        return interval.low <= 0.9 * 3 <= interval.high

    assert fmean(once() for _ in range(1000)) >= 0.94


def test_a_draw_that_ran_out_of_steps_is_not_taken_for_a_long_one() -> None:
    """Whether it ended there by itself or not: the estimate is the same, what is known of it is not."""
    pre = [Outcome(1.0, 10)] * 3
    ended, cut = ([Outcome(1.0, 12), Outcome(1.0, 12), Outcome(0.0, 40, 0, out)] for out in (False, True))
    one, other = burden_estimate(pre, ended), burden_estimate(pre, cut)
    assert one.value == other.value == pytest.approx(34 / 3)
    assert (other.low, other.high) != (one.low, one.high)
    assert burden_estimate(cut, cut).low < 0 < burden_estimate(cut, cut).high
    every = [Outcome(0.0, 40, 0, True)] * 2
    assert burden_estimate(every, every).value == 0


def test_with_three_pairs_hazard_moves_in_thirds() -> None:
    seen = set()
    for won in range(4):
        for kept in range(4):
            effect = effect_of(Outcomes(dict(enumerate(results(won, 3))), dict(enumerate(results(kept, 3)))))
            assert effect is not None
            seen.add(round(3 * effect.hazard, 9))
            assert (effect.channel == "error") == (won - kept >= 2)  # the threshold of 0.5 takes two thirds
    assert seen == {-3, -2, -1, 0, 1, 2, 3}


def test_means_are_by_arm_and_arms_may_differ_in_draws() -> None:
    effect = effect_of(Outcomes(arm((1, 10), (1, 12), (0, 14)), arm((0, 20))))
    assert effect is not None
    assert effect.hazard == pytest.approx(2 / 3)
    assert effect.burden == 8
    assert (effect.pre, effect.post, effect.channel) == (3, 1, "both")
    assert effect.score == pytest.approx(1.6)


def test_no_effect_without_a_draw_in_both_arms() -> None:
    some = Outcomes(arm((1, 10)))
    assert effect_of(some) is None
    assert effects_of({}) == {}


def test_thresholds_can_be_changed() -> None:
    strict = Thresholds(hazard=0.9, burden=10)
    assert channel_of(0.8, 9, strict) == "none"
    assert harm_score(0.45, 9, strict) == pytest.approx(0.9)


class TestPosterior:
    def test_prior_is_what_the_paper_counted(self) -> None:
        assert probability_hazard([], [], 0.5) == pytest.approx(22 / PUBLISHED)
        assert probability_burden([], [], 5.0) == pytest.approx(21 / PUBLISHED)
        assert probability_burden([], [], 0.0) == pytest.approx(355 / PUBLISHED)

    def test_success_prior_has_the_published_moments(self) -> None:
        a, b = SUCCESS_PRIOR
        tasks = {168: (0.841, 0.786), 95: (0.821, 0.758), 40: (0.858, 0.725)}
        accuracy, pass3 = (sum(n * v[i] for n, v in tasks.items()) / sum(tasks) for i in (0, 1))
        s = a + b
        assert a / s == pytest.approx(accuracy, abs=0.002)
        assert a / s * (a + 1) / (s + 1) * (a + 2) / (s + 2) == pytest.approx(pass3, abs=0.002)
        assert sum(published_prior().rates) == pytest.approx(1)

    def test_more_evidence_makes_surer(self) -> None:
        harm = [probability_hazard([1] * n, [0] * n, 0.5) for n in (0, 1, 2, 3, 5)]
        assert harm == sorted(harm)
        assert harm[-1] > 0.95
        calm = [probability_hazard([1] * n, [1] * n, 0.5) for n in (0, 1, 2, 3)]
        assert calm == sorted(calm, reverse=True)
        added = [probability_burden([10], [steps], 5.0) for steps in (8, 10, 12, 15, 20, 30)]
        assert added == sorted(added)
        longer = [probability_burden([10] * n, [18] * n, 5.0) for n in (1, 2, 3, 5, 9)]
        assert longer == sorted(longer)

    def test_order_of_draws_does_not_matter(self) -> None:
        one = Outcomes(arm((1, 10), (0, 12)), arm((0, 20), (1, 11)))
        other = Outcomes(arm((0, 12), (1, 10)), arm((1, 11), (0, 20)))
        assert probability_harmful(one) == pytest.approx(probability_harmful(other))

    def test_nobody_takes_more_steps_than_are_left(self) -> None:
        failed = Outcomes(arm((0, 28)))
        assert 0 < probability_harmful(failed, remaining=30) < 0.6 * probability_harmful(failed)
        shares = [
            probability_burden([28] * n, [30] * n, 5.0, 30) / probability_burden([28] * n, [30] * n, 5.0)
            for n in (1, 3, 9)
        ]
        assert 0.2 > shares[0] > shares[1] > shares[2] > 0

    def test_hazard_posterior_is_calibrated_on_its_own_prior(self) -> None:
        chance = Random(11)
        predicted, true = [], []
        for _ in range(4000):
            p = q = chance.choices(cells().rates.tolist(), published_prior().rates.tolist())[0]
            if chance.random() < published_prior().changed:
                q = chance.choices(cells().rates.tolist(), published_prior().rates.tolist())[0]
            pre, post = ([float(chance.random() < rate) for _ in range(3)] for rate in (p, q))
            predicted.append(probability_hazard(pre, post, 0.5))
            true.append(p - q >= 0.5)
        assert fmean(predicted) == pytest.approx(fmean(true), abs=0.01)
        sure = [t for f, t in zip(predicted, true, strict=True) if f > 0.5]
        said = [f for f in predicted if f > 0.5]
        assert fmean(said) == pytest.approx(fmean(sure), abs=0.12)

    def test_burden_posterior_is_calibrated_on_its_own_prior(self) -> None:
        chance = Random(12)
        predicted, true = [], []
        for _ in range(3000):
            added = chance.choices(cells().burdens.tolist(), published_prior().burdens.tolist())[0]
            error = published_prior().variance ** 0.5
            pre, post = ([round(chance.gauss(mean, error)) for _ in range(3)] for mean in (20, 20 + added))
            predicted.append(probability_burden(pre, post, 5.0))
            true.append(added >= 5)
        assert fmean(predicted) == pytest.approx(fmean(true), abs=0.01)

    def test_the_next_draw_leaves_less_doubt_on_average(self) -> None:
        now = probability_hazard([1], [0], 0.5)
        for which in ("PRE", "POST"):
            assert doubt_after([1], [0], 0.5, which) < now * (1 - now)


NUMBERED = st.sets(st.integers(0, 4)).map(lambda numbers: {n: Outcome(1.0, 10 + n) for n in numbers})


@given(st.lists(st.builds(Outcomes, NUMBERED, NUMBERED), max_size=4))
def test_equal_draws_are_the_first_that_every_boundary_has(known: list[Outcomes]) -> None:
    pool = {boundary(n): own for n, own in enumerate(known)}
    most, equal = equal_draws(pool)
    arms = [draws for own in known for draws in (own.pre, own.post)]
    assert all(number in draws for draws in arms for number in range(most))
    assert not arms or any(most not in draws for draws in arms)
    assert set(equal) == (set(pool) if most else set())
    for id, own in equal.items():
        assert list(own.pre) == list(own.post) == list(range(most))
        assert all(own.pre[n] == pool[id].pre[n] and own.post[n] == pool[id].post[n] for n in range(most))


@pytest.mark.parametrize("allocation", [Halving(), Racing()], ids=lambda each: each.name)
def test_where_arms_are_alike_equal_draws_lean_to_neither_side_and_all_draws_do(allocation: Allocation) -> None:
    chance = Random(5)
    pool = {}
    for n in range(1500):
        rate = chance.uniform(0.5, 0.95)
        pre, post = ({i: Outcome(float(chance.random() < rate), 12) for i in range(10)} for _ in range(2))
        pool[boundary(n)] = Outcomes(pre, post)
    known = sample(allocation, pool).outcomes

    def mean(drawn: Mapping[BoundaryId, Outcomes]) -> float:
        return fmean(hazard_and_burden(tuple(o.pre.values()), tuple(o.post.values()))[0] for o in drawn.values())

    most, equal = equal_draws(known)
    assert most == 1
    assert abs(mean(equal)) < 0.04  # three standard errors
    assert mean(known) < -0.06
