"""What a compaction dropped, in pieces: all of it, each once, and put back in its place."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.attribution.bisection.pieces import (
    Intervention,
    Piece,
    added_lines,
    context_with,
    dropped_pieces,
    entries_of,
    placebo_for,
    statements_in,
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


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("- a\n- b", ["- a", "- b"]),
        ("- a\n  more\n\n  and more\n- b", ["- a\n  more\n  and more", "- b"]),
        ("  indented first\n- b", ["  indented first", "- b"]),
        ("- code:\n```\nx\n\ny\n```\n- b", ["- code:\n```\nx\n\ny\n```", "- b"]),  # belongs to what it follows
        ("```\nx\n```\n- b", ["```\nx\n```", "- b"]),
        ("~~~\nx\n~~~\n```\ny\n```\nlast", ["~~~\nx\n~~~\n```\ny\n```", "last"]),
        ("- open\n```\nx\n- y", ["- open\n```\nx\n- y"]),  # a fence that nobody closed goes on to the end
        ("\n \n", []),
    ],
)
def test_an_entry_is_a_line_with_what_is_indented_or_fenced_below_it(text: str, entries: list[str]) -> None:
    assert [entry for _, entry in entries_of(text)] == entries


@pytest.mark.parametrize("nothing", ["none", "(none)", "- N/A", "nothing.", "- ", "---", "None yet"])
def test_an_entry_that_says_that_there_is_nothing_is_no_piece(nothing: str) -> None:
    pieces = dropped_pieces(boundary(f"## Open\n{nothing}\n- pay", "x", 1), count)
    said = [] if nothing != "None yet" else [("entry 1", nothing)]
    assert [(p.name, p.text) for p in pieces] == [*said, (f"entry {len(said) + 1}", "- pay")]


def test_an_entry_that_is_said_twice_is_one_piece_with_its_size() -> None:
    pieces = dropped_pieces(boundary("## A\n- pay  Ann\n- b\n## B\n- pay Ann\n- c", "## A\n-  b", 2), count)
    assert pieces == (
        Piece("entry", 1, "- pay  Ann", 3, "## A"),
        Piece("entry", 2, "- c", 2, "## B"),
        Piece("turn", 1, turn(1).text, turn(1).tokens),
    )


@pytest.mark.parametrize(
    ("summary", "back", "text"),
    [
        ("## A\n(none)\n## B\n- b", "## A", "## A\n- back\n## B\n- b"),  # in the place of nothing
        ("## A\n- a\n\n\n## B\n- b", "## A", "## A\n- a\n- back\n## B\n- b"),
        ("## A", "## A", "## A\n- back"),
        ("## A\n- a", "### C", "## A\n- a\n### C\n- back"),
        ("## A\n- a\n", "### C", "## A\n- a\n### C\n- back"),
        ("## A\n- a\n## B\n- b", "## C", "## A\n- a\n## B\n- b\n## C\n- back"),
        ("plain", "", "plain\n- back"),
        ("", "## A", "## A\n- back"),
    ],
)
def test_where_an_entry_goes_back_to(summary: str, back: str, text: str) -> None:
    piece = Piece("entry", 1, "- back", 2, back)
    context = context_with(boundary("", summary), [piece], Intervention.of(["entry 1"]), count)
    assert context.summary == Summary.measured(text, count)


def test_two_entries_under_a_heading_that_is_gone_come_back_under_one() -> None:
    pieces = dropped_pieces(boundary("## A\n- one\n- two\n## B\n- three", "## B\nelse", 1), count)
    context = context_with(
        boundary("", "## B\nelse"), pieces, Intervention.of(["entry 2", "entry 1", "entry 3"]), count
    )
    assert context.summary == Summary.measured("## B\nelse\n- three\n## A\n- one\n- two", count)


def test_a_summary_of_which_every_line_is_taken_out_is_none() -> None:
    at = boundary("", "- a\n- b")
    assert context_with(at, added_lines(at, count), Intervention.of(["line 1", "line 2"]), count).summary is None


def test_lines_are_taken_out_and_all_else_is_put_back() -> None:
    assert Intervention.of(["line 2", "entry 1", "turn 3", "request 1"]) == Intervention(
        frozenset({"entry 1", "turn 3", "request 1"}), frozenset({"line 2"})
    )
    assert Intervention.of(["line 10", "turn 1", "line 9", "entry 2"]).key == "entry.2,turn.1,line.9,line.10"


def test_a_result_that_was_shortened_goes_back_into_its_place() -> None:
    first, second, third, fourth, last = every = tuple(map(turn, range(1, 6)))
    short = Turn.measured(fourth.message, (Message("tool", "short", call_id="c4"),), count)
    at = Boundary(1, 5, Context(PREFIX, None, every), Context(PREFIX, None, (third, short, last)), None, ())
    pieces = dropped_pieces(at, count)
    assert [p.turn for p in pieces] == [first, second, fourth]
    back = {
        ("turn 2",): (second, third, short, last),
        ("turn 3",): (third, fourth, last),
        ("turn 3", "turn 2"): (second, third, fourth, last),
    }
    for names, turns in back.items():
        assert context_with(at, pieces, Intervention.of(names), count).turns == turns
    assert context_with(at, pieces, Intervention.of(p.name for p in pieces), count) == at.pre


def test_statements_are_added_lines_with_nothing_of_their_source_and_the_request_where_it_is_retold() -> None:
    at = boundary("", "## Goal\n- buy t77\n- read page 12\n- done", 12)
    lines = added_lines(at, count)
    request = Piece("request", 1, "Buy milk and  bread.", 4, "## Goal")
    assert statements_in(at, lines, "Buy milk and  bread.", count) == (lines[0], lines[2], request)
    assert statements_in(at, lines, " \n", count) == (lines[0], lines[2])
    verbatim = boundary("", "intro\n# Goal\nBuy milk\nand bread.")
    assert statements_in(verbatim, (), "Buy milk and  bread.", count) == ()
    assert statements_in(boundary("", "only text"), (), "Buy.", count) == (Piece("request", 1, "Buy.", 1, ""),)
    none = Boundary(1, 1, Context(PREFIX), Context(PREFIX), None, ())
    assert statements_in(none, (), "Buy.", count) == ()


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@given(SIZES, st.data())
def test_a_placebo_has_no_piece_more_than_it_needs(sizes: list[int], data: st.DataObject) -> None:
    pieces = [Piece("turn", n, "x", size) for n, size in enumerate(sizes, 1)]
    chosen = data.draw(st.sets(st.sampled_from([p.name for p in pieces])))
    placebo = placebo_for(chosen, pieces, "seed")
    size = sum(p.tokens for p in pieces if p.name in chosen)
    own = [p.tokens for p in pieces if p.name in placebo]
    assert not own or any(sum(own) - last < size for last in own)
    assert sum(own) >= size or placebo == {p.name for p in pieces} - chosen
