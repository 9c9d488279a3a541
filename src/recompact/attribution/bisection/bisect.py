"""Bisect the harmful compactions of a verified run: play the continuations that each search asks for, record what it
found, and go on from the record after a stop."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from recompact.attribution.agenda import LeftOut
from recompact.attribution.bisection.cause import Cause, read_causes, write_cause
from recompact.attribution.bisection.pieces import (
    Intervention,
    Piece,
    added_lines,
    context_with,
    dropped_pieces,
    statements_in,
)
from recompact.attribution.bisection.search import Conversation, Search, search
from recompact.attribution.continuations import draw_beside, outcome_of, play_draw
from recompact.attribution.divergence import needed_facts, occurs
from recompact.attribution.records import copied_arms, outcome_on_record, outcomes_in, settings_of
from recompact.attribution.verify import places
from recompact.engine.collection import unit_of as collected_unit
from recompact.engine.execution.scheduler import Unit, run_agenda
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.models.journal import UnitCalls
from recompact.values.outcome import ARMS, BoundaryId, Draw, Outcome
from recompact.values.texts import quantity
from recompact.values.trajectory import Boundary, Trajectory

PHASE = "bisect"
SHARE = 0.5  # of the verification's continuations: what all searches together may use
FEWEST, MOST = 20, 40  # continuations of one search; it takes some 18 on average
_LONGEST_KEY = 60


@dataclass(frozen=True)
class Bisection:
    """What bisecting a run found, by boundary, and the boundaries that there were too few continuations for."""

    causes: Mapping[BoundaryId, Cause]
    passed_over: tuple[BoundaryId, ...] = ()


@dataclass(frozen=True)
class Allowance:
    """The boundaries that get a search, how many continuations each may use, and how many all of them together."""

    boundaries: tuple[BoundaryId, ...]
    each: int
    total: int
    passed_over: tuple[BoundaryId, ...] = ()


def allowance(boundaries: Iterable[BoundaryId], continuations: int, share: float = SHARE) -> Allowance:
    """Divide a share of the verification's continuations among these boundaries, the most harmful first.

    >>> [allowance([BoundaryId("collect/a", n) for n in range(3)], total).each for total in (150, 600)]
    [25, 40]
    """
    every, total = tuple(boundaries), int(continuations * share)
    number = min(len(every), max(1, total // FEWEST)) if every else 0
    each = min(MOST, max(FEWEST, total // number)) if number else 0
    return Allowance(every[:number], each, max(total, number * each), every[number:])


def allowed_for(
    store: Store, boundaries: Iterable[BoundaryId], share: float, most: int | None, spent: int = 0
) -> Allowance:
    """What searches at these boundaries may use; `most` says how many continuations each, whatever the share. `spent`
    are those that the share has paid for already."""
    known = outcomes_in(store).outcomes
    wanted = [id for id in boundaries if id in known and known[id].pre and known[id].post]
    if most:
        return Allowance(tuple(wanted), most, most * len(wanted))
    continuations = sum(len(known[id].of(arm)) for id in known for arm in ARMS)
    return allowance(wanted, max(0, continuations - int(spent / share)), share)


async def bisect(
    study: Study, boundaries: Iterable[BoundaryId], *, share: float = SHARE, most: int | None = None
) -> Bisection:
    """Search for the cause at each of these boundaries, the most harmful first.

    All searches together use at most a `share` of the verification's continuations; `most` says instead how many one
    search may use. What easy searches leave over goes to those that ran out. A cause on record is kept.
    """
    wanted = tuple(boundaries)
    causes = {id: cause for id, cause in read_causes(study.store).items() if id in wanted and cause.known}
    allowed = allowed_for(study.store, (id for id in wanted if id not in causes), share, most, _draws_of(causes))
    tasks = {collected_unit(task): task for task in await study.tasks()}
    study.progress.stage(PHASE, None, 0)
    left, each, before = allowed.boundaries, allowed.each, _draws_of(causes)
    while left:
        causes |= await _bisect(study, tasks, left, each)
        left = tuple(id for id in left if id in causes and causes[id].ending == "out of draws")
        spare = allowed.total - (_draws_of(causes) - before)
        if most or not left or each >= MOST or spare < len(left):
            break
        each = min(MOST, each + spare // len(left))
    return Bisection({id: causes[id] for id in wanted if id in causes}, allowed.passed_over)


def _draws_of(causes: Mapping[BoundaryId, Cause]) -> int:
    return sum(cause.draws for cause in causes.values())


async def _bisect(
    study: Study, tasks: Mapping[str, Task], boundaries: Iterable[BoundaryId], most: int
) -> dict[BoundaryId, Cause]:
    """One search at each boundary, with at most so many continuations."""
    store = study.store
    known, copied, recorded = outcomes_in(store).outcomes, copied_arms(store), _outcomes_on_record(store)
    settings = settings_of(store)
    agenda = _Agenda(study)
    for id in boundaries:
        boundary = read_boundary(store, id)
        pieces, lines = dropped_pieces(boundary, study.count), added_lines(boundary, study.count)
        given = Search(
            id,
            pieces,
            lines,
            known[id],
            settings.thresholds,
            statements=statements_in(boundary, lines, tasks[id.unit].text, study.count),
            suspects=suspects_in(store, id, boundary, pieces),
            most=most,
            copies=all((id, arm) in copied for arm in ARMS),
        )
        agenda.begin(_Course(given, tasks[id.unit], boundary, search(given)), recorded.get(id, {}))
    await run_agenda(agenda, study.executor, places(study), study.progress)
    return agenda.causes


def suspects_in(store: Store, id: BoundaryId, boundary: Boundary, pieces: Iterable[Piece]) -> tuple[str, ...]:
    """The pieces with a fact that continuations from before the compaction used and that the summary lacks."""
    names = [row.name for row in continuation_rows(store, id.unit, id.index) if row.arm == "PRE" and row.value > 0]
    facts = needed_facts(boundary, [read_trajectory(store, name) for name in names])
    return tuple(piece.name for piece in pieces if any(occurs(fact, piece.text) for fact in facts))


def bisection_unit(task: str, index: int, intervention: Intervention, number: int) -> str:
    """The name of one continuation; everything random in it comes from this name."""
    key = intervention.key
    if len(key) > _LONGEST_KEY:
        key = hashlib.sha256(key.encode()).hexdigest()[:16]
    return f"{PHASE}/{task}/{index}/{key}/{number}"


@dataclass
class _Course:
    """A search that is under way."""

    given: Search
    task: Task
    boundary: Boundary
    conversation: Conversation
    numbers: Counter[Intervention] = field(default_factory=Counter)
    fewest: int | None = None  # pieces that were tried together

    @property
    def id(self) -> BoundaryId:
        return self.given.boundary


@dataclass
class _Agenda:
    """The searches under way and the continuations that they wait for: one each, since a search asks by what it got."""

    study: Study
    causes: dict[BoundaryId, Cause] = field(default_factory=dict)
    _due: deque[tuple[_Course, Intervention, str]] = field(default_factory=deque)
    _running: dict[str, _Course] = field(default_factory=dict)

    def begin(self, course: _Course, recorded: Mapping[str, Outcome]) -> None:
        """Take a search as far as the record goes."""
        try:
            asked = next(course.conversation)
            while (name := self._name(course, asked)) in recorded:
                asked = course.conversation.send(recorded[name])
        except StopIteration as ended:
            self._end(course, ended.value)
        else:
            self._due.append((course, asked, name))

    def next(self, running: int) -> Unit[Trajectory] | None:
        if not self._due:
            return None
        course, asked, name = self._due.popleft()
        self._running[name] = course
        return self._unit(course, asked, name)

    def take(self, unit: Unit[Trajectory], value: Trajectory) -> None:
        course = self._running.pop(unit.name)
        outcome = outcome_of(Draw(course.id, "POST", 0), value)
        if isinstance(outcome, LeftOut):
            course.conversation.close()
            # Not recorded: it is tried again.
            self.causes[course.id] = course.given.ended("environment failed", outcome.reason)
            return
        try:
            asked = course.conversation.send(outcome)
        except StopIteration as ended:
            self._end(course, ended.value)
        else:
            self._say_narrowed(course, asked)
            self._due.append((course, asked, self._name(course, asked)))

    def fail(self, unit: Unit[Trajectory]) -> None:
        self._running.pop(unit.name).conversation.close()

    def _say_narrowed(self, course: _Course, asked: Intervention) -> None:
        """Tell a waiting person that fewer pieces are tried than before."""
        size, every = len(asked.back), len(course.given.pieces)
        if 0 < size < (course.fewest or every):
            course.fewest = size
            self.study.progress.note(f"{course.id}: trying {size} of {quantity(every, 'piece')}")

    def _name(self, course: _Course, asked: Intervention) -> str:
        number = course.numbers[asked]
        course.numbers[asked] += 1
        return bisection_unit(course.task.id, course.boundary.index, asked, number)

    def _end(self, course: _Course, cause: Cause) -> None:
        write_cause(self.study.store, cause)
        self.causes[course.id] = cause
        self.study.progress.note(f"{course.id}: {cause.sentence()}")

    def _unit(self, course: _Course, asked: Intervention, name: str) -> Unit[Trajectory]:
        study, task, boundary = self.study, course.task, course.boundary
        context = context_with(boundary, course.given.every, asked, study.count)

        async def play(calls: UnitCalls) -> Trajectory:
            return await play_draw(study, task, replace(boundary, post=context), "POST", calls)

        return draw_beside(study, name, task, course.id, "POST", play)


def _outcomes_on_record(store: Store) -> dict[BoundaryId, dict[str, Outcome]]:
    """The outcomes of continuations that a run has from earlier searches, by boundary and name."""
    recorded: dict[BoundaryId, dict[str, Outcome]] = {}
    for row in trajectories(store, phase=PHASE):
        index = int(row.unit.rsplit("/", 3)[1])
        recorded.setdefault(BoundaryId(f"collect/{row.task}", index), {})[row.unit] = outcome_on_record(row)
    return recorded
