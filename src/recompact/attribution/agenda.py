"""Draws as they fall due: the allocation is asked again and again, and no place stays empty while a draw is due.

There is no barrier between rounds: a draw begins as soon as the allocation is certain of it and a place is free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from recompact.attribution.allocation import Allocation
from recompact.attribution.turns import Turns
from recompact.engine.execution.scheduler import Unit
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
    if draw.arm == "PRE":
        return replace(outcomes, pre={**outcomes.pre, draw.number: outcome})
    return replace(outcomes, post={**outcomes.post, draw.number: outcome})
