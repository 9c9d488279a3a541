"""Whose turn it is: of the draws that wait, the one whose beginning a server's prompt cache is likely to have.

Draws of one boundary and arm begin with the same context. A server that keeps few prompts (one in each slot) has it
until something else is asked there; one that keeps many has it once the first of them was answered. So a place that
falls free goes on with the context that it had; a context is read by one draw before others follow, as long as there is
another to begin with; and where more draws run than the server takes calls, they share contexts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from recompact.store.calls import Pace

T = TypeVar("T")
Key = tuple[object, ...]


def turn(place: Key, *, idle_for: int | None, running: bool, crowded: bool) -> Key:
    """When a draw gets its turn among all that wait, the smallest first.

    `place` is how pressing it is by itself: its first item counts more than what a cache saves, the others less.
    `idle_for` is how many contexts fell idle after that of this draw, or None where the server hardly has it still;
    `running`: a draw with the same context runs; `crowded`: as many contexts are in use as the server takes calls.
    """
    if idle_for is not None:
        standing = (0, idle_for)
    else:
        standing = (1 if running == crowded else 2, 0)
    return (*place[:1], standing, place[1:])


def draws_at_once(concurrency: int, calls: int, pace: Pace) -> int:
    """How many draws to run side by side, at most `concurrency`, at a server that takes so many calls at once.

    More than keep it busy only take each other's prompts out of its cache. While one draw is between two calls, another
    can use its place: so it takes calls * (1 + pause / call), rounded.

    >>> draws_at_once(16, 1, Pace(5.0, 0.01)), draws_at_once(16, 1, Pace(5.0, 5.0)), draws_at_once(2, 4, Pace(5.0, 5.0))
    (1, 2, 2)
    """
    if calls >= concurrency or not pace.call:
        return concurrency
    # Calls that waited for a place seemed to take longer. With all places in use, one comes back every call / calls.
    call = min(pace.call, calls * (pace.call + pace.pause) / concurrency)
    return max(calls, math.floor(min(concurrency, calls * (1 + pace.pause / call)) + 0.5))


@dataclass
class Turns(Generic[T]):
    """What waits, by context, and which contexts a server is likely to have that takes so many calls at once."""

    calls: int
    _waiting: dict[Hashable, list[tuple[Key, T]]] = field(default_factory=dict)  # a heap for each context
    _first: list[tuple[Key, Hashable]] = field(default_factory=list)  # a heap of their heads, outdated ones among them
    _running: dict[Hashable, int] = field(default_factory=dict)
    _idle: dict[Hashable, None] = field(default_factory=dict)  # contexts that were in use, the latest last
    _size: int = 0

    def __len__(self) -> int:
        return self._size

    def add(self, place: Key, context: Hashable, item: T) -> None:
        """Something waits. No two places are equal."""
        heap = self._waiting.setdefault(context, [])
        heapq.heappush(heap, (place, item))
        self._size += 1
        if heap[0][0] == place:
            heapq.heappush(self._first, (place, context))

    def pop(self) -> T:
        """Take out what is next."""
        crowded, idle = len(self._running) >= self.calls, self._likely()
        candidates = [*(c for c in (*idle, *self._running) if c in self._waiting), *self._fresh(idle)]

        def key(context: Hashable) -> Key:
            place = self._waiting[context][0][0]
            return turn(place, idle_for=idle.get(context), running=context in self._running, crowded=crowded)

        return self._take(min(candidates, key=key))

    def begin(self, context: Hashable) -> None:
        """Something with this context runs from now on."""
        self._running[context] = self._running.get(context, 0) + 1
        self._idle.pop(context, None)

    def end(self, context: Hashable) -> None:
        """And has come to its end."""
        self._running[context] -= 1
        if not self._running[context]:
            del self._running[context]
            self._idle[context] = None
            while len(self._idle) > self.calls:
                del self._idle[next(iter(self._idle))]

    def _likely(self) -> dict[Hashable, int]:
        """The contexts that nobody uses and that nothing else has taken the place of, each with its `idle_for`."""
        kept = max(0, self.calls - sum(self._running.values()))
        return {context: n for n, context in enumerate(reversed(self._idle)) if n < kept}

    def _fresh(self, idle: dict[Hashable, int]) -> Iterator[Hashable]:
        """The most pressing context that is neither idle nor in use, if there is one."""
        aside = []
        while self._first:
            place, context = self._first[0]
            heap = self._waiting.get(context)
            if heap is None or heap[0][0] != place:
                heapq.heappop(self._first)  # outdated
            elif context in idle or context in self._running:
                aside.append(heapq.heappop(self._first))
            else:
                yield context
                break
        for entry in aside:
            heapq.heappush(self._first, entry)

    def _take(self, context: Hashable) -> T:
        heap = self._waiting[context]
        _, item = heapq.heappop(heap)
        self._size -= 1
        if heap:
            heapq.heappush(self._first, (heap[0][0], context))
        else:
            del self._waiting[context]
        return item
