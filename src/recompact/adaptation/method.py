"""What a method is, and what it gets: evidence in, candidates out.

A method never sees the study: neither its models nor its executor. What it wants to have done (the optimizer asked,
tasks run, candidates compared) it asks of its inputs, so that everything is journaled, limited and counted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recompact.adaptation.evidence import retained_evidence
from recompact.adaptation.optimizer import Optimizer
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.boundary_view import BoundaryView
from recompact.compressors.protocol import Scope
from recompact.engine.config import AdaptConfig
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.models.journal import UnitCalls
from recompact.values.candidate import Candidate, Proposal, Reason
from recompact.values.chat import Request, canonical, user
from recompact.values.outcome import BoundaryId
from recompact.values.progress import Progress
from recompact.values.template import Template
from recompact.values.tokens import TokenCounter


@dataclass(frozen=True)
class Episode:
    """One end-to-end run of a task: the name under which the run file keeps it, and its number among several."""

    unit: str
    task: Task
    number: int = 0


class RunEpisodes(Protocol):
    """Runs tasks end to end and records them in a phase; those that the run has are not run again. They compact by the
    original template or by another one, or not at all; `progress` is told instead of the method's own."""

    async def __call__(
        self,
        phase: str,
        episodes: Sequence[Episode],
        *,
        template: Template | None = None,
        compaction: bool = True,
        progress: Progress | None = None,
    ) -> None: ...


class CompleteUnits(Protocol):
    """Plays and records the units of a kind that the run does not have yet."""

    async def __call__(
        self, stage: str, kind: str, units: Iterable[Unit[Any]], *, progress: Progress | None = None
    ) -> None: ...


@dataclass(frozen=True)
class MethodInputs:
    """All that a method gets: the template to revise, what the run knows, and what it may have done."""

    template: Template  # the original
    tasks: tuple[Task, ...]  # the training tasks
    records: Store  # trajectories, boundaries, continuations
    settings: AdaptConfig  # how many candidates are wanted, how much evidence one call may show
    scope: Scope
    seed: int
    count: TokenCounter
    progress: Progress
    complete: CompleteUnits
    optimizer: Callable[[UnitCalls], Optimizer]  # the model in that role, as one unit of work sees it
    run: RunEpisodes
    select: Callable[[Sequence[Candidate]], Awaitable[Candidate | None]]  # the best one; None if the original is
    bisect: Callable[[Sequence[BoundaryId]], Awaitable[Iterable[Cause]]]  # what had to be put back, by intervention
    collect_more: Callable[[int], Awaitable[tuple[Task, ...]]]  # collects and verifies at most so many further tasks
    spare_tasks: int  # how many further ones the config lets a method take
    expected_draws: Callable[[], int]  # how many continuations the config's allocation would make

    def boundaries(self) -> tuple[BoundaryView, ...]:
        """The harmful compactions of a verified run, the worst first, each with both contexts and its continuations."""
        return retained_evidence(self.records)

    async def ask(self, unit: str, prompt: str) -> str:
        """The optimizer's answer to a prompt. It is asked once: the run keeps the answer under the name of its unit."""

        async def play(calls: UnitCalls) -> str:
            optimizer = self.optimizer(calls)
            reply = await optimizer.model.reply(Request((user(prompt),), (), optimizer.decoding))
            return reply.message.content

        def record(answer: str, seconds: float) -> None:
            with self.records.transaction():
                self.records.finish(unit, "answer", canonical(answer), seconds)

        await self.complete("ask", "answer", [Unit(unit, play, record)])
        answer: str = self.records.result(unit)
        return answer


@dataclass(frozen=True)
class Method:
    """A way to adapt a template: evidence in, candidates out. All else is shared, so that methods differ only in this.

    `phases` are the beginnings of its units' names, `cites` is what a clause of its candidates answers, and `reasons`
    tells from the records what was observed there, in a line each.
    """

    name: str
    propose: Callable[[MethodInputs], Awaitable[Proposal | tuple[Candidate, ...]]]
    needs_effects: bool = False  # learns from verified boundaries, not from whole trajectories
    asks_optimizer: bool = True  # one that does not needs no model in that role
    phases: tuple[str, ...] = ()
    cites: str = "compaction"
    reasons: Callable[[Store], Mapping[str, Sequence[Reason]]] = lambda store: {}
    color: str | None = None  # in figures
    tested: bool = False  # candidates rest on interventions: runs may refute them, but need not choose them
    reselects: bool = False  # some candidates won a selection before: the next one needs fresh runs
    training_runs: int = 0  # how often it runs every training task itself, for a forecast
    selections: int = 1  # that it takes, with the last one

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+-]+", self.name):  # it becomes part of the names of units and directories
            raise InputError(f"{self.name!r} is not a valid method name: use letters, digits, and . _ - +")
