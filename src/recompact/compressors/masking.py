"""Masking: results of older calls become a line that names the call and the size; the calls and their arguments stay.

No model is asked. What was masked is still known to have been done, and can be asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

from recompact.compressors.protocol import Compaction, CompressorInputs, has_room
from recompact.registry import Limit
from recompact.values.call_effects import reports_error
from recompact.values.chat import Message
from recompact.values.context import Context, Turn
from recompact.values.tokens import TokenCounter

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
    results = tuple(
        _mask(result, names[result.call_id])
        if result.role == "tool" and result.call_id in names and maskable(names[result.call_id], result)
        else result
        for result in turn.results
    )
    if all(new is old for new, old in zip(results, turn.results, strict=True)):
        return turn
    smaller = Turn.measured(turn.message, results, count)
    return smaller if smaller.tokens < turn.tokens else turn


def _mask(result: Message, name: str) -> Message:
    line = f"{_BEGINNING}{' '.join(name.split())[:200]}, {len(result.content):,} characters, was left out.]"
    return result if len(line) >= len(result.content) or is_mask(result.content) else replace(result, content=line)


def is_mask(text: str) -> bool:
    """Whether a result was left out, and only a line stands for it."""
    return text.startswith(_BEGINNING) and _MASK.fullmatch(text) is not None
