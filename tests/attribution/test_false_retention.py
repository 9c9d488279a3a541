from __future__ import annotations

from random import Random

import pytest
from attribution_support import boundary, random_pool

from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import Chained
from recompact.attribution.false_retention import false_retention, split_in_two
from recompact.attribution.halving import Halving
from recompact.attribution.pool import PoolExhausted
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.values.outcome import Outcome


def test_a_split_uses_each_draw_once() -> None:
    pre = random_pool(1, 9, seed=2)[boundary(0)].pre
    numbered = {n: Outcome(o.value, o.steps, tokens=n) for n, o in pre.items()}
    split = split_in_two({boundary(0): numbered}, seed=1)[boundary(0)]
    used = [o.tokens for side in (split.pre, split.post) for o in side.values()]
    assert len(split.pre) == len(split.post) == 4
    assert len(set(used)) == 8
    assert split != split_in_two({boundary(0): numbered}, seed=2)[boundary(0)]


@pytest.mark.parametrize("allocation", [Uniform(3), Halving(), Racing(), Chained(Halving(), {}), Chained(Racing(), {})])
def test_where_nothing_ever_varies_nothing_is_retained(allocation: Allocation) -> None:
    pre = {boundary(n): dict(enumerate([Outcome(1.0, 7)] * 20)) for n in range(10)}
    result = false_retention(allocation, pre, splits=3)
    assert result.rate.value == 0
    assert result.rate.high < 0.35
    assert (result.boundaries, result.splits, result.allocation) == (10, 3, allocation.name)


def test_coin_flips_are_retained_as_often_as_arithmetic_says() -> None:
    # Three pairs of fair coins: 3 to 0 (1 of 64 cases), 3 to 1 and 2 to 0 (3 each) make two thirds or more.
    chance = Random(7)
    pre = {boundary(n): {d: Outcome(float(chance.random() < 0.5), 7) for d in range(40)} for n in range(400)}
    result = false_retention(Uniform(3), pre, splits=5)
    assert result.rate.value == pytest.approx(7 / 64, abs=0.025)
    assert result.rate.low < 7 / 64 < result.rate.high
    assert false_retention(Racing(), pre, splits=5).rate.value < result.rate.value


def test_chained_control_takes_its_free_draw_from_pre() -> None:
    chance = Random(8)
    pre = {boundary(n): {d: Outcome(float(chance.random() < 0.5), 7) for d in range(40)} for n in range(60)}
    links = {b: Outcome(0.0, 40) for b in pre}  # a rest so bad that it would make everything look harmful
    assert false_retention(Chained(Halving(), links), pre).rate == false_retention(Halving(), pre).rate


def test_a_chained_control_minds_only_links_of_boundaries_with_draws() -> None:
    """A link may lead from a boundary that is not asked about, or from one with a single draw, which is not split."""
    pre = {boundary(1): {0: Outcome(1.0, 7)}, boundary(2): {n: Outcome(1.0, 7) for n in range(2)}}
    links = {boundary(n): Outcome(0.0, 40) for n in (1, 2, 3)}
    with pytest.raises(PoolExhausted):  # boundary 1 has no free draw, and the pool has none either
        false_retention(Chained(Uniform(1), links), pre)
    both = {id: draws for id, draws in pre.items() if len(draws) > 1}
    assert false_retention(Chained(Uniform(1), links), both).boundaries == 1


def test_splits_begin_with_the_seed_and_follow_each_other() -> None:
    chance = Random(9)
    pre = {boundary(n): {d: Outcome(float(chance.random() < 0.5), 7) for d in range(6)} for n in range(30)}
    each = [false_retention(Uniform(3), pre, seed=seed).rate.value for seed in (5, 6)]
    assert each[0] != each[1]
    assert false_retention(Uniform(3), pre, splits=2, seed=5).rate.value == pytest.approx(sum(each) / 2)
    assert false_retention(Uniform(3), pre) == false_retention(Uniform(3), pre, splits=1, seed=0)
