"""What a model could still see, by intervals: the same as by numbers, and fast where many branches were abandoned."""

from __future__ import annotations

from growth import growth
from hypothesis import given, strategies as st

from recompact.audit.visibility import FOREVER, Visible, intervals

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
