from __future__ import annotations

from random import Random

import pytest
from attribution_support import Pair, arm, arrive, boundary, outcomes, random_pool
from examples import examples
from hypothesis import given, strategies as st

from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import Chained
from recompact.attribution.detection import PoolExhausted, sample, shuffle_draws
from recompact.attribution.effects import compaction_helped, effect_of, first_draws, harm_score, hazard_and_burden
from recompact.attribution.halving import Half, Halving, half_of
from recompact.attribution.posterior import probability_harmful
from recompact.attribution.racing import Racing, StoppingRule
from recompact.attribution.uniform import Uniform
from recompact.values.outcome import ARMS, NO_COPIES, BoundaryId, Draw, Outcome, Outcomes, without_copies

GOOD: Pair = (1, 5, 1, 5)
LOST: Pair = (1, 5, 0, 5)
LONG: Pair = (1, 5, 1, 12)


def with_barrier(pool: dict[BoundaryId, Outcomes], halving: Halving) -> tuple[set[Draw], list[BoundaryId]]:
    """The paper's algorithm, word for word, on a pool."""
    active, made = sorted(pool), set()
    for number in range(halving.rounds):
        made |= {Draw(b, side, number) for b in active for side in ("PRE", "POST")}
        if number + 1 < halving.rounds:
            everybody = {b: outcomes_so_far(pool[b], number + 1) for b in active}
            ranked = halving._rank(everybody, active, number + 1)
            active = ranked[: half_of(len(active), halving.half)]
    scores = {}
    for b in active:
        arms = first_draws(pool[b], halving.rounds)
        assert arms is not None
        if not compaction_helped(*arms):
            scores[b] = harm_score(*hazard_and_burden(*arms))
    return made, sorted((b for b in scores if scores[b] >= 1), key=lambda b: (-scores[b], b))


def outcomes_so_far(all_draws: Outcomes, draws: int) -> Outcomes:
    return Outcomes(*({n: side[n] for n in range(draws)} for side in (all_draws.pre, all_draws.post)))


class TestUniform:
    def test_asks_for_all_missing_draws(self) -> None:
        known = {boundary(1): Outcomes(arm((1, 5))), boundary(2): outcomes(GOOD, GOOD)}
        assert set(Uniform(2).due(known)) == {
            Draw(boundary(1), "POST", 0),
            Draw(boundary(1), "PRE", 1),
            Draw(boundary(1), "POST", 1),
        }

    def test_retains_by_the_estimate(self) -> None:
        known = {boundary(1): outcomes(LOST, LOST, GOOD), boundary(2): outcomes(LOST, GOOD, GOOD)}
        known[boundary(3)] = outcomes(LONG, LONG, LONG)
        assert Uniform(3).retained(known) == [boundary(3), boundary(1)]


class TestHalving:
    def test_hand_worked_example(self) -> None:
        # Five boundaries, halves rounded up. Round 1 scores: 2, 1.4, 2, 0, 0.2; three go on: 1, 2, 3.
        # Round 2 means: 1: H 1/2 -> 1; 2: B 7 -> 1.4; 3: H 1 -> 2; two go on: 3 and 2.
        # Round 3: 3: H 2/3 -> 4/3, retained; 2: B 14/3 -> 0.93, not retained.
        pool = {
            boundary(1): outcomes(LOST, GOOD, LOST),
            boundary(2): outcomes(LONG, LONG, GOOD),
            boundary(3): outcomes(LOST, LOST, GOOD),
            boundary(4): outcomes(GOOD, LOST, LOST),
            boundary(5): outcomes((1, 5, 1, 6), LOST, LOST),
        }
        sampled = sample(Halving(half="up"), pool)
        rounds = {b: len(o.pre) for b, o in sampled.outcomes.items()}
        assert rounds == {boundary(1): 2, boundary(2): 3, boundary(3): 3, boundary(4): 1, boundary(5): 1}
        assert sampled.continuations == 2 * (5 + 3 + 2)
        assert sampled.retained == (boundary(3),)

    def test_who_did_not_complete_all_rounds_is_never_retained(self) -> None:
        # All are alike and harmful; half of them twice over go no further, whatever their estimate says.
        pool = {boundary(n): outcomes(LOST, LOST, LOST) for n in range(8)}
        assert len(sample(Halving(), pool).retained) == 2

    def test_ties_are_broken_by_the_seed(self) -> None:
        pool = {boundary(n): outcomes(LOST, LOST, LOST) for n in range(16)}
        chosen = {sample(Halving(seed=seed), pool).retained for seed in range(20)}
        assert len(chosen) > 10
        assert sample(Halving(seed=3), pool).retained == sample(Halving(seed=3), pool).retained

    @pytest.mark.parametrize(
        ("boundaries", "even", "up"),
        [(133, 464, 468), (198, 694, 694), (214, 750, 750), (298, 1042, 1044), (200, 700, 700), (204, 714, 714)],
    )
    def test_counts_of_the_papers_cost_table(self, boundaries: int, even: int, up: int) -> None:
        pool = random_pool(boundaries, 3, seed=boundaries)
        assert sample(Halving(), pool).continuations == even
        assert sample(Halving(half="up"), pool).continuations == up

    @examples(60)
    @given(
        boundaries=st.integers(1, 17),
        seed=st.integers(0, 10_000),
        rounds=st.integers(1, 4),
        coarse=st.booleans(),
        half=st.sampled_from(["up", "even"]),
    )
    def test_early_release_gives_what_a_barrier_gives(
        self, boundaries: int, seed: int, rounds: int, coarse: bool, half: Half
    ) -> None:
        pool = random_pool(boundaries, rounds, seed, coarse=coarse)
        halving = Halving(rounds=rounds, seed=seed, half=half)
        expected_draws, expected_retained = with_barrier(pool, halving)
        made, known = arrive(halving, pool, Random(seed))
        assert set(made) == expected_draws
        assert list(halving.retained(known)) == expected_retained

    def test_goes_on_before_the_round_is_over(self) -> None:
        # Four boundaries, two of them finished with the higher one certain to be in the upper half of four only if at
        # most one of the others can beat it: three known is enough for the best of them, two for none.
        known = {boundary(n): Outcomes() for n in range(4)}
        known[boundary(0)], known[boundary(1)] = outcomes(LOST), outcomes(GOOD)
        assert not [d for d in Halving().due(known) if d.number == 1]
        known[boundary(2)] = outcomes(GOOD)
        assert {d.boundary for d in Halving().due(known) if d.number == 1} == {boundary(0)}


class TestRacing:
    def test_first_a_pair_then_only_where_it_is_open(self) -> None:
        b = boundary(1)
        assert Racing().due({b: Outcomes()}) == [Draw(b, "PRE", 0)]
        assert Racing().due({b: Outcomes(arm((1, 5)))}) == [Draw(b, "POST", 0)]
        assert Racing().due({b: outcomes(GOOD)}) == []
        assert len(Racing().due({b: outcomes(LOST)})) == 1

    def test_a_low_base_rate_alone_settles_nothing(self) -> None:
        b = boundary(1)
        rule = StoppingRule(harmless=0.5)
        assert Racing(rule).due({b: Outcomes(arm((1, 5)))}) == [Draw(b, "POST", 0)]

    def test_one_draw_is_no_proof_that_nothing_can_be_lost_or_added(self) -> None:
        b = boundary(1)
        known = {b: Outcomes(arm((0, 27)))}
        assert Racing(remaining={b: 30}).due(known) == [Draw(b, "POST", 0)]
        assert Racing(remaining={b: 30}).retained(known) == []

    def test_steps_that_are_not_left_cannot_be_added(self) -> None:
        b = boundary(1)
        known = {b: outcomes((0, 27, 0, 35))}
        assert Racing().due(known)
        assert not Racing(remaining={b: 29}).due(known)

    @pytest.mark.parametrize("won", range(3))
    @pytest.mark.parametrize("added", range(8))
    def test_a_race_that_ends_at_its_cap_is_decided_by_what_is_more_probable(self, won: int, added: int) -> None:
        b = boundary(1)
        rule = StoppingRule(harmless=0.0, harmful=1.0, cap=4)
        pairs = [(1, 10, float(n < won), 10 + added) for n in range(10)]
        sampled = sample(Racing(rule), {b: outcomes(*pairs)})
        assert sampled.continuations == 4
        assert sampled.retained == ((b,) if probability_harmful(sampled.outcomes[b]) >= 0.5 else ())

    @pytest.mark.parametrize(("low", "high"), [(0.3, 0.5), (0.5, 0.7)])
    def test_a_race_that_ends_unsettled_is_decided_at_one_half(self, low: float, high: float) -> None:
        b = boundary(1)
        rule = StoppingRule(harmless=0.0, harmful=1.0, cap=2)
        open_ones = [n for n in range(4, 40) if low <= probability_harmful(outcomes((1, 10, 1, 10 + n))) < high]
        assert open_ones
        for added in open_ones:
            retained = Racing(rule).retained({b: outcomes((1, 10, 1, 10 + added))})
            assert retained == ([b] if low >= 0.5 else [])

    def test_what_is_retained_minds_the_steps_that_were_left(self) -> None:
        b = boundary(1)
        rule = StoppingRule(harmless=0.0, harmful=1.0, cap=2)
        slower = {b: outcomes((1, 10, 1, 40))}
        assert Racing(rule).retained(slower) == [b]
        assert Racing(rule, {b: 60}).retained(slower) == [b]
        assert Racing(rule, {b: 8}).retained(slower) == []

    def test_settles_what_is_clear_and_stops_at_the_cap(self) -> None:
        lost = {boundary(1): outcomes(*[LOST] * 10)}
        harmful = sample(Racing(), lost)
        assert harmful.retained == (boundary(1),)
        assert harmful.continuations < 10
        unclear = {boundary(1): outcomes(*[LOST, (0, 5, 1, 5), GOOD] * 5)}
        assert sample(Racing(StoppingRule(harmless=0.0, harmful=1.0)), unclear).continuations == 10

    def test_other_boundaries_make_no_difference(self) -> None:
        pool = random_pool(12, 10, seed=5)
        together = sample(Racing(), pool).outcomes
        for b, draws in pool.items():
            assert sample(Racing(), {b: draws}).outcomes[b] == together[b]


class TestJudgement:
    """What an allocation says of each boundary, besides what it retains."""

    def test_every_boundary_looks_harmful_but_halving_gives_only_some_the_draws(self) -> None:
        pool = {boundary(n): outcomes(LOST, LOST, LOST) for n in range(6)}
        known = sample(Halving(), pool).outcomes
        judged = Halving().judge(known)
        assert sorted(judged.values()) == ["retained"] * 2 + ["stopped early"] * 4
        assert [id for id, each in judged.items() if each == "retained"] == Halving().retained(known)

    def test_one_that_helped_is_neither_retained_nor_stopped_early(self) -> None:
        known = {boundary(1): outcomes(*[(0, 5, 1, 30)] * 3), boundary(2): outcomes(*[GOOD] * 3)}
        assert Uniform(3).judge(known) == {boundary(1): "helped", boundary(2): "not harmful"}

    def test_one_without_draws_in_both_arms_has_none(self) -> None:
        known = {boundary(1): Outcomes(arm((1, 5))), boundary(2): outcomes(LOST)}
        assert Uniform(1).judge(known) == {boundary(2): "retained"}

    def test_later_draws_can_contradict_those_that_decided(self) -> None:
        known = {boundary(1): outcomes(GOOD, LOST, LOST), boundary(2): outcomes(LOST, GOOD, GOOD)}
        assert Uniform(1).judge(known) == {boundary(1): "not by the rule", boundary(2): "retained"}

    @pytest.mark.parametrize("allocation", [Uniform(3), Halving(), Chained(Halving(), {})], ids=lambda each: each.name)
    def test_copies_cannot_show_that_a_compaction_helped(self, allocation: Allocation) -> None:
        """At temperature 0, three draws that are one draw say as little as one."""
        slower = {boundary(1): outcomes(*[(0, 5, 1, 30)] * 3)}
        both = frozenset((boundary(1), name) for name in ARMS)
        assert allocation.judge(slower) == {boundary(1): "helped"}
        assert allocation.judge(slower, both) == {boundary(1): "retained"}

    @examples(30)
    @given(st.integers(1, 12), st.integers(0, 5), st.booleans(), st.sampled_from([Uniform(3), Halving(), Racing()]))
    def test_it_agrees_with_what_is_retained_and_with_the_effect(
        self, boundaries: int, seed: int, copied: bool, allocation: Allocation
    ) -> None:
        known = sample(allocation, random_pool(boundaries, 10, seed=seed)).outcomes
        arms = frozenset((id, name) for id in known for name in ARMS) if copied else NO_COPIES
        judged = allocation.judge(known, arms)
        assert [id for id, each in judged.items() if each == "retained"] == list(allocation.retained(known, arms))
        assert judged.keys() == known.keys()
        for id, own in without_copies(known, arms).items():
            effect = effect_of(own)
            assert effect is not None
            assert effect.helped == (judged[id] == "helped")
            if judged[id] not in ("retained", "helped"):
                assert effect.selected == (judged[id] != "not harmful")


ALLOCATIONS: list[Allocation] = [
    *(Uniform(3), Halving(), Halving(half="up"), Racing(), Racing(StoppingRule(cap=6))),
]


@examples(40)
@given(boundaries=st.integers(0, 12), seed=st.integers(0, 10_000), which=st.sampled_from(ALLOCATIONS))
def test_no_allocation_asks_twice_or_minds_the_order(boundaries: int, seed: int, which: Allocation) -> None:
    pool = random_pool(boundaries, 10, seed)
    results = []
    for order in range(3):
        made, known = arrive(which, pool, Random(f"{seed}/{order}"))
        results.append((set(made), list(which.retained(known))))
    assert results[0] == results[1] == results[2]
    assert set(results[0][0]) == {
        Draw(b, side, n)
        for b, o in sample(which, pool).outcomes.items()
        for side in ("PRE", "POST")
        for n in o.of(side)
    }


@examples(20)
@given(seed=st.integers(0, 10_000), first=st.sampled_from(ALLOCATIONS))
def test_more_draws_later_repeat_none(seed: int, first: Allocation) -> None:
    pool = random_pool(9, 10, seed)
    known = sample(first, pool).outcomes
    later = set(Uniform(9).due(known))
    done = {Draw(b, side, n) for b, o in known.items() for side in ("PRE", "POST") for n in o.of(side)}
    assert not later & done
    assert len(later | {d for d in done if d.number < 9}) == 9 * 9 * 2


def test_a_pool_that_is_too_small_is_told() -> None:
    with pytest.raises(PoolExhausted, match="uniform 3"):
        sample(Uniform(3), random_pool(2, 2, seed=1))


def test_shuffled_pools_hold_the_same_draws() -> None:
    pool = random_pool(3, 20, seed=1)
    one, other = shuffle_draws(pool, 1), shuffle_draws(pool, 2)
    assert one != other
    assert one == shuffle_draws(pool, 1)

    def tokens(draws: dict[BoundaryId, Outcomes]) -> list[list[Outcome]]:
        return [sorted(o.pre.values(), key=lambda x: (x.value, x.steps)) for o in draws.values()]

    assert tokens(one) == tokens(other) == tokens(pool)
