"""One boundary again, under several templates: the same state, the same consumed history, fresh summaries.

Comes in: a study whose run has the boundary, and templates. Goes out: for each template, and for the run's own as the
control, so many summaries with a continuation from each, beside those of PRE and of the original summary, and a verdict
on each template. Every draw is a unit of the same run, known by its template's hash, and is made once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from recompact.attribution.allocations import allocation_of, seen_by
from recompact.attribution.continuations import continue_from
from recompact.attribution.divergence import actions_of, dropped, literals, occurs
from recompact.attribution.effects import Effect, effect_of
from recompact.attribution.posterior import Thresholds
from recompact.attribution.verify import known, settings_of
from recompact.chat import canonical
from recompact.collection import unit_of as collected_unit
from recompact.compressors.protocol import CompactionFailed, Compressor
from recompact.environments.protocol import EnvironmentFailed, Opening, Task
from recompact.errors import InputError
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.evaluation.verdict import Facts, Verdict, verdict
from recompact.execution.episodes import with_differences
from recompact.execution.schedule import Unfinished, run_units
from recompact.models.failures import ContextOverflow, Refused
from recompact.outcome import BoundaryId, Outcome, Outcomes
from recompact.store.records import read_boundary, read_trajectory, write_trajectory
from recompact.store.runs import ContinuationRow, continuation_rows
from recompact.store.store import Store
from recompact.study import Study
from recompact.template import Template
from recompact.trajectory import Boundary, Trajectory

PHASE = "replay"
PRE, POST, CONTROL = "PRE", "POST", "control"
READ_OFF = "chained"  # the ending of a draw that was not made: docs/attribution.md


@dataclass(frozen=True)
class Drawn:
    """One draw of one condition: its summary, which of the needed facts stand in it, and how the continuation went."""

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
    draws: tuple[Drawn, ...]
    effect: Effect | None = None
    template: str | None = None  # the hash of the template that wrote its summaries

    @property
    def kept(self) -> float | None:
        """How many needed facts a summary keeps, on average."""
        return fmean(len(drawn.kept) for drawn in self.draws) if self.draws else None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "template": self.template,
            "effect": asdict(self.effect) if self.effect else None,
            "kept": self.kept if self.name != PRE else None,
            "draws": [asdict(drawn) for drawn in self.draws],
        }


@dataclass(frozen=True)
class Replay:
    """A boundary under several templates. `conditions` are PRE, POST, the control and the templates, in this order."""

    id: BoundaryId
    thresholds: Thresholds
    needed: tuple[str, ...]  # facts that PRE continuations used and the original summary dropped
    conditions: tuple[Condition, ...]
    verdicts: tuple[Verdict, ...]
    units: tuple[str, ...]
    unfinished: tuple[Unfinished, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # draws that came to nothing, and why

    def to_json(self) -> dict[str, Any]:
        return {
            "boundary": str(self.id),
            "thresholds": {"hazard": self.thresholds.hazard, "burden": self.thresholds.burden},
            "needed": list(self.needed),
            "conditions": [condition.to_json() for condition in self.conditions],
            "verdicts": [found.to_json() for found in self.verdicts],
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True)
class _Case:
    """What all draws of one replay have in common."""

    study: Study
    task: Task
    id: BoundaryId
    boundary: Boundary

    def unit(self, condition: str, draw: int) -> str:
        return f"{PHASE}/{self.task.id}/{self.id.index}/{condition}/{draw}"


async def replay(
    study: Study,
    id: BoundaryId,
    templates: Mapping[str, Template],
    draws: int = 3,
    *,
    on_begin: Callable[[int, int], None] = lambda total, done: None,
    on_done: Callable[[], None] = lambda: None,
    on_step: Callable[[], None] = lambda: None,
) -> Replay:
    """Compress the boundary's history anew with each template, continue, and judge. What the run has is not done again.

    PRE draws are those of the run's verification and, where they are fewer than `draws`, further ones.
    """
    case = await _case(study, id)
    arms = _arms(study, templates)
    made = sum(row.arm == PRE and row.ending != "environment error" for row in _rows(case))
    plan: dict[str, Arm | None] = {case.unit(PRE, n): None for n in range(draws - made)}
    plan |= {case.unit(arm.key, n): arm for n in range(draws) for arm in arms}
    finished = study.store.finished("trajectory")
    on_begin(len(plan), len(finished & plan.keys()))
    todo = {unit: arm for unit, arm in plan.items() if unit not in finished}
    left_out: dict[str, str] = {}
    unfinished: list[Unfinished] = []
    if todo:
        opening = await _brought_back(case)

        async def work(unit: str, arm: Arm | None) -> None:
            if reason := await _draw(case, unit, arm, opening, on_step):
                left_out[unit] = reason
            on_done()

        units = ((unit, partial(work, unit, arm)) for unit, arm in todo.items())
        unfinished = await run_units(units, study.config.run.concurrency)
    found = _found(case, arms, plan)
    return replace(found, unfinished=tuple(unfinished), left_out=dict(sorted(left_out.items())))


def refuse_evaluation(store: Store) -> None:
    """The boundaries of an evaluation have no snapshots: nobody goes back to them."""
    if store.metadata.command == EVALUATE:
        raise InputError(f"{store.path} is an evaluation, whose boundaries cannot be continued: replay a collected run")


async def _case(study: Study, id: BoundaryId) -> _Case:
    store = study.store
    refuse_evaluation(store)
    kind = study.config.compressor.kind
    if kind != "prompted":
        raise InputError(f"{store.path} was compressed by {kind}, with no template: there is no control to replay")
    tasks = {collected_unit(task): task for task in await study.tasks()}
    if id.unit not in tasks:
        raise InputError(f"{id}: the suite has no such task any more, so it cannot be continued")
    boundary = read_boundary(store, id.unit, id.index)
    if boundary.snapshot is None:
        raise InputError(f"{id} has no snapshot, so nothing can be continued from it: collect the run anew")
    return _Case(study, tasks[id.unit], id, boundary)


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


async def _brought_back(case: _Case) -> Opening:
    """Try whether the environment can be brought back to the boundary at all, before any model is asked for it."""
    try:
        calls = case.study.calls(f"{PHASE}/{case.task.id}/{case.id.index}/restore")
        episode = case.study.episodes.episode(case.task, case.study.ask(calls))
        try:
            opening = await episode.start()
            assert case.boundary.snapshot is not None
            await episode.restore(case.boundary.snapshot)
        finally:
            await episode.close()
        return opening
    except EnvironmentFailed as failure:
        raise InputError(
            f"{case.id} cannot be brought back, so there is nothing to compare: {failure}. Choose another boundary"
            f" (recompact boundaries {case.study.store.path}), or mend the environment"
        ) from None


async def _draw(case: _Case, unit: str, arm: Arm | None, opening: Opening, on_step: Callable[[], None]) -> str | None:
    """One draw from the first call to its record. Where it came to nothing it is not recorded and the reason returned:
    the next command tries it again, and pays for nothing twice."""
    started = time.perf_counter()
    study, boundary = case.study, case.boundary
    calls = study.calls(unit)
    usage = {}
    if arm is not None:
        compressor = arm.study(study).compressor(calls, case.task, opening)
        assert compressor is not None
        try:
            boundary, usage["compressor"] = await _compressed(boundary, compressor, study.config.compressor.budget)
        except (CompactionFailed, ContextOverflow, Refused) as failure:
            return f"no summary: {failure}"
    continuation = await continue_from(
        case.task,
        boundary,
        "PRE" if arm is None else "POST",
        study.episodes.episode(case.task, study.ask(calls)),
        study.agent(calls),
        count=study.count,
        step_limit=study.config.run.step_limit,
        on_step=on_step,
    )
    if continuation.ending == "environment error":
        return continuation.error
    continuation = replace(continuation, boundaries=(boundary,) if arm else (), usage={**continuation.usage, **usage})
    write_trajectory(
        study.store,
        unit,
        with_differences(continuation, calls),
        phase=PHASE,
        run=int(unit.rpartition("/")[2]),
        groups=case.task.groups,
        seconds=time.perf_counter() - started,
    )
    return None


async def _compressed(boundary: Boundary, compressor: Compressor, budget: int) -> tuple[Boundary, Any]:
    """The boundary with another summary in POST, and what it cost."""
    made = await compressor.compress(boundary.pre, budget)
    return replace(boundary, post=made.context, asked_again=made.asked_again, cut=made.cut), made.usage


def _rows(case: _Case) -> list[ContinuationRow]:
    return continuation_rows(case.study.store, case.id.unit, case.id.index)


def _found(case: _Case, arms: Sequence[Arm], plan: Mapping[str, Arm | None]) -> Replay:
    """What the run now knows of this boundary under these templates."""
    store, boundary = case.study.store, case.boundary
    finished = store.finished("trajectory")
    recorded = [(row.arm, read_trajectory(store, row.name)) for row in _rows(case)]
    recorded = [(arm, made) for arm, made in recorded if made.ending != "environment error"]
    new = [(arm, read_trajectory(store, unit)) for unit, arm in plan.items() if unit in finished]
    before = [made for arm, made in recorded if arm == PRE] + [made for arm, made in new if arm is None]
    after = [made for arm, made in recorded if arm == POST]
    needed = needed_facts(boundary, before)
    settings = settings_of(store) if store.metadata.verified is not None else case.study.config.verify
    thresholds = Thresholds(settings.hazard, settings.burden)
    pre = Condition(PRE, tuple(_drawn(made, None, needed) for made in before))
    own = case.study.template.hash
    original = (*_chained(case, boundary, needed), *(_drawn(made, boundary, needed) for made in after))
    conditions = [Condition(POST, original, template=own)]
    for arm in arms:
        drawn = tuple(_drawn(made, made.boundaries[0], needed) for by, made in new if by and by.key == arm.key)
        conditions.append(Condition(arm.name, drawn, template=arm.template.hash if arm.template else None))
    left = case.study.config.run.step_limit - boundary.step
    judged = [replace(c, effect=_effect(pre, c, thresholds, left)) for c in conditions]
    verdicts = tuple(_verdict(pre, judged[0], judged[1], other, needed) for other in judged[2:])
    return Replay(case.id, thresholds, needed, (pre, *judged), verdicts, tuple(plan))


def _chained(case: _Case, boundary: Boundary, needed: Sequence[str]) -> list[Drawn]:
    """The POST draw that the run's verification read off its trajectory instead of making it, where it did so."""
    store = case.study.store
    if store.metadata.verified is None:
        return []
    made = known(store).outcomes
    seen = seen_by(allocation_of(store, settings_of(store)), made)
    before, after = (outcomes.get(case.id, Outcomes()).post for outcomes in (made, seen))
    kept = _kept(boundary, needed)
    new = [outcome for number, outcome in after.items() if number not in before]
    return [Drawn(outcome.value >= 1, outcome.value, outcome.steps, READ_OFF, "", *kept) for outcome in new]


def needed_facts(boundary: Boundary, before: Sequence[Trajectory]) -> tuple[str, ...]:
    """The literals that the compaction consumed, that are missing after it, and that a continuation from before it
    used: in the arguments of an action, or in its answer."""
    actions = [action for made in before for action in actions_of(made)]
    texts = [text for action in actions for text in (canonical(dict(action.arguments)), action.text)]
    texts += [text for action in actions for text in _strings(dict(action.arguments))]
    exact = {literal for text in texts for literal in literals(text)}
    every = "\n".join(texts)
    # A bare number counts only by itself: the 28 of a date is another 28.
    return tuple(
        literal
        for literal in dropped(boundary).literals
        if literal in exact or (any(map(str.isalpha, literal)) and occurs(literal, every))
    )


def _strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _drawn(made: Trajectory, boundary: Boundary | None, needed: Sequence[str]) -> Drawn:
    score = made.score
    return Drawn(score.success, score.value, made.steps, made.ending, answer_of(made), *_kept(boundary, needed))


def _kept(boundary: Boundary | None, needed: Sequence[str]) -> tuple[str | None, int, tuple[str, ...]]:
    """The summary that a draw continued from, its tokens, and the needed facts in it; before a compaction all."""
    summary = boundary.post.summary if boundary else None
    gone = set(dropped(boundary).literals) if boundary else set()
    facts = tuple(fact for fact in needed if fact not in gone)
    return (summary.text, summary.tokens, facts) if summary else (None, 0, facts)


def answer_of(made: Trajectory) -> str:
    """What an episode was ended with: the answer that its score names, or the last action's."""
    if made.ending != "finished":
        return ""
    if (told := made.score.details.get("answer")) is not None:
        return str(told)
    last = actions_of(made)[-1]
    given = last.arguments.get("answer") if last.arguments.keys() <= {"answer"} else canonical(dict(last.arguments))
    return last.text if given is None else str(given)


def _effect(pre: Condition, post: Condition, thresholds: Thresholds, remaining: int) -> Effect | None:
    one, other = (
        {n: Outcome(drawn.value, drawn.steps) for n, drawn in enumerate(condition.draws)} for condition in (pre, post)
    )
    return effect_of(Outcomes(one, other), thresholds, remaining=remaining)


def _verdict(
    pre: Condition, original: Condition, control: Condition, other: Condition, needed: Sequence[str]
) -> Verdict:
    if not pre.draws:
        return Verdict(other.name, False, None, None, None, "not judged: PRE has no draw to compare with.")
    facts = None
    if needed and control.kept is not None and other.kept is not None:
        facts = Facts(len(needed), control.kept, other.kept)
    hopeless = not any(drawn.value for drawn in pre.draws)
    return verdict(other.name, original.effect, control.effect, other.effect, facts, hopeless=hopeless)
