"""Draws as they fall due: an allocation is asked again and again, and no place stays empty while something is due.

In go an allocation, what is known so far and a way to run one draw; out comes what is known in the end. There is no
barrier between rounds: a draw begins as soon as the allocation is certain of it and a place is free.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from recompact.attribution.allocation import Allocation
from recompact.execution.schedule import Unfinished
from recompact.models.failures import ModelFailure
from recompact.outcome import ARMS, BoundaryId, Draw, Outcome, Outcomes

RESPITE = 50  # times as long as asking took, before it is asked again without need
Order = Callable[[BoundaryId, int, Outcomes], tuple[float, ...]]
"""The place of a boundary's draws among all that wait, the smallest first, from the lowest number among them and from
what is known of the boundary."""


class LeftOut(Exception):
    """A boundary that cannot be verified; the text says why."""


@dataclass(frozen=True)
class Drawn:
    """What is known when nothing is due any more, without the boundaries that had to be left out."""

    known: Mapping[BoundaryId, Outcomes]
    left_out: Mapping[BoundaryId, str]
    unfinished: tuple[Unfinished, ...]


async def draw_all(
    allocation: Allocation,
    known: Mapping[BoundaryId, Outcomes],
    draw: Callable[[Draw], Awaitable[Outcome]],
    *,
    concurrency: int,
    order: Order = lambda boundary, first, outcomes: (),
    on_due: Callable[[int], None] = lambda draws: None,
) -> Drawn:
    """Run all draws that fall due, at most so many at once.

    `order` says what to begin first; `on_due` hears how many draws are waiting or under way. What comes out depends on
    neither of them, nor on `concurrency`. A model's failure leaves its draw unfinished; one that every draw would meet
    is raised, as in `run_units`.
    """
    state = _Drawing(dict(known), order, concurrency)
    arrived: asyncio.Queue[tuple[Draw, Outcome | Exception]] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()

    async def run(wanted: Draw) -> None:
        try:
            arrived.put_nowait((wanted, await draw(wanted)))
        except Exception as failure:
            arrived.put_nowait((wanted, failure))

    try:
        while True:
            if state.wants_to_ask:
                state.ask(allocation)
                on_due(len(state.waiting) + state.running)
            while state.running < concurrency and (wanted := state.next()) is not None:
                task = asyncio.create_task(run(wanted))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if not state.running:
                return Drawn(state.known, state.left_out, tuple(state.unfinished))
            state.take(*await arrived.get())
            while not arrived.empty():  # whatever came at the same time is one reason to ask, not many
                state.take(*arrived.get_nowait())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class _Drawing:
    """What is waiting, under way and known."""

    known: dict[BoundaryId, Outcomes]
    order: Order
    concurrency: int
    waiting: list[tuple[tuple[float, ...], BoundaryId, int, int, Draw]] = field(default_factory=list)
    asked: set[Draw] = field(default_factory=set)
    running: int = 0
    changed: bool = True
    asked_at: float = 0.0
    answered_at: float = 0.0
    left_out: dict[BoundaryId, str] = field(default_factory=dict)
    unfinished: list[Unfinished] = field(default_factory=list)
    failed_in_a_row: set[BoundaryId] = field(default_factory=set)

    @property
    def wants_to_ask(self) -> bool:
        """Whenever places might stay empty. Otherwise so that what is most pressing is known soon, yet little time goes
        by with asking: an answer takes time in proportion to all boundaries, and so would grow with their square."""
        now = asyncio.get_running_loop().time()
        rested = now - self.answered_at >= RESPITE * (self.answered_at - self.asked_at)
        return self.changed and (len(self.waiting) < self.concurrency or rested)

    def ask(self, allocation: Allocation) -> None:
        """Take in what has become due.

        The draws of one boundary and arm that fall due together stand side by side, and its arms too, whatever their
        order among others: a server's prompt cache then still has what they share.
        """
        self.changed = False
        clock = asyncio.get_running_loop().time
        self.asked_at = clock()
        new = [draw for draw in allocation.due(self.known) if draw not in self.asked]
        first: dict[BoundaryId, int] = {}
        for draw in new:
            first[draw.boundary] = min(draw.number, first.get(draw.boundary, draw.number))
        for draw in new:
            self.asked.add(draw)
            place = self.order(draw.boundary, first[draw.boundary], self.known[draw.boundary])
            heapq.heappush(self.waiting, (place, draw.boundary, ARMS.index(draw.arm), draw.number, draw))
        self.answered_at = clock()

    def next(self) -> Draw | None:
        while self.waiting:
            draw = heapq.heappop(self.waiting)[-1]
            if draw.boundary in self.known:  # it may have been left out meanwhile
                self.running += 1
                return draw
        return None

    def take(self, draw: Draw, result: Outcome | Exception) -> None:
        self.running -= 1
        if isinstance(result, Outcome):
            self.failed_in_a_row.clear()
            self.changed = True
            if draw.boundary in self.known:
                self.known[draw.boundary] = with_outcome(self.known[draw.boundary], draw, result)
        elif isinstance(result, LeftOut):
            self.changed = True
            self.known.pop(draw.boundary, None)
            self.left_out.setdefault(draw.boundary, str(result))
        elif isinstance(result, ModelFailure):
            self.unfinished.append(Unfinished(f"{draw.boundary} {draw.arm} {draw.number}", result))
            self.failed_in_a_row.add(draw.boundary)  # its own draws follow each other: they count once
            if not result.retryable or len(self.failed_in_a_row) >= max(3, self.concurrency):
                raise result
        else:
            raise result


def with_outcome(outcomes: Outcomes, draw: Draw, outcome: Outcome) -> Outcomes:
    """With the outcome of one more draw."""
    if draw.arm == "PRE":
        return replace(outcomes, pre={**outcomes.pre, draw.number: outcome})
    return replace(outcomes, post={**outcomes.post, draw.number: outcome})
