"""Draws as they fall due: the allocation is asked again and again, and no place stays empty while a draw is due.

There is no barrier between rounds: a draw begins as soon as the allocation is certain of it and a place is free.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from recompact.attribution.allocation import Allocation
from recompact.execution.executor import Unit
from recompact.outcome import ARMS, BoundaryId, Draw, Outcome, Outcomes
from recompact.progress import SILENT, Progress

RESPITE = 50  # times as long as asking took, before it is asked again without need

Order = Callable[[BoundaryId, int, Outcomes], tuple[float, ...]]
"""The place of a boundary's draws among all that wait, the smallest first, from the lowest number among them and from
the outcomes of the boundary."""


@dataclass(frozen=True)
class LeftOut:
    """A boundary that cannot be verified, and why."""

    reason: str


T = TypeVar("T")


@dataclass
class DrawAgenda(Generic[T]):
    """The agenda of a verification: outcomes so far, and the draws that wait for a place.

    `outcome_of` reads the outcome of a draw off the value that its unit gave. `order` says what to begin first; what
    comes out depends neither on it nor on the concurrency.
    """

    allocation: Allocation
    outcomes: dict[BoundaryId, Outcomes]
    unit_of: Callable[[Draw], Unit[T]]
    outcome_of: Callable[[Draw, T], Outcome | LeftOut]
    concurrency: int
    order: Order = lambda boundary, first, outcomes: ()
    progress: Progress = SILENT
    finished: int = 0  # draws that the run has
    left_out: dict[BoundaryId, str] = field(default_factory=dict)
    _waiting: list[tuple[tuple[float, ...], BoundaryId, int, int, Draw]] = field(default_factory=list)
    _draws: dict[str, Draw] = field(default_factory=dict)  # by the name of the unit
    _asked: set[Draw] = field(default_factory=set)
    _changed: bool = True
    _asked_at: float = 0.0
    _answered_at: float = 0.0

    def next(self, running: int) -> Unit[T] | None:
        if self._wants_to_ask:
            self._ask()
            self.progress.expect(self.finished + len(self._waiting) + running)
        while self._waiting:
            draw = heapq.heappop(self._waiting)[-1]
            if draw.boundary in self.outcomes:  # it may have been left out meanwhile
                unit = self.unit_of(draw)
                self._draws[unit.name] = draw
                return unit
        return None

    def take(self, unit: Unit[T], value: T) -> None:
        draw = self._draws.pop(unit.name)
        self.finished += 1
        self._changed = True
        outcome = self.outcome_of(draw, value)
        if isinstance(outcome, LeftOut):
            self.outcomes.pop(draw.boundary, None)
            self.left_out.setdefault(draw.boundary, outcome.reason)
        elif draw.boundary in self.outcomes:
            self.outcomes[draw.boundary] = with_outcome(self.outcomes[draw.boundary], draw, outcome)

    @property
    def _wants_to_ask(self) -> bool:
        """Whenever places might stay empty. Otherwise so that what is most pressing is known soon, yet little time goes
        by with asking: an answer takes time in proportion to all boundaries, and so would grow with their square."""
        rested = time.monotonic() - self._answered_at >= RESPITE * (self._answered_at - self._asked_at)
        return self._changed and (len(self._waiting) < self.concurrency or rested)

    def _ask(self) -> None:
        """Take in what has become due.

        The draws of one boundary and arm that fall due together stand side by side, and its arms too, whatever their
        order among others: a server's prompt cache then still has what they share.
        """
        self._changed = False
        self._asked_at = time.monotonic()
        new = [draw for draw in self.allocation.due(self.outcomes) if draw not in self._asked]
        first: dict[BoundaryId, int] = {}
        for draw in new:
            first[draw.boundary] = min(draw.number, first.get(draw.boundary, draw.number))
        for draw in new:
            self._asked.add(draw)
            place = self.order(draw.boundary, first[draw.boundary], self.outcomes[draw.boundary])
            heapq.heappush(self._waiting, (place, draw.boundary, ARMS.index(draw.arm), draw.number, draw))
        self._answered_at = time.monotonic()


def with_outcome(outcomes: Outcomes, draw: Draw, outcome: Outcome) -> Outcomes:
    """With the outcome of one more draw."""
    if draw.arm == "PRE":
        return replace(outcomes, pre={**outcomes.pre, draw.number: outcome})
    return replace(outcomes, post={**outcomes.post, draw.number: outcome})
