"""Pins: what stays word for word, whatever the compressor does; and recall: what it drops can still be searched by the
agent, with a tool that the loop offers. Both work on any compressor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from recompact.compressors.protocol import Compaction, CompactionFailed, Compressor, CompressorInputs
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.values.call_effects import effect_of
from recompact.values.chat import Message, Usage, user
from recompact.values.context import Context, Pin, Turn
from recompact.values.literals import rules_in
from recompact.values.session import Call
from recompact.values.tokens import TokenCounter

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")


class Pinned:
    """Keeps `texts`, results of the calls in `ids`, what the user said in turns where it states rules (`rules`), and
    results of calls that read one of `files`.

    A pinned result stays with its call as long as the call does; after that, and for everything else, the message
    stands after the summary, in its old order. Pins count in the budget.
    """

    def __init__(
        self,
        inputs: CompressorInputs,
        inner: Compressor,
        *,
        texts: Sequence[str] = (),
        ids: Sequence[str] = (),
        rules: bool = True,
        files: Sequence[str] = INSTRUCTIONS,
    ) -> None:
        self._count, self._inner = inputs.count, inner
        self._texts, self._ids, self._rules, self._files = tuple(texts), frozenset(ids), rules, tuple(files)

    async def compress(self, context: Context, budget: int) -> Compaction:
        messages = [*self._standing_texts(context), *(m for turn in context.turns[:-1] for m in self._of_turn(turn))]
        pins = tuple(_pin(message, self._count) for message in dict.fromkeys(messages))
        size = sum(pin.tokens for pin in (*context.pinned, *pins))
        if size > budget:
            reason = f"what is pinned has {size:,} tokens, more than the budget of {budget:,}: pin less, or raise it"
            raise CompactionFailed(reason, Usage())
        compaction = await self._inner.compress(context, budget - sum(pin.tokens for pin in pins))
        return replace(compaction, context=with_pins(compaction.context, context, pins, self._count))

    def _standing_texts(self, context: Context) -> Iterator[Message]:
        """The texts that nothing else shows for good."""
        shown = [message.content for message in (*context.prefix, *(pin.message for pin in context.pinned))]
        yield from (user(text) for text in self._texts if not any(text in content for content in shown))

    def _of_turn(self, turn: Turn) -> Iterator[Message]:
        calls = {call.id: call for call in turn.message.calls}
        for result in turn.results:
            call = calls.get(result.call_id)
            if result.call_id and result.call_id in self._ids:
                yield result
            elif result.role == "user":
                if self._rules and not result.content.startswith("Error:") and rules_in(result.content):
                    yield result
            elif call is not None and self._files:
                try:
                    reads = effect_of(Call(call.id, call.name, call.parsed())).reads
                except ValueError:
                    continue
                if any(read.path.replace("\\", "/").rsplit("/", 1)[-1] in self._files for read in reads):
                    yield result


def check_pins(texts: Sequence[str], budget: int, count: TokenCounter) -> None:
    """Refuse texts that alone are over the budget, before anything is run."""
    if (size := sum(_pin(user(text), count).tokens for text in texts)) > budget:
        raise InputError(f"the pinned texts have {size:,} tokens, more than the budget of {budget:,}")


def with_pins(post: Context, pre: Context, pins: Sequence[Pin], count: TokenCounter) -> Context:
    """The context with every pin in it: in its turn where that is left, or else after the summary."""
    results = {pin.message.call_id: pin.message for pin in pins if pin.message.call_id}
    turns = tuple(_with_results(turn, results, count) for turn in post.turns)
    present = {message for turn in turns for message in turn.results}
    missing = [pin for pin in (*pre.pinned, *pins) if pin.message not in present]
    standing = tuple(dict.fromkeys(replace(pin, message=_alone(pin.message)) for pin in missing))
    return replace(post, turns=turns, pinned=standing)


def _with_results(turn: Turn, results: dict[str, Message], count: TokenCounter) -> Turn:
    whole = tuple(results.get(result.call_id, result) if result.call_id else result for result in turn.results)
    return turn if whole == turn.results else Turn.measured(turn.message, whole, count)


def _alone(message: Message) -> Message:
    """A message that has lost its call: no provider takes a result without one."""
    return user(message.content) if message.role == "tool" else message


def _pin(message: Message, count: TokenCounter) -> Pin:
    return Pin(message, count(message.content) + 4)  # and the frame of a message


class Recall:
    """Offers the tool `recall`, whose results have up to `tokens` tokens. Its calls are steps like any other."""

    recall_tokens = 1_000

    def __init__(
        self, inputs: CompressorInputs, inner: Compressor, *, tokens: Annotated[int, Limit(ge=50)] = recall_tokens
    ) -> None:
        self._inner = inner

    async def compress(self, context: Context, budget: int) -> Compaction:
        return await self._inner.compress(context, budget)
