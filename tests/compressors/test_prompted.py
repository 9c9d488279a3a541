"""What the compressor model is sent in each scope, and what becomes of summaries that are too long."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import Scripted

from recompact.chat import Message, Reply, ToolCall, ToolSpec, Usage, assistant, system, user
from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import CUT, Prompted, cut
from recompact.compressors.protocol import CompactionFailed, due
from recompact.context import Context, Summary, Turn
from recompact.template import Template, default_template
from recompact.tokens import counter

COUNT = counter()
PREFIX = (system("You are an agent with tools."), user("Find the red book."))
TOOLS = (ToolSpec("look", "Look somewhere."),)


def turn(n: int) -> Turn:
    call = ToolCall(f"c{n}", "look", f'{{"shelf": {n}}}')
    return Turn.measured(assistant("", call), (Message("tool", f"shelf {n} holds a book", call_id=f"c{n}"),), COUNT)


def context(turns: int = 3, summary: str | None = None) -> Context:
    kept = Summary.measured(summary, COUNT) if summary else None
    return Context(PREFIX, kept, tuple(turn(n) for n in range(turns)))


def compressor(model: Any, **settings: Any) -> Prompted:
    return Prompted(model, default_template(), COUNT, task="Find the red book.", tools=TOOLS, **settings)


async def test_first_and_update_and_what_they_consume() -> None:
    model = Scripted("## Goal\nbook", "## Goal\nbook again")
    made = compressor(model)
    compaction = await made.compress(context(), 1000)
    prompt = model.requests[0].messages[-1].content
    assert "shelf 0 holds" in prompt
    assert "shelf 2 holds" not in prompt  # the most recent turn stays verbatim and is not consumed
    assert "<previous-summary>" not in prompt
    assert compaction.context == Context(PREFIX, Summary.measured("## Goal\nbook", COUNT), (turn(2),))
    await made.compress(context(summary="## Goal\nthe old one"), 1000)
    prompt = model.requests[1].messages[-1].content
    assert "<previous-summary>\n## Goal\nthe old one\n</previous-summary>" in prompt


async def test_scope_history_shows_the_task_but_not_the_prefix() -> None:
    model = Scripted("s")
    await compressor(model).compress(context(), 1000)
    head, prompt = model.requests[0].messages
    assert head.content == default_template().system
    assert "<task>\nFind the red book.\n</task>" in prompt.content
    assert "You are an agent with tools." not in prompt.content
    assert not model.requests[0].tools


async def test_scope_prefix_quoted_shows_the_prefix_as_a_block() -> None:
    model = Scripted("s")
    await compressor(model, scope="prefix").compress(context(), 1000)
    prompt = model.requests[0].messages[-1].content
    assert "<prefix>\n[system]\nYou are an agent with tools.\n\n[user]\nFind the red book.\n</prefix>" in prompt
    assert "<task>" not in prompt


async def test_scope_prefix_appended_begins_with_the_agents_own_messages() -> None:
    model = Scripted("s")
    before = context(summary="## Goal\nold")
    await compressor(model, scope="prefix", rendering="appended").compress(before, 1000)
    request = model.requests[0]
    shared = before.messages[: len(before.messages) - 2]  # all but the last turn: what a server has cached
    assert request.messages[:-1] == shared
    assert request.tools == TOOLS
    assert "shelf 0 holds" not in request.messages[-1].content
    assert "## Critical Context" in request.messages[-1].content


async def test_a_template_places_what_it_has_placeholders_for() -> None:
    template = Template("s", "T={{ task }} H={{ history }} B={{ budget }}", "{{ history }}{{ previous_summary }}")
    model = Scripted("s")
    await Prompted(model, template, COUNT, task="a {{ history }} task").compress(context(), 1000)
    prompt = model.requests[0].messages[-1].content
    assert prompt.startswith("T=a {{ history }} task H=[assistant]")  # a value is never expanded again
    assert prompt.endswith(f"B={1000 - turn(2).tokens}")


async def test_over_budget_is_asked_for_once_more_with_the_limit_then_cut_and_marked() -> None:
    long = "## Goal\n" + "\n".join(f"line {n} of a very long summary" for n in range(100))
    model = Scripted(long, "## Goal\nshort")
    compaction = await compressor(model).compress(context(), 200)
    assert compaction.asked_again
    assert not compaction.cut
    assert compaction.context.summary == Summary.measured("## Goal\nshort", COUNT)
    limit = 200 - turn(2).tokens
    again = model.requests[1].messages
    assert again[-2].content == long
    assert f"its limit is {limit}" in again[-1].content

    model = Scripted(long, long)
    compaction = await compressor(model).compress(context(), 200)
    assert compaction.cut
    assert compaction.usage.calls == 2
    summary = compaction.context.summary
    assert summary is not None
    assert summary.tokens <= limit
    assert summary.text.endswith(f"summary\n{CUT}")


@pytest.mark.parametrize("budget", [41, 100, 199])
async def test_half_the_budget_is_the_least_that_a_summary_gets(budget: int) -> None:
    """A last turn that takes more than half leaves less room than that; without the floor there may be none at all."""
    last = Turn.measured(assistant("look"), (user("word " * 300),), COUNT)
    assert last.tokens > budget
    model = Scripted("## Goal\nbook")
    long = Context(PREFIX, None, (turn(0), last))
    await compressor(model).compress(long, budget)
    assert f"{budget // 2}" in model.requests[0].messages[-1].content
    fits = Context(PREFIX, None, (turn(0), turn(1)))
    model = Scripted("## Goal\nbook")
    await compressor(model).compress(fits, 1000)
    assert f"{1000 - turn(1).tokens}" in model.requests[0].messages[-1].content


async def test_a_summary_of_exactly_the_limit_is_taken() -> None:
    text = "## Goal\n" + "book " * 60
    tokens = COUNT(text.strip())
    last = Turn.measured(assistant("look"), (user("word " * 300),), COUNT)
    both = Context(PREFIX, None, (turn(0), last))
    exact = await compressor(Scripted(text)).compress(both, 2 * tokens)
    assert not exact.asked_again
    over = await compressor(Scripted(text, "## Goal\nshort")).compress(both, 2 * tokens - 2)
    assert over.asked_again


async def test_what_was_changed_about_its_replies_is_told() -> None:
    odd = Reply(assistant("## Goal\nbook"), notes=("the content had halves of characters, which were replaced",))
    assert (await compressor(Scripted(odd)).compress(context(), 1000)).notes == odd.notes
    empty = Reply(assistant(""), notes=("its calls were left out",))
    with pytest.raises(CompactionFailed) as failed:
        await compressor(Scripted(empty, empty)).compress(context(), 1000)
    assert failed.value.notes == empty.notes * 2


@pytest.mark.parametrize("reply", ["", Reply(assistant("I cannot."), finish="refusal")])
async def test_no_summary_twice_is_a_failure(reply: Any) -> None:
    with pytest.raises(CompactionFailed):
        await compressor(Scripted(reply, reply)).compress(context(), 1000)


async def test_a_summary_that_ended_at_the_output_limit_is_not_taken_for_whole() -> None:
    model = Scripted(Reply(assistant("## Goal\nunfini"), finish="length"), "## Goal\nwhole")
    compaction = await compressor(model).compress(context(), 1000)
    assert compaction.context.summary is not None
    assert compaction.context.summary.text == "## Goal\nwhole"


def test_cut_keeps_whole_lines() -> None:
    text = "\n".join(f"line {n}" for n in range(50))
    short = cut(text, 60, COUNT)
    assert COUNT(short) <= 60
    *lines, mark = short.split("\n")
    assert mark == CUT
    assert lines == text.split("\n")[: len(lines)]
    assert COUNT("\n".join([*text.split("\n")[: len(lines) + 1], CUT])) > 60


async def test_a_compaction_is_neither_cut_nor_asked_for_again_unless_it_is_said() -> None:
    whole = await Fifo().compress(context(4), 1)
    assert (whole.cut, whole.asked_again, whole.usage, whole.notes) == (False, False, Usage(), ())


def test_what_has_no_turn_cannot_be_compacted_however_long_its_summary_is() -> None:
    long = Summary.measured("a long story " * 50, COUNT)
    assert not due(Context(PREFIX, long, ()), 10)
    assert not due(Context(PREFIX, long, (turn(0),)), 10)
    assert due(Context(PREFIX, long, (turn(0), turn(1))), 10)


async def test_a_summary_that_had_to_be_cut_was_asked_for_twice() -> None:
    long = "\n".join(f"- shelf {n} was looked at and held a book" for n in range(60))
    compaction = await compressor(Scripted(long, long)).compress(context(), 200)
    assert (compaction.asked_again, compaction.cut) == (True, True)
    shorter = await compressor(Scripted(long, "## Goal\nbook")).compress(context(), 200)
    assert (shorter.asked_again, shorter.cut) == (True, False)
    at_once = await compressor(Scripted("## Goal\nbook")).compress(context(), 200)
    assert (at_once.asked_again, at_once.cut) == (False, False)
