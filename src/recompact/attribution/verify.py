"""Step 2: continue from every boundary, with and without its compaction, until the allocation has seen enough.

Each draw is a unit of work: a run that was killed resumes where it left off, and a draw that the run has is never
made again. Further draws (an A/A control, fresh pairs that confirm what was retained, fresh summaries) are recorded in
the same run, and a verification never sees them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from statistics import fmean

from recompact.attribution.agenda import DrawAgenda, Order, draws_at_once
from recompact.attribution.allocation import Allocation
from recompact.attribution.continuations import (
    broken_draw,
    continuation_unit,
    draw_beside,
    opening_of,
    outcome_of,
    play_draw,
    play_fresh,
)
from recompact.attribution.judgement import Verification, judge, store_verdicts
from recompact.attribution.records import Purpose, RunOutcomes, further_outcomes, further_unit, outcomes_in, settings_of
from recompact.attribution.registry import allocation_of
from recompact.engine.collection import unit_of
from recompact.engine.execution.scheduler import Unit, run_agenda
from recompact.engine.store.calls import pace_of
from recompact.engine.store.plan import bound_stage
from recompact.engine.store.records import read_boundary, write_continuation
from recompact.engine.store.runs import BoundaryRow, boundary_rows
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import InputError
from recompact.models.journal import UnitCalls
from recompact.values.outcome import BoundaryId, Draw, Outcomes
from recompact.values.trajectory import Boundary, Trajectory

PHASE = "verify"


async def verify(study: Study, allocation: Allocation | None = None, *, partial: bool = False) -> Verification:
    """Make the draws that the allocation asks for, judge every boundary by them, and store the verdicts in the run.

    The allocation is that of the study's config; what another one decides is returned, but not stored. Draws that the
    run has already are known from the start. `partial` allows a run in which tasks are still to be
    collected.
    """
    study.progress.stage("reading the boundaries")
    tasks = {unit_of(task): task for task in await study.tasks()}
    _check_collected(study.store, tasks, partial)
    before = outcomes_in(study.store)
    chosen = allocation or allocation_of(study.store, study.config.verify)
    rows = {row.id: row for row in boundary_rows(study.store)}
    await make_draws(study, PHASE, chosen, before.outcomes, functools.partial(_unit, study), _order(rows, chosen))
    if allocation is not None:
        return judge(study.store, study.config.verify, allocation)
    study.store.set_metadata(replace(study.store.metadata, verified=asdict(study.config.verify)))
    return store_verdicts(study.store, study.config.verify)


UnitOf = Callable[[Task, Boundary, Draw, Callable[[Draw], None]], Unit[Trajectory]]
"""The unit of work that makes a draw at a boundary of a task; the function is to be called at each reply."""


async def make_draws(
    study: Study,
    stage: str,
    allocation: Allocation,
    known: Mapping[BoundaryId, Outcomes],
    unit: UnitOf,
    order: Order = lambda boundary, first, outcomes: (),
) -> DrawAgenda[Trajectory]:
    """Make the draws that an allocation asks for at these boundaries, in addition to those that are known."""
    tasks = {unit_of(task): task for task in await study.tasks()}

    @lru_cache(maxsize=2 * study.config.run.concurrency)
    def boundary(id: BoundaryId) -> Boundary:
        return read_boundary(study.store, id)

    finished = sum(len(own.pre) + len(own.post) for own in known.values())
    study.progress.stage(stage, None, finished)
    bound_stage(study.progress, allocation.most_draws(known))
    at_once = places(study)
    agenda = DrawAgenda(
        allocation,
        dict(known),
        unit_of=lambda draw: unit(tasks[draw.boundary.unit], boundary(draw.boundary), draw, agenda.answered),
        outcome_of=outcome_of,
        concurrency=at_once,
        order=order,
        slots=study.agent_slots,
        progress=study.progress,
        finished=finished,
    )
    await run_agenda(agenda, study.executor, at_once, study.progress)
    return agenda


def places(study: Study) -> int:
    """How many draws run at once: as many as the config says, but where the server keeps few prompts, no more than keep
    it busy."""
    concurrency = study.config.run.concurrency
    if study.agent_slots is None:
        return concurrency
    return draws_at_once(concurrency, study.agent_slots, pace_of(study.store, study.config.agent.model))


def _order(rows: Mapping[BoundaryId, BoundaryRow], allocation: Allocation) -> Order:
    """What takes longest first, so that little is left to wait for at the end.

    First draws still come before second ones: where boundaries are compared, nobody knows whose turn it is until they
    are in, and places stay empty. Where a boundary's own outcomes decide how many it gets, its draws follow each other:
    what has begun continues before anything else begins.
    """
    cap = allocation.cap

    def order(id: BoundaryId, first: int, outcomes: Outcomes) -> tuple[float, ...]:
        arms = [[o.steps for o in arm.values()] for arm in (outcomes.pre, outcomes.post) if arm]
        length = max(map(fmean, arms)) if arms else remaining_steps(rows[id])
        if cap is None:
            return first, -length
        draws = len(outcomes.pre) + len(outcomes.post)
        return draws == 0, -length * (cap - draws)

    return order


def _unit(
    study: Study, task: Task, boundary: Boundary, draw: Draw, answered: Callable[[Draw], None]
) -> Unit[Trajectory]:
    """One continuation."""
    at = draw.boundary
    name = continuation_unit(task.id, boundary.index, draw.arm, draw.number)

    async def play(calls: UnitCalls) -> Trajectory:
        return await play_draw(study, task, boundary, draw.arm, calls, lambda: answered(draw))

    def record(continuation: Trajectory, seconds: float) -> None:
        write_continuation(study.store, name, at.unit, at.index, draw.arm, draw.number, continuation, seconds=seconds)

    return Unit(name, play, record, group=str(at), task=task.id)


def remaining_steps(row: BoundaryRow) -> int:
    """How long the trajectory itself went on from a boundary: the best guess at how long a continuation will."""
    return max(1, row.trajectory_steps - row.step)


def _check_collected(store: Store, tasks: Mapping[str, Task], partial: bool) -> None:
    missing = tasks.keys() - store.finished("trajectory")
    if missing and not partial:
        raise InputError(
            f"{store.path} has {len(tasks) - len(missing)} of {len(tasks)} trajectories: finish `recompact collect`"
            " first, or verify what there is with --partial"
        )


async def make_further_draws(
    study: Study, purpose: Purpose, allocation: Allocation, boundaries: Collection[BoundaryId]
) -> RunOutcomes:
    """Make the draws that the allocation asks for at these boundaries; those that the run has are reused."""
    existing = further_outcomes(study.store, purpose)
    outcomes = {id: existing.get(id, Outcomes()) for id in sorted(boundaries)}
    agenda = await make_draws(study, purpose, allocation, outcomes, functools.partial(_further_unit, study, purpose))
    if purpose != "control" and study.store.metadata.verified is not None:  # a control says nothing of a boundary
        store_verdicts(study.store, settings_of(study.store))
    return RunOutcomes(agenda.outcomes, agenda.left_out)


def _further_unit(
    study: Study, purpose: Purpose, task: Task, boundary: Boundary, draw: Draw, answered: Callable[[Draw], None]
) -> Unit[Trajectory]:
    async def play(calls: UnitCalls) -> Trajectory:
        if purpose == "resample":
            return await _play_resampled(study, task, boundary, calls, lambda: answered(draw))
        arm = "PRE" if purpose == "control" else draw.arm
        return await play_draw(study, task, boundary, arm, calls, lambda: answered(draw))

    name = further_unit(purpose, task.id, boundary.index, draw.arm, draw.number)
    return draw_beside(study, name, task, draw.boundary, draw.arm, play)


async def _play_resampled(
    study: Study, task: Task, boundary: Boundary, calls: UnitCalls, answered: Callable[[], None]
) -> Trajectory:
    """A continuation from the same history, compressed once more."""
    try:
        opening = await opening_of(study, task, calls)
    except EnvironmentFailed as failure:
        return broken_draw(task, boundary, str(failure))
    compressor = study.compressor(calls, task, opening)
    if compressor is None:
        raise InputError(f"{study.store.path} was collected without a compressor: there is no summary to draw anew")
    return await play_fresh(study, task, boundary, compressor, calls, answered)
