"""What tokens cost where a server keeps a prompt cache, and after how many calls a compaction has paid for itself.

Everything is in tokens of uncached input, so that no figure depends on a provider's money.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from recompact.values.chat import Usage

READ, WRITE, OUTPUT = 0.1, 1.25, 5.0
"""The usual prices of tokens that are read from a prompt cache, written to it, or put out, where one of input is 1."""

PRICES = (
    f"thousand tokens of uncached input, where one from the cache costs {READ}, one written to it {WRITE}, one of"
    f" output {OUTPUT:g}"
)


def same_beginning(pre: Iterable[tuple[Any, int]], post: Iterable[tuple[Any, int]]) -> int:
    """Of two contexts as parts with their tokens, how much is the same from the beginning on: what a cache still has.

    >>> same_beginning([("a", 5), ("b", 7)], [("a", 5), ("c", 7), ("b", 7)])
    5
    """
    size = 0
    for (old, tokens), (new, _) in zip(pre, post, strict=False):
        if old != new:
            break
        size += tokens
    return size


def cost_of_summary(usage: Usage) -> float:
    """What a compressor's calls cost: its prompt is new each time, unless the server says that it had it."""
    return (usage.input - usage.cached) + READ * usage.cached + OUTPUT * usage.output


def cost(usage: Mapping[str, Usage], cached: float) -> float:
    """What an episode cost. Of what the agent read, the share `cached` came from the cache, and the rest was written
    to it."""
    agent, compressor = usage.get("agent", Usage()), usage.get("compressor", Usage())
    read = READ * cached + WRITE * (1 - cached)
    return read * agent.input + OUTPUT * agent.output + cost_of_summary(compressor)


@dataclass(frozen=True)
class CompactionBill:
    """What a compaction cost and saves. The first call after it reads `read` tokens of the new history from the cache
    and writes `written` to it; before it, all of the old history would have come from there. `saved` is how many tokens
    fewer every later call reads, `summary` what the compressor's calls cost (0 where that is unknown).

    >>> bill = CompactionBill(read=0, written=1_000, saved=9_000, summary=10_000.0)
    >>> bill.cost, bill.payback
    (11150.0, 13)
    """

    read: int
    written: int
    saved: int
    summary: float = 0.0

    @property
    def cost(self) -> float:
        """What it cost once: the summary, and writing what would have been read."""
        return self.summary + (WRITE - READ) * self.written

    @property
    def payback(self) -> int | None:
        """Calls after which it has paid for itself, all else equal; None where it never does."""
        return max(1, ceil(self.cost / (READ * self.saved))) if self.saved > 0 else None

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "written": self.written,
            "saved_per_call": self.saved,
            "summary": round(self.summary, 1),
            "cost": round(self.cost, 1),
            "payback_calls": self.payback,
        }
