"""What every strategy must keep to, whatever the history: no orphaned call, nothing enlarged, pins word for word."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Noter
from hypothesis import given, settings, strategies as st

from recompact.compressors.anchors import HEADING, Anchors
from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.errors import InputError, OptionError
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Summary, Turn, replaced_turns
from recompact.values.template import default_template

PREFIX = (system("You are an agent."), user("Do it."))
KINDS = ("fifo", "prompted", "masking", "clear_tool_results", "masking+prompted", "anchors+prompted", "masking+fifo")
RULE = "Never approve requests over 50 without asking me."


def count(text: str) -> int:
    return len(text) // 4 + 1


INPUTS = CompressorInputs(Noter(), default_template(), count)


def turn(number: int, size: int, *, tool: str = "read_file", result: str = "") -> Turn:
    call = ToolCall(f"c{number}", tool, f'{{"path": "notes/file_{number}.txt"}}')
    text = result or f"token-{number}abc9 " + "x" * size
    return Turn.measured(assistant(f"I look at {number}.", call), (Message("tool", text, call_id=call.id),), count)


def history(*sizes: int) -> Context:
    return Context(PREFIX, None, tuple(turn(n, size) for n, size in enumerate(sizes)))


def compress(kind: str, context: Context, budget: int, options: dict[str, Any] | None = None) -> Context:
    compressor = load_compressor(kind, options or {}, Path()).build(INPUTS)
    assert compressor is not None
    return asyncio.run(compressor.compress(context, budget)).context


contexts = st.lists(st.integers(0, 3_000), min_size=2, max_size=15).map(lambda sizes: history(*sizes))


@pytest.mark.parametrize("kind", KINDS)
@given(context=contexts, share=st.floats(0.2, 0.9))
@settings(max_examples=25, deadline=None)
def test_calls_keep_their_results_and_the_last_turn_stays(kind: str, context: Context, share: float) -> None:
    post = compress(kind, context, max(60, int(share * context.size)))
    assert post.turns[-1] == context.turns[-1]
    calls = [call.id for each in post.turns for call in each.message.calls]
    assert calls == [result.call_id for each in post.turns for result in each.results]
    assert len(set(calls)) == len(calls)
    assert post.prefix == context.prefix


@pytest.mark.parametrize("kind", ["fifo", "masking", "clear_tool_results", "masking+fifo"])
@given(context=contexts, share=st.floats(0.2, 0.9))
@settings(max_examples=25, deadline=None)
def test_without_a_model_nothing_is_enlarged_and_twice_is_once(kind: str, context: Context, share: float) -> None:
    budget = max(60, int(share * context.size))
    post = compress(kind, context, budget)
    assert post.size <= context.size
    assert compress(kind, post, budget) == post


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=st.lists(st.integers(0, 3_000), min_size=3, max_size=9), data=st.data())
@settings(max_examples=25, deadline=None)
def test_pins_survive_every_strategy_word_for_word(kind: str, sizes: list[int], data: st.DataObject) -> None:
    context = history(*sizes)
    at = data.draw(st.integers(0, len(sizes) - 2))
    said = Turn.measured(assistant("And now?"), (user(f"Go on.\n{RULE}"),), count)
    pinned_result = context.turns[at].results[0].content
    turns = (*context.turns[:at], context.turns[at], said, *context.turns[at + 1 :])
    context = Context(PREFIX, None, turns)
    options = {"pinned": {"ids": [f"c{at}"], "texts": ["Ask before you pay."]}}
    budget = int(0.5 * context.size) + 900
    for _ in range(3):  # compaction after compaction
        try:
            context = compress(f"pinned+{kind}", context, budget, options)
        except CompactionFailed:  # what is pinned alone is over the budget
            return
        contents = [message.content for message in context.messages]
        assert f"Go on.\n{RULE}" in contents
        assert "Ask before you pay." in contents
        assert contents.count(pinned_result) == 1
        context = context.extended(turn(100 + len(context.turns), 2_000))


def test_pins_over_the_budget_are_refused() -> None:
    with pytest.raises(CompactionFailed, match="pinned"):
        compress("pinned+fifo", history(900, 900, 10), 100, {"pinned": {"ids": ["c0"]}})


def test_instruction_files_are_pinned_by_the_call_that_read_them() -> None:
    call = ToolCall("r", "read_file", '{"path": "/repo/AGENTS.md"}')
    read = Turn.measured(assistant("", call), (Message("tool", "Use tabs.", call_id="r"),), count)
    context = Context(PREFIX, None, (read, *history(900, 900, 10).turns))
    assert [pin.message for pin in compress("pinned+fifo", context, 300).pinned] == [user("Use tabs.")]


def test_masking_names_call_and_size_and_keeps_arguments() -> None:
    context = history(400, 400, 400)
    post = compress("masking", context, 10_000, {"turns": 1})
    assert [each.message for each in post.turns] == [each.message for each in context.turns]
    assert post.turns[0].results[0].content == "[The result of read_file, 412 characters, was left out.]"
    assert replaced_turns(context, post) == (0, 1)


def test_masking_spares_errors_and_other_tools_where_asked() -> None:
    turns = (turn(0, 0, result="Error: " + "y" * 400), turn(1, 400, tool="search"), turn(2, 400), turn(3, 400))
    context = Context(PREFIX, None, turns)
    post = compress("masking", context, 10_000, {"turns": 1, "keep_errors": True})
    assert replaced_turns(context, post) == (1, 2)
    post = compress("masking", context, 10_000, {"turns": 1, "tools": ["search"]})
    assert replaced_turns(context, post) == (1,)


def test_clearing_goes_by_uses_and_spares_excluded_tools() -> None:
    context = Context(PREFIX, None, (turn(0, 400, tool="memory"), *(turn(n, 400) for n in range(1, 6))))
    assert replaced_turns(context, compress("clear_tool_results", context, 1, {"keep": 2})) == (0, 1, 2, 3)
    options = {"keep": 2, "exclude_tools": ["memory"]}
    assert replaced_turns(context, compress("clear_tool_results", context, 1, options)) == (1, 2, 3)
    assert compress("clear_tool_results", context, 1, {"clear_at_least": 100_000}) == context
    assert compress("clear_tool_results", context, 1, {"keep": 7}) == context  # more than there are


def test_a_turn_that_is_equal_was_not_replaced() -> None:
    context = history(10, 20, 30)
    assert replaced_turns(context, replace(context, turns=tuple(replace(each) for each in context.turns))) == ()


def test_what_follows_is_asked_only_where_masking_leaves_no_room() -> None:
    context = history(*[2_000] * 6)
    assert compress("masking+prompted", context, context.size // 2).summary is None
    assert compress("masking+prompted", context, 300).summary is not None


def test_anchors_hold_values_of_replaced_turns_over_several_compactions() -> None:
    context = compress("anchors+prompted", history(900, 900, 10), 600)
    assert context.summary is not None
    for value in ("token-0abc9", "token-1abc9", "notes/file_0.txt"):
        assert value in context.summary.text
    context = compress("anchors+prompted", context.extended(turn(7, 900)).extended(turn(8, 10)), 600)
    assert context.summary is not None
    assert context.summary.text.count(HEADING) == 1
    assert "token-0abc9" in context.summary.text
    assert "token-7abc9" in context.summary.text


@pytest.mark.parametrize(("budget", "most"), [(400, 300), (2_000, 1_744)])
def test_anchors_leave_the_rest_of_the_budget_to_what_they_work_on(budget: int, most: int) -> None:
    """At most a quarter of the budget, and no more than their own limit."""
    granted: list[int] = []

    class Granted:
        async def compress(self, context: Context, budget: int) -> Compaction:
            granted.append(budget)
            return Compaction(Context(context.prefix, Summary("so far", 2), context.turns[-1:]))

    post = asyncio.run(Anchors(INPUTS, Granted()).compress(history(900, 900, 10), budget)).context
    assert granted == [most]
    assert post.summary is not None
    assert 2 < post.summary.tokens <= 2 + budget - most


def test_compositions_are_checked_before_anything_runs() -> None:
    with pytest.raises(InputError, match="prompted"):
        load_compressor("masking+anchors", {}, Path())
    with pytest.raises(OptionError, match="stage"):
        load_compressor("masking+prompted", {"turns": 3}, Path())
    with pytest.raises(OptionError):
        load_compressor("masking+prompted", {"masking": {"turns": 0}}, Path())
    assert load_compressor("masking+prompted", {}, Path()).uses_template


@pytest.mark.parametrize(("keep", "cleared"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0), (9, 0)])
def test_the_newest_results_and_those_of_the_last_turn_are_not_cleared(keep: int, cleared: int) -> None:
    context = history(900, 900, 900, 900)
    post = compress("clear_tool_results", context, 100, {"keep": keep})
    changed = [n for n, (old, new) in enumerate(zip(context.turns, post.turns, strict=True)) if old != new]
    assert changed == list(range(cleared))


def test_results_of_tools_that_are_left_out_stay_and_a_small_gain_is_none() -> None:
    turns = tuple(turn(n, 900, tool="search" if n % 2 else "read_file") for n in range(6))
    context = Context(PREFIX, None, turns)
    post = compress("clear_tool_results", context, 100, {"keep": 0, "exclude_tools": ["search"]})
    changed = [n for n, (old, new) in enumerate(zip(context.turns, post.turns, strict=True)) if old != new]
    assert changed == [0, 2, 4]
    gained = context.size - post.size
    for least, same in ((gained, False), (gained + 1, True)):
        options = {"keep": 0, "exclude_tools": ["search"], "clear_at_least": least}
        assert (compress("clear_tool_results", context, 100, options) == context) is same
