"""What a model could still see, by intervals: the same as by numbers, and fast where many branches were abandoned."""

from __future__ import annotations

import tracemalloc

from growth import LINEAR, growth
from hypothesis import given, strategies as st

from recompact.audit.ledger import Ledger
from recompact.audit.visibility import FOREVER, Visible, intervals
from recompact.values.session import Passage, Rewind, Tally

pieces = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(pieces, st.integers(0, 32))
def test_until_and_onwards_by_numbers(chosen: list[tuple[int, int]], place: int) -> None:
    visible = intervals(chosen)
    numbers = {number for number in range(40) if visible.holds(number)}
    for result, expected in (
        (visible.until(place), {number for number in numbers if number < place}),
        (visible.onwards(place), {*(n for n in numbers if n < place), *range(place, 40)}),
    ):
        assert {number for number in range(40) if result.holds(number)} == expected
        assert result == intervals(zip(result.starts, result.ends, strict=True))  # joined, none empty


def test_going_back_costs_no_more_where_many_branches_were_abandoned() -> None:
    def go_back(branches: int) -> None:
        visible = Visible(tuple(range(0, 2 * branches, 2)), (*range(1, 2 * branches - 1, 2), FOREVER))
        for _ in range(300):
            visible.until(9)

    assert growth(go_back, 4_000) < 3.5


@given(pieces, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6))
def test_many_rewinds_at_once_are_the_same_as_one_after_another(
    chosen: list[tuple[int, int]], rewinds: list[tuple[int, int]]
) -> None:
    visible = folded = intervals(chosen)
    since, turns = 30, []
    for back, on in rewinds:
        since += on
        turns.append((max(0, since - back * 3), since))
        folded = folded.until(turns[-1][0]).onwards(since)
    assert visible.after_rewinds(turns) == folded


def test_the_memory_of_a_session_grows_with_its_abandoned_branches_not_with_their_square() -> None:
    def held(branches: int) -> int:
        """Each branch is begun, gone on from by one message, and abandoned for it."""
        tracemalloc.start()
        ledger = Ledger(Tally())
        ledger.take(Passage("user", "Go.", key="root"))
        for n in range(branches):
            ledger.take(Passage("assistant", "On.", key=f"on {n}"))
            ledger.take(Passage("assistant", "Astray.", key=f"astray {n}"))
            ledger.take(Rewind(f"on {n}"))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    held(10)
    assert held(1_200) / held(300) < LINEAR
