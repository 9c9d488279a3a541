"""What a compaction dropped, in pieces: all of it, each once, and put back in its place."""

from __future__ import annotations

from hypothesis import given, strategies as st

from recompact.attribution.bisection.pieces import (
    Intervention,
    added_lines,
    context_with,
    dropped_pieces,
    entries_of,
    placebo_for,
)
from recompact.values.chat import Message, ToolCall, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.trajectory import Boundary

PREFIX = (system("Be brief."), user("The task."))


def count(text: str) -> int:
    return len(text.split())


def turn(number: int) -> Turn:
    call = ToolCall(f"c{number}", "look", f'{{"page": {number}}}')
    return Turn.measured(
        Message("assistant", "", (call,)), (Message("tool", f"page {number}", call_id=call.id),), count
    )


def boundary(old: str, new: str, turns: int = 4, kept: int = 1) -> Boundary:
    every = tuple(map(turn, range(1, turns + 1)))
    summary = Summary.measured(old, count) if old else None
    pre = Context(PREFIX, summary, every)
    post = Context(PREFIX, Summary.measured(new, count), every[turns - kept :])
    return Boundary(2, turns, pre, post, None, ())


OLD = "## Goal\nBuy milk.\n## Done\n- paid t12\n  with a note\n- asked Ann\n## Context\n(none)\n"
NEW = "## Goal\nBuy milk.\n## Done\n- asked Ann\n- asked Bob\n## Context\n(none)"


def test_pieces_are_the_entries_that_are_gone_and_the_dropped_turns() -> None:
    at = boundary(OLD, NEW)
    pieces = dropped_pieces(at, count)
    assert [p.name for p in pieces] == ["entry 1", "turn 1", "turn 2", "turn 3"]
    assert (pieces[0].heading, pieces[0].text) == ("## Done", "- paid t12\n  with a note")
    assert [(p.name, p.text) for p in added_lines(at, count)] == [("line 1", "- asked Bob")]


def test_an_entry_goes_back_under_its_heading_and_a_turn_before_those_that_were_kept() -> None:
    at = boundary(OLD, NEW)
    pieces = dropped_pieces(at, count)
    context = context_with(at, pieces, Intervention(frozenset({"entry 1", "turn 3", "turn 1"})), count)
    assert context.summary is not None
    assert context.summary.text.splitlines()[2:7] == [
        "## Done",
        "- asked Ann",
        "- asked Bob",
        "- paid t12",
        "  with a note",
    ]
    assert context.turns == (turn(1), turn(3), turn(4))
    assert context.prefix == PREFIX


def test_a_heading_that_is_gone_comes_back() -> None:
    at = boundary(OLD, "## Goal\nBuy milk.")
    context = context_with(at, dropped_pieces(at, count), Intervention(frozenset({"entry 1"})), count)
    assert context.summary is not None
    assert context.summary.text == "## Goal\nBuy milk.\n## Done\n- paid t12\n  with a note"


def test_nothing_changed_is_the_context_after_the_compaction() -> None:
    at = boundary(OLD, NEW)
    assert context_with(at, dropped_pieces(at, count), Intervention(), count) == at.post


def test_a_line_is_taken_out() -> None:
    at = boundary(OLD, NEW)
    context = context_with(at, added_lines(at, count), Intervention(out=frozenset({"line 1"})), count)
    assert context.summary is not None
    assert "Bob" not in context.summary.text
    assert "asked Ann" in context.summary.text


LINES = st.lists(
    st.sampled_from(["## A", "## B", "- one", "- two", "  more", "", "(none)", "three", "```"]), max_size=12
)


@given(LINES, LINES, st.integers(1, 5))
def test_everything_back_has_every_entry_and_every_turn(old: list[str], new: list[str], turns: int) -> None:
    at = boundary("\n".join(old), "\n".join(new) or "x", turns)
    pieces = dropped_pieces(at, count)
    whole = context_with(at, pieces, Intervention(frozenset(p.name for p in pieces)), count)
    assert whole.turns == at.pre.turns
    text = " ".join(whole.summary.text.split()) if whole.summary else ""
    for piece in pieces:
        assert piece.turn is not None or " ".join(piece.text.split()) in text
    ids = [call.id for each in whole.turns for call in each.message.calls]
    assert len(ids) == len(set(ids))


@given(LINES, LINES)
def test_all_added_lines_out_leaves_nothing_new(old: list[str], new: list[str]) -> None:
    at = boundary("\n".join(old), "\n".join(new) or "x")
    lines = added_lines(at, count)
    context = context_with(at, lines, Intervention(out=frozenset(p.name for p in lines)), count)
    left = {entry for _, entry in entries_of(context.summary.text if context.summary else "")}
    assert not left & {line.text for line in lines}


@given(st.integers(1, 9), st.sets(st.integers(1, 9), min_size=1))
def test_a_placebo_is_other_pieces_of_at_least_the_same_size(turns: int, chosen: set[int]) -> None:
    pieces = dropped_pieces(boundary("", "x", turns + 1), count)
    names = {f"turn {n}" for n in chosen if n <= turns}
    placebo = placebo_for(names, pieces, "seed")
    assert not placebo & names
    size = {p.name: p.tokens for p in pieces}
    left = [p.name for p in pieces if p.name not in names]
    assert sum(size[n] for n in placebo) >= min(sum(size[n] for n in names), sum(size[n] for n in left))
    assert placebo == placebo_for(names, pieces, "seed")
