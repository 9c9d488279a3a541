"""Step 1: run each task once under the compressor, and keep every boundary, whatever the outcome."""

from __future__ import annotations

from recompact.engine.execution.episodes import run_episode, with_differences
from recompact.engine.execution.executor import Unit
from recompact.engine.store.records import write_trajectory
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
    study: Study, name: str, task: Task, *, phase: str, run: int = 0, snapshots: bool = True
) -> Unit[Trajectory]:
    """One trajectory under the study's compressor. `snapshots=False` where nobody will continue from its boundaries."""

    async def play(calls: UnitCalls) -> Trajectory:
        trajectory = await run_episode(
            task,
            study.episodes.episode(task, study.ask(calls)),
            study.agent(calls),
            count=study.count,
            step_limit=study.config.run.step_limit,
            compressor=lambda opening: study.compressor(calls, task, opening),
            budget=study.config.compressor.budget,
            snapshots=snapshots,
            observation_tokens=study.config.run.observation_tokens,
            progress=study.progress,
        )
        return with_differences(trajectory, calls)

    def record(trajectory: Trajectory, seconds: float) -> None:
        write_trajectory(study.store, name, trajectory, phase=phase, run=run, groups=task.groups, seconds=seconds)

    return Unit(name, play, record, task=task.id)


def unit_of(task: Task) -> str:
    return f"{PHASE}/{task.id}"
