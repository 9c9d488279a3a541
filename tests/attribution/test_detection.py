from __future__ import annotations

from attribution_support import Pair, boundary, outcomes, random_pool
from hypothesis import given, strategies as st

from recompact.attribution.detection import compare_allocations, detection, sample, selected_by_all
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform


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
