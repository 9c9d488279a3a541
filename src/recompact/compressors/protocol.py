"""A compressor takes a context that is over its budget and gives back a smaller one (the paper's Eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from recompact.chat import Usage
from recompact.context import Context


@dataclass(frozen=True)
class Compaction:
    """What one compaction gave."""

    context: Context
    usage: Usage = Usage()
    asked_again: bool = False
    cut: bool = False


class Compressor(Protocol):
    """Replaces history. The prefix and the most recent turn always stay as they are."""

    async def compress(self, context: Context, budget: int) -> Compaction: ...


class CompactionFailed(Exception):
    """No usable summary came back. The rollout goes on with the context as it was and records the incident."""

    def __init__(self, text: str, usage: Usage) -> None:
        super().__init__(text)
        self.usage = usage


def due(context: Context, budget: int) -> bool:
    """The trigger of Eq. 1: |z̄| > B, checked before each agent call.

    The prefix is not counted. A context with nothing but its most recent turn cannot get smaller, however large that
    turn is, so it is left alone: otherwise one long observation would be compacted for ever.
    """
    return context.size > budget and len(context.turns) > 1
