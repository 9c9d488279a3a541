"""Masking: results of older calls become a line that names the call and the size; the calls and their arguments stay.

No model is asked. What was masked is still known to have been done, and can be asked for again. Clearing of tool
results is the same as the last uses of tools decide it, as in Anthropic's context editing and Inspect's `edit`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated

from recompact.compressors.protocol import Compaction, CompressorInputs, has_room
from recompact.registry import Limit
from recompact.values.call_effects import reports_error
from recompact.values.chat import Message
from recompact.values.context import Context, Turn, render_result
from recompact.values.tokens import BytePairs, TokenCounter

_BEGINNING = "[The result of "
_MASK = re.compile(re.escape(_BEGINNING) + r"[^\n]{1,200}, [\d,]+ characters, was left out\.\]")


class Masking:
    """Masks the results of all calls before the last `turns` turns; of fewer, where that leaves too little room. The
    most recent turn always stays. `tools` are those whose results may be masked (default: all)."""

    def __init__(
        self,
        inputs: CompressorInputs,
        *,
        turns: Annotated[int, Limit(ge=1)] = 10,
        tools: Sequence[str] = (),
        keep_errors: bool = False,
    ) -> None:
        self._count, self._turns = inputs.count, turns
        self._tools, self._keep_errors = frozenset(tools), keep_errors

    async def compress(self, context: Context, budget: int) -> Compaction:
        turns, size = list(context.turns), context.size
        for n, turn in enumerate(context.turns[:-1]):
            if n >= len(turns) - self._turns and has_room(size, budget):
                break
            turns[n] = mask_results(turn, self._maskable, self._count)
            size += turns[n].tokens - turn.tokens
        return Compaction(replace(context, turns=tuple(turns)))

    def _maskable(self, name: str, result: Message) -> bool:
        return (not self._tools or name in self._tools) and not (self._keep_errors and reports_error(result.content))


def mask_results(turn: Turn, maskable: Callable[[str, Message], bool], count: TokenCounter) -> Turn:
    """The turn with a line in place of each result that may be masked; the turn itself where that saves nothing."""
    names = {call.id: call.name for call in turn.message.calls}
    results, sizes = list(turn.results), {}
    for n, result in enumerate(turn.results):
        name = names.get(result.call_id) if result.role == "tool" else None
        if name is None or not maskable(name, result):
            continue
        size = len(result.content)
        line = _line(name, size)
        if len(line) < size and not is_mask(result.content):
            results[n], sizes[n] = Message("tool", line, result.calls, result.call_id, result.thoughts), size
    if not sizes:
        return turn
    if turn.said and isinstance(count, BytePairs):
        tokens = turn.said
        for n, result in enumerate(results):
            end = "\n" if n + 1 < len(results) else ""
            if n in sizes:
                tokens += _line_tokens(count, names[result.call_id], (len(str(sizes[n])) - 1) // 3, end)
            else:
                tokens += count(render_result(result, names.get(result.call_id)) + end)
        smaller = Turn(turn.message, tuple(results), tokens, turn.said)
    else:
        smaller = Turn.measured(turn.message, tuple(results), count)
    return smaller if smaller.tokens < turn.tokens else turn


@lru_cache(256)
def _line_tokens(count: TokenCounter, name: str, thousands: int, end: str) -> int:
    """The tokens of a masked result with its heading: they depend on the name and on how often digits are grouped."""
    return count(render_result(Message("tool", _line(name, 1000**thousands)), name) + end)


def _line(name: str, size: int) -> str:
    return f"{_BEGINNING}{' '.join(name.split())[:200]}, {size:,} characters, was left out.]"


def is_mask(text: str) -> bool:
    """Whether a result was left out, and only a line stands for it."""
    return text.startswith(_BEGINNING) and _MASK.fullmatch(text) is not None


class ClearToolResults:
    """Clears the results of all uses of tools but the last `keep`, whatever the budget; the options have the names of
    Anthropic's API. `exclude_tools` are never
    cleared, and nothing is unless it frees at least `clear_at_least` tokens. The most recent turn always stays."""

    def __init__(
        self,
        inputs: CompressorInputs,
        *,
        keep: Annotated[int, Limit(ge=0)] = 3,
        exclude_tools: Sequence[str] = (),
        clear_at_least: Annotated[int, Limit(ge=0)] = 0,
    ) -> None:
        self._count, self._keep = inputs.count, keep
        self._excluded, self._at_least = frozenset(exclude_tools), clear_at_least

    async def compress(self, context: Context, budget: int) -> Compaction:
        uses = [c.id for turn in context.turns for c in turn.message.calls if c.name not in self._excluded]
        last = {call.id for turn in context.turns[-1:] for call in turn.message.calls}
        clearable = set(uses[: max(0, len(uses) - self._keep)]) - last
        turns = tuple(
            mask_results(turn, lambda name, result: result.call_id in clearable, self._count) for turn in context.turns
        )
        smaller = replace(context, turns=turns)
        return Compaction(smaller if context.size - smaller.size >= self._at_least else context)
