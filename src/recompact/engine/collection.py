"""Step 1: run each task once under the compressor, and keep every boundary, whatever the outcome."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from recompact.engine.execution.scheduler import Unit
from recompact.engine.rollout import run_episode, with_differences
from recompact.engine.store.records import read_trajectory, write_trajectory
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.models.journal import UnitCalls
from recompact.values.trajectory import Trajectory

PHASE = "collect"


async def collect(study: Study) -> tuple[str, ...]:
    """Run the chosen tasks and return the names of their units. What the run already has is not repeated."""
    units = [trajectory_unit(study, unit_of(task), task, phase=PHASE) for task in await study.tasks()]
    await study.complete("collect", "trajectory", units)
    return tuple(unit.name for unit in units)


def trajectory_unit(
    study: Study,
    name: str,
    task: Task,
    *,
    phase: str,
    run: int = 0,
    snapshots: bool = True,
    start: str = "",
    stop_when_due: bool = False,
) -> Unit[Trajectory]:
    """One trajectory under the study's compressor. `snapshots=False` where nobody will continue from its boundaries.

    `start` names a recorded one that stopped where its first compaction was due (`stop_when_due`), to go on from. Where
    its environment cannot be restored, the trajectory is played from the beginning.
    """

    async def roll_out(calls: UnitCalls, start: Trajectory | None) -> Trajectory:
        return await run_episode(
            task,
            study.episodes.episode(task, study.ask(calls)),
            study.agent(calls),
            count=study.count,
            step_limit=study.config.run.step_limit,
            compressor=partial(study.compressor, calls, task),
            budget=study.config.compressor.budget,
            schedule=study.schedule,
            snapshots=snapshots,
            observation_tokens=study.config.run.observation_tokens,
            progress=study.progress,
            start=start,
            stop_when_due=stop_when_due,
        )

    async def play(calls: UnitCalls) -> Trajectory:
        shared = read_trajectory(study.store, start) if start else None
        if shared is not None and shared.ending != "compaction due":  # it ended before anything was compacted
            return replace(shared, shared=shared.steps)
        trajectory = await roll_out(calls, shared)
        if shared is not None and not trajectory.turns:
            trajectory = await roll_out(calls, None)
        return with_differences(trajectory, calls)

    def record(trajectory: Trajectory, seconds: float) -> None:
        write_trajectory(study.store, name, trajectory, phase=phase, run=run, groups=task.groups, seconds=seconds)

    return Unit(name, play, record, task=task.id)


def unit_of(task: Task) -> str:
    return f"{PHASE}/{task.id}"
