"""Draws as they fall due: the allocation is asked again and again, and no place stays empty while a draw is due.

There is no barrier between rounds: a draw begins as soon as the allocation is certain of it and a place is free. Among
equally pressing ones, it is the turn of those whose beginning a server's prompt cache is likely to have. A server that
keeps many prompts has a context once the first draw from it has been answered; one with slots has it until something
else is asked in the same slot.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from recompact.attribution.allocation import Allocation
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.calls import Pace
from recompact.values.outcome import ARMS, BoundaryId, Draw, Outcome, Outcomes
from recompact.values.progress import SILENT, Progress

RESPITE = 50  # times as long as asking took: the wait before asking again without need

Order = Callable[[BoundaryId, int, Outcomes], tuple[float, ...]]
"""The place of a boundary's draws among all that wait, the smallest first, given the lowest number among them and the
outcomes of the boundary. Its first number counts more than what a prompt cache saves, the others less."""


def context_of(draw: Draw) -> Hashable:
    """What draws that begin with the same context have in common."""
    return draw.boundary, draw.arm


@dataclass(frozen=True)
class LeftOut:
    """A boundary that cannot be verified, and why."""

    reason: str


T = TypeVar("T")


@dataclass
class DrawAgenda(Generic[T]):
    """The agenda of a verification: outcomes so far, and the draws that wait for a place.

    `outcome_of` reads the outcome of a draw off the value that its unit gave. `order` says what to begin first, and
    `slots` how many prompts the agent's server keeps, where those are few (see `turns`); the result depends neither
    on them nor on the concurrency.
    """

    allocation: Allocation
    outcomes: dict[BoundaryId, Outcomes]
    unit_of: Callable[[Draw], Unit[T]]
    outcome_of: Callable[[Draw, T], Outcome | LeftOut]
    concurrency: int
    order: Order = lambda boundary, first, outcomes: ()
    slots: int | None = None
    progress: Progress = SILENT
    finished: int = 0  # draws that the run has
    left_out: dict[BoundaryId, str] = field(default_factory=dict)
    _waiting: Turns[Draw] = field(init=False)
    _draws: dict[str, Draw] = field(default_factory=dict)  # by the name of the unit
    _asked: set[Draw] = field(default_factory=set)
    _changed: bool = True
    _asked_at: float = 0.0
    _answered_at: float = 0.0

    def __post_init__(self) -> None:
        self._waiting = Turns(self.slots)

    def next(self, running: int) -> Unit[T] | None:
        if self._wants_to_ask:
            self._ask()
            self.progress.expect(self.finished + len(self._waiting) + running)
        while self._waiting:
            draw = self._waiting.pop()
            if draw.boundary in self.outcomes:  # it may have been left out meanwhile
                self._waiting.begin(context_of(draw))
                unit = self.unit_of(draw)
                self._draws[unit.name] = draw
                return unit
        return None

    def take(self, unit: Unit[T], value: T) -> None:
        draw = self._draws.pop(unit.name)
        self._waiting.end(context_of(draw))
        self.finished += 1
        self._changed = True
        outcome = self.outcome_of(draw, value)
        if isinstance(outcome, LeftOut):
            self.outcomes.pop(draw.boundary, None)
            self.left_out.setdefault(draw.boundary, outcome.reason)
        elif draw.boundary in self.outcomes:
            self.outcomes[draw.boundary] = with_outcome(self.outcomes[draw.boundary], draw, outcome)

    def answered(self, draw: Draw) -> None:
        """The agent of a running draw got a reply: from now on its server has the context."""
        self._waiting.answer(context_of(draw))

    def fail(self, unit: Unit[T]) -> None:
        self._waiting.end(context_of(self._draws.pop(unit.name)))

    @property
    def _wants_to_ask(self) -> bool:
        """Whenever places might stay empty. Otherwise so that what is most pressing is known soon, yet little time is
        spent asking: an answer takes time in proportion to all boundaries, so the sum would grow with their square."""
        rested = time.monotonic() - self._answered_at >= RESPITE * (self._answered_at - self._asked_at)
        return self._changed and (len(self._waiting) < self.concurrency or rested)

    def _ask(self) -> None:
        """Add what has become due. Equally pressing draws go by boundary, arm and number."""
        self._changed = False
        self._asked_at = time.monotonic()
        new = [draw for draw in self.allocation.due(self.outcomes) if draw not in self._asked]
        first: dict[BoundaryId, int] = {}
        for draw in new:
            first[draw.boundary] = min(draw.number, first.get(draw.boundary, draw.number))
        for draw in new:
            self._asked.add(draw)
            place = self.order(draw.boundary, first[draw.boundary], self.outcomes[draw.boundary]) or (0.0,)
            tie = (draw.boundary, ARMS.index(draw.arm), draw.number)
            self._waiting.add((*place, *tie), context_of(draw), draw)
        self._answered_at = time.monotonic()


def with_outcome(outcomes: Outcomes, draw: Draw, outcome: Outcome) -> Outcomes:
    """The outcomes with that of one more draw."""
    arm = {**outcomes.of(draw.arm), draw.number: outcome}
    return replace(outcomes, pre=arm) if draw.arm == "PRE" else replace(outcomes, post=arm)


Key = tuple[object, ...]
Standing = tuple[int, int]
"""The smallest first, among what is equally pressing."""


def standings(
    slots: int | None, running: Mapping[Hashable, int], idle: Sequence[Hashable], unanswered: Set[Hashable]
) -> tuple[dict[Hashable, Standing], Standing]:
    """The standing of some contexts, and that of all others.

    `running` has the number of draws by context, `idle` the contexts that were in use before, the latest last, and
    `unanswered` those in use for which no call has been answered yet. Without slots, only these should wait. With
    slots, a place continues with the context that it had; otherwise it begins one of its own, but where as many
    contexts are in use as there are slots, draws share them.
    """
    if slots is None:
        return dict.fromkeys(unanswered, (1, 0)), (0, 0)
    crowded = len(running) >= slots
    free_slots = max(0, slots - sum(running.values()))
    special = {context: (0, n) for n, context in enumerate(reversed(idle)) if n < free_slots}
    return {**special, **dict.fromkeys(running, (1 if crowded else 2, 0))}, (2 if crowded else 1, 0)


def draws_at_once(concurrency: int, slots: int, pace: Pace) -> int:
    """How many draws to run side by side, at most `concurrency`, at a server with `slots` slots.

    More than keep it busy only push each other's prompts out of its cache. While one draw is between two calls, another
    can use its slot: so it takes slots * (1 + pause / call), rounded.

    >>> draws_at_once(16, 1, Pace(5.0, 0.01)), draws_at_once(2, 4, Pace(5.0, 5.0))
    (1, 2)
    >>> draws_at_once(16, 1, Pace(75.0, 5.0))  # sixteen took turns: a call by itself takes five seconds
    2
    """
    if slots >= concurrency or not pace.call:
        return concurrency
    # Calls that waited for a slot seemed to take longer. With all slots in use, one comes back every call / slots.
    call = min(pace.call, slots * (pace.call + pace.pause) / concurrency)
    return max(slots, math.floor(min(concurrency, slots * (1 + pace.pause / call)) + 0.5))


@dataclass
class Turns(Generic[T]):
    """What waits, by context, and what a server is likely to have of these contexts. `slots`: None where it keeps many.

    A place is how pressing something is by itself, the smallest first: its first item counts more than what a cache
    saves, the others less. No two places are equal.
    """

    slots: int | None = None
    _waiting: dict[Hashable, list[tuple[Key, T]]] = field(default_factory=dict)  # a heap for each context
    _first: list[tuple[Key, Hashable]] = field(default_factory=list)  # a heap of their heads, including outdated ones
    _running: dict[Hashable, int] = field(default_factory=dict)
    _answered: set[Hashable] = field(default_factory=set)
    _unanswered: set[Hashable] = field(default_factory=set)
    _idle: dict[Hashable, None] = field(default_factory=dict)  # the latest last, and no more than there are slots
    _size: int = 0

    def __len__(self) -> int:
        return self._size

    def add(self, place: Key, context: Hashable, item: T) -> None:
        heap = self._waiting.setdefault(context, [])
        heapq.heappush(heap, (place, item))
        self._size += 1
        if heap[0][0] == place:
            heapq.heappush(self._first, (place, context))

    def pop(self) -> T:
        """Take out what is next."""
        special, others = standings(self.slots, self._running, tuple(self._idle), self._unanswered)
        candidates = [context for context in special if context in self._waiting]
        if (first := self._first_beside(special)) is not None:
            candidates.append(first)

        def turn(context: Hashable) -> Key:
            place = self._waiting[context][0][0]
            return (*place[:1], special.get(context, others), place[1:])

        return self._take(min(candidates, key=turn))

    def begin(self, context: Hashable) -> None:
        """A draw with this context runs from now on."""
        if context not in self._answered:
            self._unanswered.add(context)
        self._running[context] = self._running.get(context, 0) + 1
        self._idle.pop(context, None)

    def answer(self, context: Hashable) -> None:
        """A call with this context was answered."""
        self._answered.add(context)
        self._unanswered.discard(context)

    def end(self, context: Hashable) -> None:
        """A draw with this context has ended."""
        self._running[context] -= 1
        if self._running[context]:
            return
        del self._running[context]
        self._unanswered.discard(context)
        self._idle[context] = None
        while len(self._idle) > (self.slots or 0):
            del self._idle[next(iter(self._idle))]

    def _first_beside(self, special: Mapping[Hashable, Standing]) -> Hashable | None:
        """The context of the most pressing of all that wait, apart from these contexts."""
        aside = []
        first_context = None
        while self._first and first_context is None:
            place, context = self._first[0]
            heap = self._waiting.get(context)
            if heap is None or heap[0][0] != place:
                heapq.heappop(self._first)  # outdated
            elif context in special:
                aside.append(heapq.heappop(self._first))
            else:
                first_context = context
        for entry in aside:
            heapq.heappush(self._first, entry)
        return first_context

    def _take(self, context: Hashable) -> T:
        heap = self._waiting[context]
        _, item = heapq.heappop(heap)
        self._size -= 1
        if heap:
            heapq.heappush(self._first, (heap[0][0], context))
        else:
            del self._waiting[context]
        return item
