from __future__ import annotations

from typing import get_args

import pytest
from attribution_support import Pair, boundary, outcomes, random_pool
from hypothesis import given, strategies as st

from recompact.attribution.detection import Part, PartRule, compare_allocations, detection, sample, selected_by_all
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.values.outcome import BoundaryId


def test_halving_against_fixed_pairs() -> None:
    pool = random_pool(60, 9, seed=5)
    all_nine, three, halving, racing = compare_allocations(
        [Uniform(9), Uniform(3), Halving(), Racing()], pool, seeds=range(4)
    )
    assert all_nine.recall is not None
    assert all_nine.precision is not None
    assert racing.f1 is not None
    assert (all_nine.recall.value, all_nine.precision.value, all_nine.continuations.value) == (1, 1, 18)
    assert three.continuations.value == 6
    assert halving.continuations.value == 3.5
    assert 0 < racing.f1.value <= 1
    assert halving.tokens.value < three.tokens.value


RESCUED: Pair = (0, 5, 1, 20)
PAIR = st.sampled_from([RESCUED, (1, 5, 0, 5), (1, 5, 1, 5), (1, 5, 1, 20), (0.25, 5, 0.5, 9)])


@given(st.lists(st.lists(PAIR, min_size=4, max_size=4), min_size=1, max_size=6))
def test_an_allocation_with_all_draws_finds_exactly_the_reference(pairs: list[list[Pair]]) -> None:
    """Those where the compaction clearly helped are in neither, however many steps it added."""
    pool = {boundary(n): outcomes(*own) for n, own in enumerate(pairs)}
    (everything,) = compare_allocations([Uniform(4)], pool, seeds=range(2))
    for share in (everything.recall, everything.precision):
        assert share is None or share.value == 1.0
    assert selected_by_all(pool) == set(Uniform(4).retained(pool))
    assert selected_by_all({boundary(0): outcomes(*[RESCUED] * 4)}) == set()


def test_detection_counts_only_what_is_judged() -> None:
    pool = {boundary(n): outcomes(*[(1, 5, 0, 5)] * 3) for n in range(4)}
    sampled = sample(Uniform(3), pool)
    result = detection(sampled, {boundary(0), boundary(1)}, {boundary(0), boundary(2)})
    assert (result.recall, result.precision, result.continuations) == (1.0, 0.5, 6.0)
    assert selected_by_all(pool) == set(pool)


def test_where_nothing_is_harmful_or_retained_there_is_no_share_of_it() -> None:
    pool = {boundary(n): outcomes(*[(1, 5, 1, 5)] * 3) for n in range(4)}
    sampled = sample(Uniform(3), pool)
    nothing = detection(sampled, set(), pool)
    assert (nothing.recall, nothing.precision, nothing.f1) == (None, None, None)
    (score,) = compare_allocations([Uniform(3)], pool, seeds=range(2))
    assert (score.recall, score.precision) == (None, None)
    missed = detection(sampled, {boundary(0)}, pool)
    assert (missed.recall, missed.precision, missed.f1) == (0.0, None, 0.0)
    assert missed.tokens == 6 * 50
    harmful = {boundary(n): outcomes(*[(1, 5, 0, 5)] * 3) for n in range(3)}
    found = detection(sample(Uniform(3), harmful), {boundary(0)}, harmful)
    assert (found.recall, found.precision, found.f1) == (1.0, 1 / 3, 0.5)
    assert detection(sample(Uniform(3), harmful), set(), harmful).precision == 0.0


def test_simpler_ways_to_save_draws_look_at_a_part_only() -> None:
    """Two boundaries in a trajectory lose everything, the first and the third; the second adds steps."""
    lost, longer, same = [outcomes(*[pair] * 9) for pair in ((1, 5, 0, 5), (1, 5, 1, 15), (1, 5, 1, 5))]
    (first, second, third), other = (BoundaryId("collect/a", n) for n in (1, 2, 3)), BoundaryId("collect/b", 1)
    pool = {first: lost, second: longer, third: lost, other: same}
    uniform = Uniform(3)
    by_rule = {rule: sample(Part(rule, uniform), pool) for rule in get_args(PartRule)}
    assert set(by_rule["first two boundaries"].retained) == {first, second}
    assert by_rule["first two boundaries"].continuations == 18
    assert set(by_rule["first loss of success"].retained) == {first}
    assert by_rule["first loss of success"].continuations == 12  # nothing after it in that trajectory
    halves = [sample(Part("half of the trajectories", uniform, seed), pool).continuations for seed in range(12)]
    assert set(halves) <= {0, 6, 18, 24}
    assert len(set(halves)) > 1
    scores = compare_allocations(
        [uniform, Part("random half", uniform)], pool, rules=[{first}, {second, other}, {other}]
    )
    assert scores[0].support is not None
    assert scores[0].support.value == pytest.approx(2 / 3)
    assert scores[1].recall is not None
    assert scores[1].recall.value < 1
    assert compare_allocations([uniform], pool)[0].support is None
