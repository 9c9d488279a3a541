"""What the compressor model is sent in each scope, and what becomes of summaries that are too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from fakes import Scripted
from hypothesis import given, strategies as st

from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import ABOVE, CUT, KIND, Prompted, cut
from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs
from recompact.models.failures import ContextOverflow, Refused
from recompact.triggers.protocol import Schedule
from recompact.values.chat import Decoding, Message, Reply, ToolCall, ToolSpec, Usage, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import Template, default_template
from recompact.values.tokens import counter

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


async def test_where_the_agent_was_told_no_task_the_compressor_sees_what_opened_the_conversation() -> None:
    """tau2: the task is what the customer writes, and the line that describes all tasks is in nobody's prefix."""
    prefix = (system("The policy."), assistant("Hi! How can I help?"), user("My lamp\narrived broken."))
    conversation = replace(context(), prefix=prefix)
    model = Scripted("s", "s", "s")
    await Prompted(model, default_template(), COUNT, task="Serve the customer.").compress(conversation, 1000)
    prompt = model.requests[0].messages[-1].content
    shown = "[assistant]\nHi! How can I help?\n\n[user]\nMy lamp\narrived broken."
    assert prompt.startswith(f"<opening>\n{shown}\n</opening>\n")
    assert "Serve the customer." not in prompt
    assert "<task>" not in prompt
    assert "The policy." not in prompt
    own = Template("s", "T={{ task }} H={{ history }}", "{{ history }}{{ previous_summary }}")
    await Prompted(model, own, COUNT, task="Serve the customer.").compress(conversation, 1000)
    assert model.requests[1].messages[-1].content.startswith(f"T={shown} H=")
    await Prompted(model, default_template(), COUNT, task="My lamp arrived broken.").compress(conversation, 1000)
    assert "<task>\nMy lamp arrived broken.\n</task>" in model.requests[2].messages[-1].content


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
    told = replace(context(), prefix=(user("a {{ history }} task"),))
    await Prompted(model, template, COUNT, task="a {{ history }} task").compress(told, 1000)
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
    assert not Schedule().due(Context(PREFIX, long, ()), 10, 2)
    assert not Schedule().due(Context(PREFIX, long, (turn(0),)), 10, 2)
    assert Schedule().due(Context(PREFIX, long, (turn(0), turn(1))), 10, 2)


async def test_a_summary_that_had_to_be_cut_was_asked_for_twice() -> None:
    long = "\n".join(f"- shelf {n} was looked at and held a book" for n in range(60))
    compaction = await compressor(Scripted(long, long)).compress(context(), 200)
    assert (compaction.asked_again, compaction.cut) == (True, True)
    shorter = await compressor(Scripted(long, "## Goal\nbook")).compress(context(), 200)
    assert (shorter.asked_again, shorter.cut) == (True, False)
    at_once = await compressor(Scripted("## Goal\nbook")).compress(context(), 200)
    assert (at_once.asked_again, at_once.cut) == (False, False)


# --- what is sent


BOUNDED = Template("", "{{ history }}|{{ budget }}", "{{ previous_summary }}|{{ history }}|{{ budget }}")


def words(text: str) -> int:
    return len(text.split())


def said(made: Prompted, consumed: Context, limit: int = 100) -> str:
    (message,) = made.messages(consumed, limit)
    assert message.role == "user"
    return message.content


def test_history_and_previous_summary_stand_where_the_template_has_them() -> None:
    made = Prompted(Scripted(), BOUNDED, COUNT)
    history = context(1).history
    assert said(made, context(1), 77) == f"{history}|77"
    assert said(made, context(1, "the old one"), 77) == f"the old one|{history}|77"


@pytest.mark.parametrize(("head", "roles"), [("", ["user"]), (" \n", ["user"]), ("Be brief.", ["system", "user"])])
def test_a_system_prompt_is_sent_where_the_template_has_one(head: str, roles: list[str]) -> None:
    made = Prompted(Scripted(), Template(head, "{{ history }}", "{{ history }}"), COUNT)
    assert [message.role for message in made.messages(context(), 100)] == roles


@pytest.mark.parametrize("rendering", ["quoted", "appended"])
def test_in_scope_history_the_rendering_does_not_matter(rendering: Any) -> None:
    made = Prompted(Scripted(), BOUNDED, COUNT, task="Find the red book.", tools=TOOLS, rendering=rendering)
    block = "<task>\nFind the red book.\n</task>\nThe task above is authoritative and stays in the agent's view.\n\n"
    assert said(made, context(1)) == f"{block}{context(1).history}|100"


def test_the_task_is_shown_once_and_only_if_there_is_one() -> None:
    placed = Template("", "{{ history }} for {{ task }}", "{{ history }}")
    assert (
        said(Prompted(Scripted(), placed, COUNT, task="red book"), context(1)) == f"{context(1).history} for red book"
    )
    assert said(Prompted(Scripted(), BOUNDED, COUNT), context(1)) == f"{context(1).history}|100"


def test_the_prefix_is_shown_once_in_its_own_block_or_where_the_template_has_it() -> None:
    call = ToolCall("c", "look", '{"shelf": 1}')
    prefix = (system("Be an agent."), assistant("I look.", call, call), Message("tool", "a book", call_id="c"))
    shown = (
        '[system]\nBe an agent.\n\n[assistant]\nI look.\n-> look({"shelf": 1})\n-> look({"shelf": 1})\n\n[tool]\na book'
    )
    consumed = Context(prefix, None, (turn(0),))
    made = Prompted(Scripted(), BOUNDED, COUNT, task="X", scope="prefix")
    block = f"<prefix>\n{shown}\n</prefix>\nThe prefix above stays in the agent's view unchanged.\n\n"
    assert said(made, consumed) == f"{block}{consumed.history}|100"
    placed = Template("", "{{ history }} after {{ prefix }}", "{{ history }}")
    made = Prompted(Scripted(), placed, COUNT, task="X", scope="prefix")
    assert said(made, consumed) == f"{consumed.history} after {shown}"


async def test_tools_are_sent_only_with_the_agents_own_messages() -> None:
    for scope, rendering, tools in (
        ("history", "quoted", ()),
        ("history", "appended", ()),
        ("prefix", "quoted", ()),
        ("prefix", "appended", TOOLS),
    ):
        model = Scripted("s")
        settings: dict[str, Any] = {"scope": scope, "rendering": rendering}
        await compressor(model, **settings).compress(context(), 1000)
        assert model.requests[0].tools == tools
        assert model.requests[0].decoding == Decoding(max_output_tokens=8192)


@pytest.mark.parametrize(("summary", "part"), [(None, "first"), ("the old one", "update")])
@pytest.mark.parametrize("head", ["Be brief.", " "])
def test_appended_the_instruction_comes_last_and_repeats_nothing(summary: str | None, part: str, head: str) -> None:
    """What the template has no place for is not framed either: the messages above say it."""
    template = Template(head, "Write first, {{ budget }}.", "Write update, {{ budget }}.")
    consumed = context(2, summary)
    made = Prompted(Scripted(), template, COUNT, task="X", tools=TOOLS, scope="prefix", rendering="appended")
    *above, last = made.messages(consumed, 50)
    assert tuple(above) == consumed.messages
    instruction = f"Write {part}, 50."
    assert last == user(f"{head.strip()}\n\n{instruction}" if head.strip() else instruction)


def test_appended_a_template_that_places_the_history_itself_points_above() -> None:
    template = Template("", "H={{ history }} P={{ prefix }}", "H={{ history }} S={{ previous_summary }} T={{ task }}")
    made = Prompted(Scripted(), template, COUNT, task="red book", scope="prefix", rendering="appended")
    assert made.messages(context(), 50)[-1] == user(f"H={ABOVE} P={ABOVE}")
    assert made.messages(context(3, "the old one"), 50)[-1] == user(f"H={ABOVE} S={ABOVE} T=red book")


FRAME = "<log>{{ history }}</log>\n\n<old>{{ previous_summary }}</old>\n\n{{ instructions }}"


def test_a_template_without_a_place_for_the_history_is_framed() -> None:
    made = Prompted(Scripted(), Template("", "Sum up.", "Go on.", FRAME), COUNT)
    log = f"<log>{context(1).history}</log>\n\n"
    assert said(made, context(1)) == f"{log}Sum up."
    assert said(made, context(1, "before")) == f"{log}<old>before</old>\n\nGo on."


def test_appended_a_frame_is_needed_only_by_what_places_the_history_itself() -> None:
    template = Template("", "Sum up.", "Go on from {{ history }}.", FRAME)
    made = Prompted(Scripted(), template, COUNT, scope="prefix", rendering="appended")
    assert made.messages(context(), 50)[-1] == user("Sum up.")
    assert made.messages(context(3, "before"), 50)[-1] == user(f"<old>{ABOVE}</old>\n\nGo on from {ABOVE}.")


def test_the_kind_hands_on_all_that_an_episode_has() -> None:
    decoding = Decoding(max_output_tokens=5)
    model = Scripted()
    inputs = CompressorInputs(model, BOUNDED, words, "X", TOOLS, decoding, scope="prefix", rendering="appended")
    assert KIND.uses_template
    same = Prompted(model, BOUNDED, words, "X", TOOLS, decoding, scope="prefix", rendering="appended")
    assert KIND.build(inputs) == same


# --- what becomes of the replies


async def compacted(*replies: Any, limit: int = 5) -> tuple[Compaction, Scripted]:
    """A compaction where a summary may have so many words."""
    model = Scripted(*replies)
    both = Context(PREFIX, None, (turn(0), Turn(assistant("look"), (), limit)))
    return await Prompted(model, BOUNDED, words).compress(both, 2 * limit), model


def text_of(compaction: Compaction) -> str:
    assert compaction.context.summary is not None
    return compaction.context.summary.text


@pytest.mark.parametrize(("text", "asked_again"), [("a b c d", False), (" a b c d e\n", False), ("a b c d e f", True)])
async def test_a_summary_within_the_limit_is_taken_at_once(text: str, asked_again: bool) -> None:
    compaction, model = await compacted(text, "short")
    assert compaction.asked_again is asked_again
    assert not compaction.cut
    assert text_of(compaction) == ("short" if asked_again else text.strip())
    assert compaction.usage.calls == len(model.requests) == 1 + asked_again


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        ("", "That was not a record. Write the record now, as plain text, within 5 tokens."),
        (" \n", "That was not a record. Write the record now, as plain text, within 5 tokens."),
        (
            "a b c d e f",
            "That record has 6 tokens and its limit is 5. Write the whole record again within the limit: same headings,"
            " shorter entries, and keep what the next steps depend on.",
        ),
    ],
)
async def test_it_is_asked_again_with_what_was_wrong(first: str, complaint: str) -> None:
    compaction, model = await compacted(first, "short")
    assert model.requests[1].messages == (*model.requests[0].messages, assistant(first.strip()), user(complaint))
    assert (compaction.asked_again, compaction.cut, text_of(compaction)) == (True, False, "short")


@pytest.mark.parametrize(
    ("replies", "begins"),
    [
        (("x\ny\na b c d e f g h i j k", "v\na b c d e f g h i j k l m"), "x"),
        (("v\na b c d e f g h i j k l m", "x\ny\na b c d e f g h i j k"), "x"),
        (("one\na b c d e f g h i j k l", "two\na b c d e f g h i j k l"), "one"),  # of the same length: the first
        (("v\na b c d e f g h i j k l m", ""), "v"),
        (("", "v\na b c d e f g h i j k l m"), "v"),
        ((Reply(assistant("no"), finish="refusal"), "v\na b c d e f g h i j k l m"), "v"),
        (("v\na b c d e f g h i j k l m", Reply(assistant("no"), finish="refusal")), "v"),
        (("v\na b c d e f g h i j k l m", Reply(assistant("x\nunfinished"), finish="length")), "x"),
    ],
)
async def test_of_two_that_are_not_whole_the_shorter_one_is_cut(replies: tuple[Any, ...], begins: str) -> None:
    compaction, _ = await compacted(*replies, limit=12)
    assert (compaction.asked_again, compaction.cut) == (True, True)
    assert text_of(compaction).startswith(f"{begins}\n")
    assert text_of(compaction).endswith(CUT)


async def test_a_refusal_is_not_taken_for_a_summary() -> None:
    compaction, model = await compacted(Reply(assistant("no"), finish="refusal"), "short")
    assert text_of(compaction) == "short"
    assert len(model.requests) == 2


async def test_both_replies_are_paid_for_and_what_was_odd_about_them_is_told() -> None:
    first = Reply(assistant("a b c d e f"), Usage(10, 6, 0, 0, 1), notes=("one",))
    second = Reply(assistant("short"), Usage(20, 1, 0, 0, 1), notes=("two",))
    compaction, _ = await compacted(first, second)
    assert (compaction.usage, compaction.notes) == (Usage(30, 7, 0, 0, 2), ("one", "two"))
    compaction, _ = await compacted(first, first)
    assert (compaction.usage, compaction.notes) == (Usage(20, 12, 0, 0, 2), ("one", "one"))
    empty = Reply(assistant(""), Usage(3, 0, 0, 0, 1))
    with pytest.raises(CompactionFailed, match="twice") as failed:
        await compacted(empty, empty)
    assert failed.value.usage == Usage(6, 0, 0, 0, 2)


@pytest.mark.parametrize("failure", [ContextOverflow("the window is full"), Refused("not this")])
async def test_where_a_shorter_summary_cannot_be_asked_for_the_first_is_cut_and_paid_for(failure: Exception) -> None:
    """The second request carries the first reply as well, so it is the longer one."""
    first = Reply(assistant("a b\nc d\ne f\ng h\ni j\nk l\nm n"), Usage(10, 14, 0, 0, 1), notes=("one",))
    compaction, model = await compacted(first, failure, limit=12)
    assert len(model.requests) == 2
    assert (compaction.asked_again, compaction.cut, compaction.usage) == (True, True, first.usage)
    assert text_of(compaction).startswith("a b\n")
    assert text_of(compaction).endswith(CUT)
    note, more = compaction.notes
    assert (note, more.endswith(f": {failure}")) == ("one", True)
    empty = Reply(assistant(""), Usage(3, 0, 0, 0, 1), notes=("odd",))
    with pytest.raises(CompactionFailed, match=f": {failure}$") as failed:
        await compacted(empty, failure)
    assert (failed.value.usage, failed.value.notes) == (empty.usage, ("odd",))
    with pytest.raises(type(failure)):  # nothing was written or paid for yet
        await compacted(failure)


async def test_the_prefix_and_the_last_turn_stay_beside_the_summary() -> None:
    before = context(3, "the old one")
    after = (await compressor(Scripted("new")).compress(before, 1000)).context
    assert after == Context(PREFIX, Summary.measured("new", COUNT), (turn(2),))


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(0, 40))
@examples(50)
def test_cut_keeps_as_many_first_lines_as_fit_with_the_mark(sizes: list[int], limit: int) -> None:
    lines = [" ".join(["word"] * size) for size in sizes]
    *kept, mark = cut("\n".join(lines), limit, words).split("\n")
    assert mark == CUT
    assert kept == lines[: len(kept)]
    used = words(CUT)
    assert used + sum(sizes[: len(kept)]) <= limit or not kept
    if len(kept) < len("\n".join(lines).splitlines()):
        assert used + sum(sizes[: len(kept) + 1]) > limit
