"""What a method is, and what it gets: evidence in, candidates out.

A method never sees the study: neither its models nor its executor. What it wants to have done (the optimizer asked,
tasks run, candidates compared) it asks of its inputs, so that everything is journaled, limited and counted. A question
to the optimizer is answered once and read from the run afterwards. Where a whole kind of question got no usable answer,
the next command asks again, under new names and so with new seeds; what was answered before stays on record.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from recompact.adaptation.evidence import retained_evidence
from recompact.adaptation.optimizer import Optimizer
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.boundary_view import BoundaryView
from recompact.compressors.protocol import Scope
from recompact.engine.config import AdaptConfig, Config
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.models.journal import UnitCalls
from recompact.registry import Registry
from recompact.values.candidate import Candidate, Proposal, Reason
from recompact.values.chat import Request, canonical, user
from recompact.values.outcome import BoundaryId
from recompact.values.progress import Progress
from recompact.values.template import Template
from recompact.values.texts import quantity
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

        await self.complete("ask", "answer", [answer_unit(self.records, unit, "answer", play)])
        answer: str = self.records.result(unit)
        return answer


def answer_unit(records: Store, name: str, kind: str, play: Callable[[UnitCalls], Awaitable[Any]]) -> Unit[Any]:
    """A unit whose value is JSON, which the run keeps as it is."""

    def record(answer: Any, seconds: float) -> None:
        with records.transaction():
            records.finish(name, kind, canonical(answer), seconds)

    return Unit(name, play, record)


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


Key = TypeVar("Key", bound=Hashable)


async def answers(
    inputs: MethodInputs,
    stage: str,
    kind: str,
    units: Mapping[Key, str],
    answer: Callable[[Optimizer, Key], Awaitable[Any]],
    *,
    useful: Callable[[Any], bool],
    failed: Callable[[Any], bool] | None = None,
) -> dict[Key, Any]:
    """The answers to all questions of a kind, in their order: `units` names the unit of each, and `answer` says how an
    optimizer answers it, as JSON.

    `useful` answers are what the next step works with. Where there is none, those that `failed` (by default, that are
    not useful) are asked again.
    """
    has_failed = failed or (lambda answer: not useful(answer))
    finished = inputs.records.finished(kind)
    attempts = {key: _attempts(unit, finished) for key, unit in units.items()}
    latest = {key: inputs.records.result(_attempt(units[key], n)) for key, n in attempts.items() if n}
    again = {key for key, answer in latest.items() if has_failed(answer)}
    attempt = max(attempts.values(), default=0) or 1
    pending = {key for key, n in attempts.items() if n < attempt and (n == 0 or key in again)}
    if not pending and again and not any(useful(answer) for answer in latest.values()):
        pending, attempt = again, attempt + 1
    # An attempt that was begun and stopped halfway is finished before anything is judged by it.
    names = {
        key: _attempt(unit, attempt if key in pending and attempts[key] else max(1, attempts[key]))
        for key, unit in units.items()
    }

    def play(key: Key) -> Callable[[UnitCalls], Awaitable[Any]]:
        return lambda calls: answer(inputs.optimizer(calls), key)

    asked = [answer_unit(inputs.records, name, kind, play(key)) for key, name in names.items()]
    await inputs.complete(stage, kind, asked)
    return {key: inputs.records.result(name) for key, name in names.items()}


def _attempt(unit: str, number: int) -> str:
    """The unit of an attempt, from 1."""
    return unit if number == 1 else f"{unit}~{number}"


def _attempts(unit: str, finished: set[str]) -> int:
    """How often it was answered."""
    number = 0
    while _attempt(unit, number + 1) in finished:
        number += 1
    return number


Draw = Callable[[Optimizer, str], Awaitable[Candidate]]
"""How one candidate is drawn, given its name."""


async def draw_candidates(inputs: MethodInputs, method: str, draw: Draw, under: str = "") -> tuple[Candidate, ...]:
    """As many candidates as the config asks for; one that never becomes valid is included, with what was wrong.

    `under` distinguishes units that start from a template other than the original.
    """

    async def answer(optimizer: Optimizer, name: str) -> Any:
        return (await draw(optimizer, name)).to_json()

    names = [f"{method}-{n}" for n in range(1, inputs.settings.candidates + 1)]
    units = {name: f"revise/{method}/{under}{name}" for name in names}
    drafts = await answers(
        inputs, "revise", "candidate", units, answer, useful=lambda draft: draft["parts"] is not None
    )
    return tuple(Candidate.from_json(draft, inputs.template.frame) for draft in drafts.values())


def without_usable(candidates: Sequence[Candidate]) -> str:
    """What to say where no candidate became valid; empty where one did."""
    if any(candidate.template for candidate in candidates):
        return ""
    reasons = dict.fromkeys(reason for candidate in candidates for reason in candidate.objections)
    return (
        f"The optimizer gave no usable candidate in {quantity(len(candidates), 'attempt')}; the first reasons:"
        f" {'; '.join(list(reasons)[:3]) or 'none'}"
    )


METHODS = Registry(
    "method",
    "recompact.methods",
    {
        "pair": "recompact.adaptation.pair:PAIR",
        "causes": "recompact.adaptation.causes:causes",
        "acon-ut": "recompact.adaptation.acon:acon_ut",
        "acon-utco": "recompact.adaptation.acon:acon_utco",
        "acon-ut-locked": "recompact.adaptation.acon:acon_ut_locked",
        "facts": "recompact.adaptation.facts:FACTS",
        "facts-entries": "recompact.adaptation.facts:FACTS_ENTRIES",
        "gepa": "recompact.adaptation.gepa_search:gepa",
        "causes-random": "recompact.adaptation.causes:causes_random",
        "pair-random": "recompact.adaptation.pair:PAIR_RANDOM",
        "pair-swapped": "recompact.adaptation.pair:PAIR_SWAPPED",
    },
)


def load_method(name: str, options: Mapping[str, Any] | None = None, directory: Path = Path()) -> Method:
    """A method by name. The plug-in may be a `Method`, or anything that returns one when called with the options."""
    needs = "it must be, or give, a recompact.Method"
    method: Method = METHODS.make(name, options or {}, Method, needs, directory)
    return method


def installed_methods() -> tuple[Method, ...]:
    """All methods with a name of their own that can be used here without options."""
    methods = []
    for name in METHODS.names():
        with suppress(InputError):  # its package is missing, or it needs options
            methods.append(load_method(name))
    return tuple(methods)


def method_of(study: Study) -> Method:
    """The method that a study adapts with: the caller's own, or the one that the config names."""
    if study.method is None:
        return method_in(study.config)
    if not isinstance(study.method, Method):
        raise InputError(f"{study.method!r} is not a method: it must be a recompact.Method")
    return study.method


def method_in(config: Config) -> Method:
    """The method that a config names."""
    with config.blame("adapt", key="method"):
        return load_method(config.adapt.method, config.adapt.options, config.directory)
