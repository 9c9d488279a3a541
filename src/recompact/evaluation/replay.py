"""One boundary again, under several templates: the same state, the same consumed history, fresh summaries.

Each template, and the run's own as the control, writes several summaries with a continuation from each. Every draw is a
unit of the same run, named by its template's hash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from recompact.attribution.continuations import draw_beside, opening_of, play_draw, play_fresh
from recompact.attribution.controls import citations
from recompact.attribution.divergence import actions_of, find_dropped, needed_facts
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import priors_of
from recompact.attribution.records import copied_arms, outcomes_in, says_nothing, settings_of
from recompact.attribution.registry import allocation_of
from recompact.engine.collection import unit_of as collected_unit
from recompact.engine.execution.scheduler import Unfinished, UnfinishedUnit, Unit
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import ContinuationRow, continuation_rows
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Opening, Task
from recompact.errors import InputError
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.evaluation.replay_verdict import Facts, ReplayVerdict, verdict
from recompact.models.journal import UnitCalls
from recompact.values.candidate import Candidate
from recompact.values.chat import canonical
from recompact.values.outcome import BoundaryId, ContinuationArm, Effect, Outcome, Outcomes, Thresholds
from recompact.values.template import Template
from recompact.values.texts import command_line
from recompact.values.trajectory import Boundary, Trajectory

PHASE = "replay"
PRE: ContinuationArm = "PRE"
POST: ContinuationArm = "POST"
CONTROL = "control"
READ_OFF = "chained"  # the ending of a draw that was not made: docs/attribution.md


@dataclass(frozen=True)
class ReplayDraw:
    """One draw of one condition: its summary, which of the needed facts are in it, and how the continuation went."""

    success: bool
    value: float
    steps: int
    ending: str
    answer: str
    summary: str | None  # none before the compaction
    tokens: int
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """The draws from one kind of context. `effect` is against PRE; None where one of the two has no draw."""

    name: str
    draws: tuple[ReplayDraw, ...]
    effect: Effect | None = None
    template: str | None = None  # the hash of the template that wrote its summaries

    @property
    def kept(self) -> float | None:
        """How many needed facts a summary keeps, on average."""
        return fmean(len(draw.kept) for draw in self.draws) if self.draws else None

    def to_json(self) -> dict[str, Any]:
        effect = self.effect.to_json() if self.effect else None
        return {**asdict(self), "effect": effect, "kept": self.kept if self.name != PRE else None}


@dataclass(frozen=True)
class Replay:
    """A boundary under several templates. `conditions` are PRE, POST, the control and the templates, in this order."""

    id: BoundaryId
    thresholds: Thresholds
    needed: tuple[str, ...]  # facts that PRE continuations used and the original summary dropped
    conditions: tuple[Condition, ...]
    verdicts: tuple[ReplayVerdict, ...]
    units: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # draws that came to nothing, and why

    def to_json(self) -> dict[str, Any]:
        return {
            "boundary": str(self.id),
            "thresholds": {"hazard": self.thresholds.hazard, "burden": self.thresholds.burden},
            "needed": list(self.needed),
            "conditions": [condition.to_json() for condition in self.conditions],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True)
class ReplayCase:
    """What all draws at one boundary have in common."""

    study: Study
    task: Task
    id: BoundaryId
    boundary: Boundary

    def unit(self, condition: str, draw: int) -> str:
        return f"{PHASE}/{self.task.id}/{self.id.index}/{condition}/{draw}"


async def replay(study: Study, id: BoundaryId, templates: Mapping[str, Template], draws: int = 3) -> Replay:
    """Compress the boundary's history anew with each template, continue, and judge. Existing work is reused.

    PRE draws are those of the run's verification, plus further ones if there are fewer than `draws`. Where a model's
    failure stopped some, `Unfinished` has the replay of the others.
    """
    if not study.compressor_kind.uses_template:
        kind = study.config.compressor.kind
        path = study.store.path
        raise InputError(f"{path} was compressed by {kind}, without a template: there is no control to replay")
    case = await case_of(study, id)
    arms = _arms(study, templates)
    plan = _plan(case, arms, draws)
    failed: dict[str, str] = {}
    unfinished: tuple[UnfinishedUnit, ...] = ()
    if not plan.keys() <= study.store.finished("trajectory"):
        opening = await try_restore(case)
        units = [draw_unit(case, unit, arm, opening, failed) for unit, arm in plan.items()]
        try:
            await study.complete("replay", "trajectory", units)
        except Unfinished as error:
            unfinished = error.units
    judged = replace(_judge_replay(case, arms, plan), left_out=dict(sorted(failed.items())))
    if unfinished:
        raise Unfinished(unfinished, judged)
    return judged


def cited_boundaries(store: Store) -> list[BoundaryId]:
    """The boundaries that the clauses of adapted templates answer."""
    return sorted({id for own in citations(store, winners(store).values()) for id in own})


def winners(store: Store) -> dict[str, Candidate]:
    """The adapted templates of a run, by method; a method whose candidates all lost to the original has none."""
    records = {record.method: record.winner for record in read_adaptations(store)}
    return {method: winner for method, winner in records.items() if winner is not None}


def _plan(case: ReplayCase, arms: Sequence[Arm], draws: int) -> dict[str, Arm | None]:
    """The units of a replay, each with its arm; None is PRE."""
    existing = sum(row.arm == PRE and not says_nothing(PRE, row.ending) for row in _rows(case))
    plan: dict[str, Arm | None] = {case.unit(PRE, n): None for n in range(draws - existing)}
    return plan | {case.unit(arm.key, n): arm for n in range(draws) for arm in arms}


def refuse_evaluation(store: Store) -> None:
    """Raise for an evaluation: its boundaries have no snapshots, as nobody goes back to them."""
    if store.metadata.command == EVALUATE:
        raise InputError(f"{store.path} is an evaluation, whose boundaries cannot be continued: replay a collected run")


async def case_of(study: Study, id: BoundaryId) -> ReplayCase:
    """A boundary to go back to; raises where there is none."""
    store = study.store
    refuse_evaluation(store)
    tasks = {collected_unit(task): task for task in await study.tasks()}
    if id.unit not in tasks:
        raise InputError(f"{id}: the suite has no such task any more, so it cannot be continued")
    boundary = read_boundary(store, id)
    if boundary.snapshot is None:
        raise InputError(f"{id} has no snapshot to continue from: collect the run again")
    return ReplayCase(study, tasks[id.unit], id, boundary)


def _arms(study: Study, templates: Mapping[str, Template]) -> tuple[Arm, ...]:
    """The control and the templates, all with the run's scope, rendering and budget."""
    settings = study.config.compressor
    rendering = settings.rendering if settings.scope == "prefix" else "quoted"
    for name, template in templates.items():
        if name in (PRE, POST, CONTROL):
            raise InputError(f"a template cannot be called {name!r}: that is a condition of every replay")
        if template.hash == study.template.hash:
            raise InputError(f"the template {name!r} is the run's own, which is replayed anyway, as the control")
    every = {CONTROL: study.template, **templates}
    return tuple(
        Arm(name, "prompted", settings.budget, settings.scope, rendering, template) for name, template in every.items()
    )


async def try_restore(case: ReplayCase) -> Opening:
    """Check that the environment can be brought back to the boundary at all, before any model is asked for it."""

    async def play(calls: UnitCalls) -> Opening:
        return await opening_of(case.study, case.task, calls, case.boundary.snapshot)

    name = f"{PHASE}/{case.task.id}/{case.id.index}/restore"
    try:
        return await case.study.executor.submit(Unit(name, play, record=lambda opening, seconds: None))
    except EnvironmentFailed as failure:
        raise InputError(
            f"{case.id} cannot be restored, so there is nothing to compare: {failure}. Choose another boundary"
            f" ({command_line('boundaries', case.study.store.path)}), or fix the environment"
        ) from None


def draw_unit(
    case: ReplayCase, name: str, arm: Arm | None, opening: Opening, failed: dict[str, str]
) -> Unit[Trajectory]:
    """One draw. Why it came to nothing goes into `failed`: the next command tries it again, and pays for nothing
    twice."""
    study, task, side = case.study, case.task, PRE if arm is None else POST

    async def play(calls: UnitCalls) -> Trajectory:
        if arm is None:
            continuation = await play_draw(study, task, case.boundary, "PRE", calls)
        else:
            compressor = arm.study(study).compressor(calls, task, opening)
            assert compressor is not None
            continuation = await play_fresh(study, task, case.boundary, compressor, calls)
        if reason := says_nothing(side, continuation.ending, continuation.error):
            failed[name] = reason
        return continuation

    return draw_beside(study, name, task, case.id, side, play)


def _rows(case: ReplayCase) -> list[ContinuationRow]:
    return continuation_rows(case.study.store, case.id.unit, case.id.index)


def _judge_replay(case: ReplayCase, arms: Sequence[Arm], plan: Mapping[str, Arm | None]) -> Replay:
    """What the run now knows about this boundary under these templates."""
    store, boundary = case.study.store, case.boundary
    finished = store.finished("trajectory")
    recorded = [(row.arm, read_trajectory(store, row.name)) for row in _rows(case)]
    recorded = [(arm, trajectory) for arm, trajectory in recorded if not says_nothing(arm, trajectory.ending)]
    new = [(arm, read_trajectory(store, unit)) for unit, arm in plan.items() if unit in finished]
    before = [trajectory for arm, trajectory in recorded if arm == PRE]
    before += [trajectory for arm, trajectory in new if arm is None]
    after = [trajectory for arm, trajectory in recorded if arm == POST]
    needed = needed_facts(boundary, before)
    settings = settings_of(store) if store.metadata.verified is not None else case.study.config.verify
    thresholds = settings.thresholds
    pre = Condition(PRE, tuple(_draw_of(trajectory, None, needed) for trajectory in before))
    own = case.study.template.hash
    original = (
        *_chained_draws(case, boundary, needed),
        *(_draw_of(trajectory, boundary, needed) for trajectory in after),
    )
    conditions = [Condition(POST, original, template=own)]
    for arm in arms:
        draws = tuple(_draw_of(t, t.boundaries[0], needed) for by, t in new if by and by.key == arm.key)
        conditions.append(Condition(arm.name, draws, template=arm.template.hash if arm.template else None))
    effect = partial(
        effect_of,
        thresholds=thresholds,
        remaining=case.study.config.run.step_limit - boundary.step,
        prior=priors_of(store, settings).of(case.id),
    )
    copied = {arm for id, arm in copied_arms(store) if id == case.id}
    judged = [replace(c, effect=effect(_outcomes(pre, c, copied))) for c in conditions]
    verdicts = tuple(_verdict(pre, judged[0], judged[1], other, needed) for other in judged[2:])
    return Replay(case.id, thresholds, needed, (pre, *judged), verdicts, tuple(plan))


def _chained_draws(case: ReplayCase, boundary: Boundary, needed: Sequence[str]) -> list[ReplayDraw]:
    """The POST draw that the run's verification read off its trajectory instead of making it, if it did."""
    store = case.study.store
    if store.metadata.verified is None:
        return []
    outcomes = outcomes_in(store).outcomes
    seen = allocation_of(store, settings_of(store)).seen(outcomes)
    before, after = (known.get(case.id, Outcomes()).post for known in (outcomes, seen))
    kept = _kept_facts(boundary, needed)
    new = [outcome for number, outcome in after.items() if number not in before]
    return [ReplayDraw(outcome.value >= 1, outcome.value, outcome.steps, READ_OFF, "", *kept) for outcome in new]


def _draw_of(trajectory: Trajectory, boundary: Boundary | None, needed: Sequence[str]) -> ReplayDraw:
    score, kept = trajectory.score, _kept_facts(boundary, needed)
    return ReplayDraw(score.success, score.value, trajectory.steps, trajectory.ending, answer_of(trajectory), *kept)


def _kept_facts(boundary: Boundary | None, needed: Sequence[str]) -> tuple[str | None, int, tuple[str, ...]]:
    """The summary that a draw continued from, its tokens, and the needed facts in it; all before a compaction."""
    summary = boundary.post.summary if boundary else None
    dropped_literals = set(find_dropped(boundary).literals) if boundary else set()
    facts = tuple(fact for fact in needed if fact not in dropped_literals)
    return (summary.text, summary.tokens, facts) if summary else (None, 0, facts)


def answer_of(trajectory: Trajectory) -> str:
    """What an episode ended with: the answer that its score names, or the last action's."""
    if trajectory.ending != "finished":
        return ""
    if (answer := trajectory.score.details.get("answer")) is not None:
        return str(answer)
    last = actions_of(trajectory)[-1]
    given = last.arguments.get("answer") if last.arguments.keys() <= {"answer"} else canonical(dict(last.arguments))
    return last.text if given is None else str(given)


def _outcomes(pre: Condition, post: Condition, copied: Collection[str]) -> Outcomes:
    """The draws of two conditions; copies of each other (of PRE, or of the recorded summary) count as one."""
    arms = []
    for condition in (pre, post):
        draws = condition.draws[:1] if condition.name in copied else condition.draws
        ends = [Outcome(draw.value, draw.steps, 0, draw.ending == "step limit") for draw in draws]
        arms.append(dict(enumerate(ends)))
    return Outcomes(*arms)


def _verdict(
    pre: Condition, original: Condition, control: Condition, other: Condition, needed: Sequence[str]
) -> ReplayVerdict:
    if not pre.draws:
        return ReplayVerdict(other.name, False, None, None, None, "not judged: PRE has no draw to compare with.")
    facts = None
    if needed and control.kept is not None and other.kept is not None:
        facts = Facts(len(needed), control.kept, other.kept)
    hopeless = not any(draw.value for draw in pre.draws)
    return verdict(other.name, original.effect, control.effect, other.effect, facts, hopeless=hopeless)
