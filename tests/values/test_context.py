"""The trigger of Eq. 1, FIFO and the rendering of contexts."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from recompact.compressors.fifo import Fifo
from recompact.triggers.protocol import Schedule
from recompact.values.chat import Message, Request, ToolCall, assistant, chain_digest, system, user
from recompact.values.context import Context, Summary, Turn, render_turn, summary_message
from recompact.values.tokens import counter

PREFIX = (system("You are an agent."), user("Do it."))

turns = st.lists(st.integers(1, 400), max_size=12).map(
    lambda sizes: tuple(Turn(assistant(f"turn {n}"), (user("ok"),), size) for n, size in enumerate(sizes))
)
summaries = st.none() | st.integers(1, 500).map(lambda size: Summary("so far", size))
contexts = st.builds(Context, st.just(PREFIX), summaries, turns)
budgets = st.integers(1, 1500)


@given(contexts, budgets)
def test_the_trigger_counts_summary_and_turns_but_not_the_prefix(context: Context, budget: int) -> None:
    size = (context.summary.tokens if context.summary else 0) + sum(t.tokens for t in context.turns)
    assert context.size == size
    assert Schedule().due(context, budget, 9) == (size > budget and len(context.turns) >= 2)


@given(contexts.filter(lambda context: len(context.turns) > 1))
def test_size_equal_to_the_budget_is_within_it(context: Context) -> None:
    assert not Schedule().due(context, context.size, 9)
    assert Schedule().due(context, context.size - 1, 9)
    assert asyncio.run(Fifo().compress(context, context.size)).context == context
    without_oldest = context.size - context.turns[0].tokens
    assert asyncio.run(Fifo().compress(context, without_oldest)).context.turns == context.turns[1:]


@given(contexts, budgets)
def test_fifo_drops_whole_oldest_turns_and_no_more_than_it_must(context: Context, budget: int) -> None:
    if not Schedule().due(context, budget, 9):
        return
    after = asyncio.run(Fifo().compress(context, budget)).context
    assert after.prefix == context.prefix
    assert after.turns
    assert after.turns == context.turns[-len(after.turns) :]
    assert after.size <= budget or len(after.turns) == 1
    dropped = len(context.turns) - len(after.turns)
    assert dropped >= 1
    one_more = Context(context.prefix, context.summary, context.turns[dropped - 1 :])
    assert one_more.size > budget


@given(contexts, st.integers(1, 50))
def test_what_is_carried_over_by_extending_equals_what_is_computed_anew(context: Context, tokens: int) -> None:
    call = ToolCall("c1", "look", '{"page": 1}')
    turn = Turn(assistant("", call), (Message("tool", "seen", call_id="c1"),), tokens)
    longer = context.extended(turn)
    fresh = Context(context.prefix, context.summary, (*context.turns, turn))
    assert longer == fresh
    assert (longer.size, longer.messages, longer.digest) == (fresh.size, fresh.messages, fresh.digest)
    assert Request(longer.messages, chain=longer.digest).digest == Request(fresh.messages).digest


def test_a_request_digest_depends_on_every_part() -> None:
    call = ToolCall("c1", "look", "{}")
    conversations = [
        (user("a"),),
        (user("b"),),
        (system("a"),),
        (user("a"), user("a")),
        (assistant("a"),),
        (assistant("a", call),),
        (Message("tool", "a", call_id="c1"),),
    ]
    assert len({chain_digest("", c) for c in conversations}) == len(conversations)


def test_a_context_shows_prefix_then_summary_then_turns() -> None:
    turn = Turn.measured(assistant("hello"), (user("hi"),), counter())
    messages = Context(PREFIX, Summary("the story so far", 4), (turn,)).messages
    assert [m.role for m in messages] == ["system", "user", "user", "assistant", "user"]
    assert "the story so far" in messages[2].content


def test_a_turn_is_rendered_with_the_exact_arguments_and_counted_once() -> None:
    call = ToolCall("c1", "pay", '{"amount": 12.50}')
    turn = Turn.measured(assistant("paying", call), (Message("tool", "paid", call_id="c1"),), counter())
    assert turn.text == '[assistant]\npaying\n-> pay({"amount": 12.50})\n[result of pay]\npaid'
    assert turn.tokens == counter()(turn.text)


def test_counters_agree_with_the_published_vocabularies() -> None:
    # Counts of OpenAI's own tokenizer for these texts.
    assert counter("cl100k")("tiktoken is great!") == 6
    assert counter("o200k")("hello world") == 2
    assert counter("o200k")("lone \ud800 surrogate") > 0


@given(contexts)
def test_the_last_turn_stays_when_the_others_are_consumed(context: Context) -> None:
    assert context.last == (context.turns[len(context.turns) - 1] if context.turns else None)
    before = context.before_last()
    assert (*before.turns, *([context.last] if context.last else [])) == context.turns
    assert (before.prefix, before.summary) == (context.prefix, context.summary)
    assert context.history == "\n\n".join(f"[assistant]\nturn {n}\n[user]\nok" for n in range(len(context.turns)))


def test_a_turn_without_words_or_with_a_result_of_no_call_is_rendered_too() -> None:
    call = ToolCall("c1", "look", "{}")
    assert render_turn(assistant("", call), ()) == "[assistant]\n-> look({})"
    assert render_turn(assistant("hm"), (Message("tool", "seen", call_id="c9"),)) == "[assistant]\nhm\n[tool]\nseen"
    turn = Turn(assistant("hm", call), (user("a"), user("b")), 3)
    assert turn.messages == (turn.message, user("a"), user("b"))


def test_a_summary_is_counted_without_the_words_around_it() -> None:
    assert Summary.measured("so far", len) == Summary("so far", 6)
    shown = summary_message("so far")
    assert shown.role == "user"
    assert shown.content.endswith("\n<summary>\nso far\n</summary>")
