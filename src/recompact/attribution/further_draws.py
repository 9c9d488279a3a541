"""Draws in addition to a verification: an A/A control, fresh pairs that confirm what was retained, and fresh summaries.

Each is its own unit with its own seeds, recorded in the same run (`further_records` reads them); a verification never
sees them. What comes to nothing is not recorded, and the same command tries it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from recompact.attribution.allocation import Allocation
from recompact.attribution.continuations import broken_draw, outcome_of, play_draw, recompress
from recompact.attribution.judgement import store_verdicts
from recompact.attribution.records import Purpose, RunOutcomes, further_outcomes, further_unit, settings_of
from recompact.attribution.verify import make_draws
from recompact.compressors.protocol import CompactionFailed
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.records import write_trajectory
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import InputError
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes
from recompact.values.trajectory import Boundary, Trajectory


async def make_further_draws(
    study: Study, purpose: Purpose, allocation: Allocation, boundaries: Collection[BoundaryId]
) -> RunOutcomes:
    """Make the draws that the allocation asks for at these boundaries; those that the run has are reused."""
    existing = further_outcomes(study.store, purpose)
    outcomes = {id: existing.get(id, Outcomes()) for id in sorted(boundaries)}
    agenda = await make_draws(study, purpose, allocation, outcomes, partial(_unit, study, purpose))
    if purpose != "control" and study.store.metadata.verified is not None:  # a control says nothing of a boundary
        store_verdicts(study.store, settings_of(study.store))
    return RunOutcomes(agenda.outcomes, agenda.left_out)


def _unit(
    study: Study, purpose: Purpose, task: Task, boundary: Boundary, draw: Draw, answered: Callable[[Draw], None]
) -> Unit[Trajectory]:
    name = further_unit(purpose, task.id, boundary.index, draw.arm, draw.number)

    async def play(calls: UnitCalls) -> Trajectory:
        at, usage = boundary, {}
        try:
            if purpose == "resample":
                at, usage["compressor"] = await _with_fresh_summary(study, task, boundary, calls)
        except (EnvironmentFailed, CompactionFailed, ContextOverflow, Refused) as failure:
            return broken_draw(task, boundary, failure)
        arm = "PRE" if purpose == "control" else draw.arm
        continuation = await play_draw(study, task, at, arm, calls, lambda: answered(draw))
        summaries = (at,) if purpose == "resample" else ()
        return replace(continuation, boundaries=summaries, usage={**continuation.usage, **usage})

    def record(continuation: Trajectory, seconds: float) -> None:
        if isinstance(outcome_of(draw, continuation), Outcome):
            write_trajectory(
                study.store,
                name,
                continuation,
                phase=purpose,
                run=draw.number,
                groups=task.groups,
                seconds=seconds,
            )

    return Unit(name, play, record, group=str(draw.boundary))


async def _with_fresh_summary(study: Study, task: Task, boundary: Boundary, calls: UnitCalls) -> tuple[Boundary, Usage]:
    """The same history compressed once more."""
    episode = study.episodes.episode(task, study.ask(calls))
    try:
        opening = await episode.start()  # a compressor may want to know the tools
    finally:
        await episode.close()
    compressor = study.compressor(calls, task, opening)
    if compressor is None:
        raise InputError(f"{study.store.path} was collected without a compressor: there is no summary to draw anew")
    return await recompress(boundary, compressor, study.config.compressor.budget)
