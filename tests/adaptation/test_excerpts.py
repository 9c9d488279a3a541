"""Long texts made short: what stays, what is marked, and what is counted as left out."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.adaptation.excerpts import (
    LONG,
    Excerpt,
    block,
    head_and_tail,
    in_segments,
    join_excerpts,
    segments,
    shares,
    shown_turn,
    shown_turns,
    summaries,
    without_middle,
)
from recompact.values.chat import Message, ToolCall, assistant
from recompact.values.context import Context, Summary, Turn
from recompact.values.texts import SLACK
from recompact.values.trajectory import Boundary, Score, Trajectory


def words(text: str) -> int:
    return len(text.split())


def reading(result: str) -> Turn:
    call = ToolCall("c1", "read", "{}")
    return Turn(assistant("I read.", call), (Message("tool", result, (), "c1"),), 1)


@pytest.mark.parametrize(("more", "cut"), [(SLACK - 1, False), (SLACK, True), (SLACK + 1, True)])
def test_a_text_is_cut_only_where_that_saves_more_than_its_mark(more: int, cut: bool) -> None:
    text = "x" * (20 + more)
    excerpt = head_and_tail(text, 20)
    assert (excerpt.text != text) == cut
    assert (excerpt.cuts, excerpt.left_out) == ((1, more) if cut else (0, 0))


def test_an_odd_limit_gives_the_beginning_one_character_more() -> None:
    assert head_and_tail("abc" + "-" * 100 + "xyz", 5).text == "abc [101 characters cut here] yz"


def test_without_a_limit_nothing_is_cut() -> None:
    assert head_and_tail("x" * 10_000, None) == Excerpt("x" * 10_000)


def test_cuts_of_parts_are_added_up() -> None:
    parts = [Excerpt("a", 1, 10), Excerpt("b"), Excerpt("c", 2, 5)]
    assert join_excerpts(", ", parts) == Excerpt("a, b, c", 3, 15)
    assert Excerpt("whole", 4, 40).counting(*parts) == Excerpt("whole", 7, 55)


def test_long_observations_of_a_turn_are_cut_and_what_the_agent_said_is_not() -> None:
    result = "begin " + "x" * 3_000 + " end"
    shown = shown_turn(reading(result), 100)
    assert shown.text.startswith("[assistant]\nI read.\n-> read({})\n[result of read]\nbegin ")
    assert shown.text.endswith(" end")
    assert (shown.cuts, shown.left_out) == (1, len(result) - 100)
    assert shown_turn(reading(result), None).text.endswith(result)
    assert shown_turn(reading(result)).left_out == len(result) - LONG


@pytest.mark.parametrize("level", [LONG, LONG // 4, LONG // 16])
def test_observations_are_shown_as_long_as_the_budget_allows(level: int) -> None:
    turns = [reading("x" * 5_000), reading("y" * 5_000)]
    wanted = join_excerpts("\n\n", [shown_turn(turn, level) for turn in turns])
    assert shown_turns(turns, len(wanted.text), len) == wanted
    assert shown_turns(turns, len(wanted.text) - 1, len) != wanted


def test_where_short_observations_are_still_too_much_the_middle_goes_and_all_cuts_count() -> None:
    turns = [reading("x" * 5_000) for _ in range(9)]
    least = join_excerpts("\n\n", [shown_turn(turn, LONG // 16) for turn in turns])
    shown = shown_turns(turns, len(least.text) // 2, len)
    assert shown.cuts == least.cuts + 1
    assert shown.left_out > least.left_out
    assert "lines cut here]" in shown.text


@pytest.mark.parametrize(("budget", "kept"), [(4, 0), (5, 1), (6, 2), (7, 3), (8, 4), (9, 5), (10, 10)])
def test_as_many_lines_stay_as_fit_beside_the_mark(budget: int, kept: int) -> None:
    lines = [f"l{n}" for n in range(1, 11)]
    shown = without_middle("\n".join(lines), budget, words)
    if kept == 10:
        assert shown == Excerpt("\n".join(lines))
        return
    end = kept // 2
    gone = lines[kept - end : 10 - end]
    assert shown.text.split("\n") == [*lines[: kept - end], f"[{len(gone)} lines cut here]", *lines[10 - end :]]
    assert (shown.cuts, shown.left_out) == (1, sum(len(line) + 1 for line in gone))


def test_a_single_line_that_goes_is_said_in_the_singular() -> None:
    assert without_middle("one\n" + "two " * 30 + "\nthree", 8, words).text == "one\n[1 line cut here]\nthree"


def test_a_long_line_that_stays_is_cut_by_itself_and_one_that_goes_counts_whole() -> None:
    long = "x" * (LONG + 500)
    stays = without_middle(f"{long}\nshort", 2_000, len)
    assert stays.text == f"{head_and_tail(long, LONG).text}\nshort"
    assert (stays.cuts, stays.left_out) == (1, 500)
    goes = without_middle(f"begin\n{long}\nend", 40, len)
    assert goes.text == "begin\n[1 line cut here]\nend"
    mark = len(" [500 characters cut here] ")
    assert goes.left_out == len(long) + 1 + mark


@given(st.lists(st.integers(0, 60), max_size=6), st.integers(0, 150))
def test_shares_fill_the_room_and_small_ones_stay_whole(sizes: list[int], room: int) -> None:
    share = shares(sizes, room)
    assert all(0 <= own <= size for own, size in zip(share, sizes, strict=True))
    assert sum(share) <= room
    if sum(sizes) <= room:
        assert share == sizes
    else:
        assert room - sum(share) < len(sizes)
        largest = max(share)
        assert all(own == size or own >= largest - 1 for own, size in zip(share, sizes, strict=True))


def test_there_is_no_share_of_less_than_no_room() -> None:
    assert shares([5, 7], -3) == [0, 0]


def test_a_block_has_its_attributes_in_order() -> None:
    assert block("run", "text", number=1, arm="PRE") == '<run number="1" arm="PRE">\ntext\n</run>'
    assert block("run", "") == "<run>\n\n</run>"


def played(turns: int, *compacted: int) -> Trajectory:
    """So many turns, with a compaction after so many each; every second one wrote nothing."""
    own = tuple(Turn(assistant(f"turn {n}"), (), 1) for n in range(1, turns + 1))
    boundaries, first = [], 0
    for index, step in enumerate(compacted, 1):
        summary = Summary(f"summary {index}", 2) if index % 2 else None
        pre = Context((), None, own[first:step])
        boundaries.append(Boundary(index, step, pre, Context((), summary, own[step - 1 : step]), None, ()))
        first = step - 1
    return Trajectory("t", own, tuple(boundaries), "finished", Score.of(True), Context((), None, own))


@pytest.mark.parametrize(
    ("compacted", "parts"),
    [((), [(1, 2, 3, 4, 5, 6)]), ((3,), [(1, 2), (3, 4, 5, 6)]), ((3, 5), [(1, 2), (3, 4), (5, 6)])],
)
def test_turns_are_told_apart_by_what_each_compaction_consumed(
    compacted: tuple[int, ...], parts: list[tuple[int, ...]]
) -> None:
    trajectory = played(6, *compacted)
    assert segments(trajectory) == tuple(tuple(trajectory.turns[n - 1] for n in part) for part in parts)
    assert summaries(trajectory) == ("summary 1", "")[: len(compacted)]
    shown = in_segments(trajectory, 10_000, len)
    blocks = []
    for number, part in enumerate(parts, 1):
        text = "\n\n".join(f"[assistant]\nturn {n}" for n in part)
        blocks.append(block("segment", text, number=number))
        if number <= len(compacted):
            blocks.append(block("summary", summaries(trajectory)[number - 1], number=number))
    assert shown == Excerpt("\n".join(blocks))


@pytest.mark.parametrize(("excess", "whole"), [(20, True), (21, False)])
def test_tags_alone_cut_no_trajectory_that_fits(excess: int, whole: bool) -> None:
    trajectory = played(40)
    text = in_segments(trajectory, 10_000, len).text
    shown = in_segments(trajectory, len(text) - excess, len)
    assert (shown == Excerpt(text)) is whole
    assert shown.cuts == (0 if whole else 1)
