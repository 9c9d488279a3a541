"""Dropped turns that are looked up: the best first, within the tokens that were granted."""

from __future__ import annotations

from hypothesis import given, strategies as st

from recompact.values.chat import assistant
from recompact.values.context import Turn
from recompact.values.recall import recall


def count(text: str) -> int:
    return len(text) // 4 + 1


def turn(text: str) -> Turn:
    return Turn.measured(assistant(text), (), count)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(40, 300))
def test_what_is_recalled_keeps_within_its_limit(sizes: list[int], limit: int) -> None:
    turns = [turn(f"the code of room {number}: " + "x " * size) for number, size in enumerate(sizes)]
    assert 0 < count(recall("code of room", turns, limit, count)) <= limit


def test_the_best_fit_comes_first() -> None:
    turns = [turn("the weather is fine"), turn("the code of room 7 is 1234"), turn("room 7 is on the left")]
    shown = recall("code of room 7", turns, 1_000, count)
    assert shown.index("1234") < shown.index("on the left")
