"""Step 1: run each task once under the compressor, and keep every boundary, whatever the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from recompact.environments.protocol import Task
from recompact.execution.episodes import run_episode, with_differences
from recompact.execution.schedule import Unfinished, run_units
from recompact.store.records import write_trajectory
from recompact.study import Study

PHASE = "collect"


@dataclass(frozen=True)
class Collected:
    """How a collection went: units of all tasks, and those that are still to be finished."""

    units: tuple[str, ...]
    unfinished: tuple[Unfinished, ...]


async def collect(
    study: Study,
    *,
    on_begin: Callable[[int, int], None] = lambda total, done: None,
    on_done: Callable[[], None] = lambda: None,
    on_step: Callable[[], None] = lambda: None,
) -> Collected:
    """Run the chosen tasks. What the run has already is not done again."""
    tasks = {unit_of(task): task for task in await study.tasks()}
    finished = study.store.finished("trajectory")
    on_begin(len(tasks), len(finished & tasks.keys()))

    async def work(unit: str, task: Task) -> None:
        await collect_task(study, unit, task, on_step)
        on_done()

    todo = ((unit, partial(work, unit, task)) for unit, task in tasks.items() if unit not in finished)
    unfinished = await run_units(todo, study.config.run.concurrency)
    return Collected(tuple(tasks), tuple(unfinished))


async def collect_task(study: Study, unit: str, task: Task, on_step: Callable[[], None] = lambda: None) -> None:
    """One trajectory of the collection."""
    await run_task(study, unit, task, phase=PHASE, on_step=on_step)


async def run_task(
    study: Study,
    unit: str,
    task: Task,
    *,
    phase: str,
    run: int = 0,
    snapshots: bool = True,
    on_step: Callable[[], None] = lambda: None,
) -> None:
    """One trajectory under the study's compressor, from the first call to its record. `snapshots=False` where nobody
    will continue from its boundaries."""
    started = time.perf_counter()
    calls = study.calls(unit)
    config = study.config
    trajectory = await run_episode(
        task,
        study.episodes.episode(task, study.ask(calls)),
        study.agent(calls),
        count=study.count,
        step_limit=config.run.step_limit,
        compressor=lambda opening: study.compressor(calls, task, opening),
        budget=config.compressor.budget,
        snapshots=snapshots,
        on_step=on_step,
    )
    write_trajectory(
        study.store,
        unit,
        with_differences(trajectory, calls),
        phase=phase,
        run=run,
        groups=task.groups,
        seconds=time.perf_counter() - started,
    )


def unit_of(task: Task) -> str:
    return f"{PHASE}/{task.id}"
