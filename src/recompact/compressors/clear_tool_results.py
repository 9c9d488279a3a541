"""Clearing of tool results as Anthropic's context editing and Inspect's `edit` do it: the last uses of tools stay,
older results are emptied. The options have the names of that API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from recompact.compressors.masking import mask_results
from recompact.compressors.protocol import Compaction, CompressorInputs
from recompact.registry import Limit
from recompact.values.context import Context


class ClearToolResults:
    """Clears the results of all uses of tools but the last `keep`, whatever the budget. `exclude_tools` are never
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
        return Compaction(smaller if context.size - smaller.size >= max(1, self._at_least) else context)
