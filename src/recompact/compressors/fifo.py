"""First in, first out: whole oldest turns are dropped until the rest fits. Needs no model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recompact.compressors.protocol import Compaction
from recompact.values.context import Context


@dataclass(frozen=True)
class Fifo:
    """The prefix and the most recent turn always stay, even where that turn alone is over the budget."""

    async def compress(self, context: Context, budget: int) -> Compaction:
        turns = context.turns
        size = context.size
        dropped = 0
        while size > budget and dropped < len(turns) - 1:
            size -= turns[dropped].tokens
            dropped += 1
        return Compaction(replace(context, turns=turns[dropped:]))
