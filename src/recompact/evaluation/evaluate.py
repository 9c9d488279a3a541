"""Run tasks under several arms, several times each: the records that tables and comparisons stand on.

Comes in: a study and its arms. Goes out: a trajectory for every task, run and arm, in the run. Arms are interleaved, so
that a server which gets better or worse in the meantime does so for all of them alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from recompact.collection import run_task
from recompact.config import CompressorConfig, Config
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import InputError
from recompact.evaluation.arms import Arm, note_arms
from recompact.execution.schedule import Unfinished, run_units
from recompact.models.journal import seed_of
from recompact.store.runs import phase_digest, trajectories
from recompact.store.store import Store
from recompact.study import Study, open_study
from recompact.trajectory import Ending

PHASE = "evaluate"
BROKEN: Ending = "environment error"


@dataclass(frozen=True)
class Evaluated:
    """How an evaluation went: its tasks, the units of all its trajectories, and those still to be finished."""

    tasks: tuple[str, ...]
    units: tuple[str, ...]
    unfinished: tuple[Unfinished, ...]


@dataclass(frozen=True)
class Planned:
    """One trajectory to make."""

    unit: str
    arm: Arm
    task: Task
    run: int


@asynccontextmanager
async def open_evaluation(
    config: Config, directory: Path, store: Store, file: Path | None = None
) -> AsyncIterator[Study]:
    """A study whose run may get more tasks, more runs and other arms later.

    What an arm or a task decides is part of a unit's name, so it need not be the same throughout the run.
    """
    defaults = CompressorConfig()
    shared = replace(
        config.compressor,
        kind="prompted",
        budget=defaults.budget,
        template=defaults.template,
        scope=defaults.scope,
        rendering=defaults.rendering,
    )
    same = replace(config, compressor=shared, suite=replace(config.suite, tasks=(), limit=None))
    if (begun := store.metadata.command or PHASE) != PHASE:
        raise InputError(f"{store.path} is a run of `recompact {begun}`: give the evaluation its own --run NAME")
    async with open_study(same, directory, store, PHASE, file) as study:
        yield replace(study, config=config)


def with_split(config: Config, split: str, limit: int | None = None) -> Config:
    """The config with another split. Ids that it lists are those of its own split and say nothing about another."""
    suite = config.suite
    tasks = suite.tasks if split == suite.split else ()
    return replace(config, suite=replace(suite, split=split, tasks=tasks, limit=limit or suite.limit))


async def evaluate(
    study: Study,
    arms: Sequence[Arm],
    runs: int,
    *,
    on_begin: Callable[[int, int], None] = lambda total, done: None,
    on_done: Callable[[], None] = lambda: None,
    on_step: Callable[[], None] = lambda: None,
) -> Evaluated:
    """Run every task under every arm so many times. What the run has already is not done again."""
    tasks = await tasks_of(study)
    note_arms(study.store, arms)
    plan = planned(tasks, arms, runs, study.config.run.seed)
    finished = study.store.finished("trajectory")
    on_begin(len(plan), sum(p.unit in finished for p in plan))

    async def work(p: Planned) -> None:
        await run_task(p.arm.study(study), p.unit, p.task, phase=PHASE, run=p.run, snapshots=False, on_step=on_step)
        on_done()

    todo = ((p.unit, partial(work, p)) for p in plan if p.unit not in finished)
    unfinished = await run_units(todo, study.config.run.concurrency)
    return Evaluated(tuple(task.id for task in tasks), tuple(p.unit for p in plan), tuple(unfinished))


def planned(tasks: Sequence[Task], arms: Sequence[Arm], runs: int, seed: int = 0) -> list[Planned]:
    """All trajectories in the order in which they begin: by task, then by run, then by arm.

    Which arm comes first changes from run to run of a task, and begins elsewhere for each task.
    """
    distinct = list({arm.key: arm for arm in arms}.values())
    plan = []
    for task in tasks:
        start = seed_of(f"{PHASE}/order/{task.id}", 0, seed)
        for run in range(runs):
            first = (start + run) % len(distinct)
            for arm in distinct[first:] + distinct[:first]:
                plan.append(Planned(unit_of(arm.key, task.id, run), arm, task, run))
    return plan


def unit_of(key: str, task: str, run: int) -> str:
    return f"{PHASE}/{key}/{task}/{run}"


def digest(store: Store, units: Sequence[str]) -> str:
    """One hash over the results of these units, whatever else the run holds."""
    return phase_digest(store, "trajectory", without=store.finished("trajectory").difference(units))


def retry_broken(store: Store) -> int:
    """Let trajectories be made anew that ended because their environment broke. Returns how many those are."""
    broken = [row.unit for row in trajectories(store, phase=PHASE) if row.ending == BROKEN]
    for unit in broken:
        store.reopen(unit)
    return len(broken)


async def tasks_of(study: Study) -> tuple[Task, ...]:
    """The tasks that are evaluated."""
    split = study.config.suite.split
    try:
        return await study.tasks()
    except (InputError, ValueError, EnvironmentFailed) as error:
        raise InputError(f"split {split!r}: {error} (--split chooses it, and the test split is the default)") from None
