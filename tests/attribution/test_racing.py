"""Racing: when a race is over, which arm is next, and which draws count."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from attribution_support import arm, boundary, outcomes
from hypothesis import given, strategies as st

from recompact.attribution.posterior import (
    Lengths,
    clearly_helped,
    doubt_after,
    probability_burden,
    probability_harmful,
    probability_hazard,
)
from recompact.attribution.prior import SEVERE_BURDEN, SEVERE_HAZARD
from recompact.attribution.racing import Race, Racing, StoppingRule
from recompact.values.outcome import ARMS, Draw, Outcome, Outcomes, Thresholds

HERE = boundary(1)
OPEN = StoppingRule(harmless=0.0, harmful=1.0)  # only the cap ends a race


def reduction(steps: list[int]) -> float:
    """By how much one more draw reduces the variance of a mean length."""
    variance = Lengths.of(steps).variance
    return variance / len(steps) - variance / (len(steps) + 1)


def wanted(own: Outcomes) -> str:
    """The arm in which one more draw helps more with what is more open: whether success was lost, or steps added."""
    pre, post = ([o.value for o in side.values()] for side in (own.pre, own.post))
    steps, post_steps = ([o.steps for o in side.values()] for side in (own.pre, own.post))
    hazard = probability_hazard(pre, post, 0.5)
    burden = 0.0 if clearly_helped(pre, post) else probability_burden(steps, post_steps, 5.0)
    if hazard * (1 - hazard) >= burden * (1 - burden):
        doubt = {side: doubt_after(pre, post, 0.5, side) for side in ARMS}
        return "PRE" if doubt["PRE"] < doubt["POST"] else "POST"
    return "PRE" if reduction(steps) > reduction(post_steps) else "POST"


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("post_value", [0.0, 1.0])
def test_the_next_draw_goes_where_it_helps_most_with_what_is_more_open(value: float, post_value: float) -> None:
    chosen = set()
    for steps, added in product((3, 10, 25), range(20)):
        own = outcomes((value, steps, post_value, steps + added))
        race = Racing(OPEN).race(HERE, own)
        assert race.next == wanted(own)
        chosen.add(race.next)
        assert race.harmful == pytest.approx(probability_harmful(own))
    assert chosen


def test_either_arm_can_be_next_for_either_reason() -> None:
    """After a draw more in PRE, the same rule holds."""
    chosen = {}
    for value, post_value, steps, added in product((0.0, 1.0), (0.0, 1.0), (4, 12), range(0, 16, 2)):
        first = Racing(OPEN).race(HERE, outcomes((value, steps, post_value, steps + added)))
        assert first.next is not None
        pre, post = arm((value, steps)), arm((post_value, steps + added))
        more = arm(*[(1.0, steps + 2)] * 2)[1]
        own = Outcomes({**pre, 1: more}, post) if first.next == "PRE" else Outcomes(pre, {**post, 1: more})
        race = Racing(OPEN).race(HERE, own)
        assert race.next == wanted(own)
        assert (len(race.pre), len(race.post)) == (len(own.pre), len(own.post))
        chosen[first.next, race.next] = race
    assert len(chosen) > 2


@pytest.mark.parametrize(
    ("pre", "post", "arm_of_hazard"),
    [
        ([(1, 11), (1, 10), (1, 10)], [(0, 21), (1, 19), (1, 21), (0, 19), (0, 19)], "POST"),
        ([(0, 8), (1, 7), (1, 8)], [(0, 13), (0, 14), (0, 15)], "PRE"),
        ([(1, 3), (1, 5), (1, 6), (1, 6)], [(0, 14), (1, 13), (1, 13), (1, 14), (0, 15)], "POST"),
    ],
)
def test_a_probable_burden_is_less_open_than_a_hazard_that_may_be_or_not(
    pre: list[tuple[float, int]], post: list[tuple[float, int]], arm_of_hazard: str
) -> None:
    race = Racing(OPEN).race(HERE, Outcomes(arm(*pre), arm(*post)))
    assert (len(race.pre), len(race.post)) == (len(pre), len(post))
    assert race.next == arm_of_hazard


@pytest.mark.parametrize("seed", range(12))
def test_so_does_each_draw_of_a_whole_race(seed: int) -> None:
    chance = Random(seed)
    kept, base, added = chance.choice([0.0, 0.3, 0.8]), chance.randint(3, 12), chance.randint(0, 9)
    pre, post = arm((1.0, base)), arm((float(chance.random() < kept), base + added))
    for _ in range(7):
        race = Racing(OPEN).race(HERE, Outcomes(pre, post))
        assert race.next == wanted(Outcomes(pre, post))
        value = float(chance.random() < (0.9 if race.next == "PRE" else kept))
        longer = added if race.next == "POST" else 0
        side = pre if race.next == "PRE" else post
        side[len(side)] = Outcome(value, base + longer + chance.randint(0, 3))


@pytest.mark.parametrize(("cap", "over"), [(2, True), (3, False)])
def test_a_race_ends_with_the_draw_that_reaches_the_cap(cap: int, over: bool) -> None:
    race = Racing(StoppingRule(harmless=0.0, harmful=1.0, cap=cap)).race(HERE, outcomes((1, 10, 0, 10)))
    assert (race.next is None) == over


def test_a_race_at_its_limits_is_open_and_beyond_them_it_is_over() -> None:
    own = outcomes((1, 10, 0, 10))
    now = Racing(OPEN).race(HERE, own).harmful
    assert 0.1 < now < 0.9
    for rule, is_open in (
        (StoppingRule(harmless=now, harmful=1.0), True),
        (StoppingRule(harmless=now + 1e-9, harmful=1.0), False),
        (StoppingRule(harmless=0.0, harmful=now), True),
        (StoppingRule(harmless=0.0, harmful=now - 1e-9), False),
    ):
        assert (Racing(rule).race(HERE, own).next is not None) == is_open


def test_the_usual_rule() -> None:
    rule = StoppingRule()
    assert (rule.harmful, rule.cap) == (0.9, 10)
    assert rule.harmless_below == pytest.approx(1 - (1 - SEVERE_HAZARD) * (1 - SEVERE_BURDEN), abs=1e-15)
    assert round(rule.harmless_below, 2) == 0.07
    assert (rule.thresholds.hazard, rule.thresholds.burden) == (0.5, 5.0)
    assert Racing().stopping == rule
    assert Racing().name == "racing"
    assert Race() == Race((), (), 0.0, "PRE")


@given(st.floats(0.1, 0.9), st.floats(1.0, 12.0), st.none() | st.floats(0, 1))
def test_harmless_is_less_probable_than_before_any_draw_whatever_the_thresholds(
    hazard: float, burden: float, limit: float | None
) -> None:
    rule = StoppingRule(Thresholds(hazard, burden), limit)
    before = probability_harmful(Outcomes(), rule.thresholds)
    assert rule.harmless_below == (before if limit is None else limit)
    alike = outcomes((1, 10, 1, 10), (1, 10, 1, 10), (1, 10, 1, 10), (1, 10, 1, 10), (1, 10, 1, 10))
    race = Racing(rule).race(HERE, alike)
    assert limit is not None or race.next is None
    assert limit is not None or race.harmful < before


@pytest.mark.parametrize("thresholds", [Thresholds(0.2, 2.0), Thresholds(0.8, 10.0)])
def test_one_pair_without_harm_settles_a_race_and_one_with_harm_does_not(thresholds: Thresholds) -> None:
    racing = Racing(StoppingRule(thresholds))
    assert racing.race(HERE, outcomes((1, 10, 1, 9))).next is None
    assert racing.race(HERE, outcomes((1, 10, 0, 10))).next is not None


def test_draws_after_a_missing_one_do_not_count() -> None:
    pre = arm((1, 10), (1, 12), (1, 14))
    del pre[1]
    race = Racing(OPEN).race(HERE, Outcomes(pre, arm((0, 30))))
    assert race.pre == ((1, 10),)
    assert race.post == ((0, 30),)
    due = Racing(OPEN).due({HERE: Outcomes(pre, arm((0, 30)))})
    assert due == [Draw(HERE, race.next or "PRE", 1)]


def test_the_number_of_the_next_draw_is_that_of_its_arm() -> None:
    for value, steps in product((0.0, 1.0), (5, 12, 20)):
        own = outcomes((1, 10, value, steps))
        (only,) = Racing(OPEN).due({HERE: own})
        assert only.number == 1
        assert only.arm == Racing(OPEN).race(HERE, own).next


def test_the_thresholds_are_those_of_the_rule() -> None:
    own = outcomes((1, 10, 1, 14))
    strict, lax = (
        Racing(StoppingRule(Thresholds(0.5, burden), 0.0, 1.0)).race(HERE, own).harmful for burden in (3.0, 9.0)
    )
    assert strict > 2 * lax
    half = outcomes((1, 10, 0.5, 10))
    low, high = (Racing(StoppingRule(Thresholds(h, 5.0), 0.0, 1.0)).race(HERE, half).harmful for h in (0.2, 0.9))
    assert low > 2 * high


def test_only_finished_races_with_draws_in_both_arms_are_retained_the_worst_first() -> None:
    lost = [(1, 10, 0, 10)] * 5
    worse = [(1, 10, 0, 40)] * 5
    known = {
        boundary(1): outcomes(*lost),
        boundary(2): outcomes(*worse),
        boundary(3): Outcomes(arm(*[(1, 10)] * 5)),
        boundary(4): Outcomes({}, arm(*[(0, 40)] * 5)),
        boundary(5): Outcomes(),
        boundary(6): outcomes(lost[0]),  # it is not over yet
        boundary(7): outcomes(*[(1, 10, 1, 10)] * 5),
    }
    assert Racing().retained(known) == [boundary(2), boundary(1)]


def test_steps_that_a_rescue_adds_are_no_harm_in_a_race_either() -> None:
    rescued = outcomes(*[(0, 5, 1, 20)] * 4)
    race = Racing(OPEN).race(HERE, rescued)
    pre, post = ([value for value, _ in side] for side in (race.pre, race.post))
    assert clearly_helped(pre, post)
    assert race.harmful == pytest.approx(probability_hazard(pre, post, 0.5))
    assert race.harmful < 0.01
