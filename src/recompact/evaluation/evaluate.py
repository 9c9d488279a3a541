"""Run tasks under several arms, several times each: the records that tables and comparisons are based on.

Arms are interleaved, so that a server that gets better or worse in the meantime does so for all of them alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recompact.engine.assembly import EVALUATION, compressor_in, open_study
from recompact.engine.collection import trajectory_unit
from recompact.engine.config import CompressorConfig, Config, ConfigError
from recompact.engine.config_parser import load_config
from recompact.engine.shared_starts import SharedStart, can_share, play_starts
from recompact.engine.store.runs import phase_digest
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import InputError
from recompact.evaluation.arms import Arm, note_arms
from recompact.models.journal import seed_of
from recompact.triggers.registry import BUDGET
from recompact.values.template import resolve

PHASE = EVALUATION


@dataclass(frozen=True)
class PlannedRun:
    """One trajectory to make."""

    unit: str
    arm: Arm
    task: Task
    run: int


@dataclass(frozen=True)
class EvaluationPlan:
    """All trajectories of an evaluation, in the order in which they begin."""

    arms: tuple[Arm, ...]
    tasks: tuple[Task, ...]
    runs: tuple[PlannedRun, ...]

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(run.unit for run in self.runs)


@asynccontextmanager
async def open_evaluation(
    config: Config | Path | str, run: Store | Path | str | None = None, **objects: Any
) -> AsyncIterator[Study]:
    """A study whose run may get more tasks, more runs and other arms later. Ready objects are as for `open_study`; the
    run's name defaults to the config's with `-evaluate`.

    What an arm or a task decides is part of a unit's name, so it need not be the same throughout the run.
    """
    config = config if isinstance(config, Config) else load_config(Path(config))
    if run is None and config.file is not None:
        run = f"{config.file.stem}-evaluate"
    defaults = CompressorConfig()
    shared = replace(
        config.compressor,
        kind=defaults.kind,
        options=defaults.options,
        budget=defaults.budget,
        template=defaults.template,
        scope=defaults.scope,
        rendering=defaults.rendering,
        trigger=defaults.trigger,
    )
    same = replace(config, compressor=shared, suite=replace(config.suite, tasks=(), limit=None))
    if isinstance(run, Store) and (begun := run.metadata.command or PHASE) != PHASE:
        raise InputError(f"{run.path} is a run of `recompact {begun}`: give the evaluation its own --run NAME")
    async with open_study(same, run, evaluation=True, **objects) as study:
        own = resolve(config.compressor.template, config.directory)
        own_kind = study.compressor_kind if objects.get("compressor") else compressor_in(config)
        yield replace(study, config=config, template=own, compressor_kind=own_kind)


def with_split(config: Config, split: str, limit: int | None = None) -> Config:
    """The config with another split. The ids that it lists belong to its own split and say nothing about another."""
    suite = config.suite
    tasks = suite.tasks if split == suite.split else ()
    return replace(config, suite=replace(suite, split=split, tasks=tasks, limit=limit or suite.limit))


async def evaluate(study: Study, arms: Sequence[Arm], runs: int) -> EvaluationPlan:
    """Run every task under every arm `runs` times. Existing work is reused."""
    plan = await plan_evaluation(study, arms, runs)
    await play_plan(study, plan)
    return plan


async def play_plan(study: Study, plan: EvaluationPlan) -> None:
    """Make the trajectories of a plan that the run does not have yet."""
    note_arms(study.store, plan.arms)
    studies = {arm.key: arm.study(study) for arm in plan.arms}
    starts = await _shared_starts(study, plan)
    units = [
        trajectory_unit(
            studies[p.arm.key], p.unit, p.task, phase=PHASE, run=p.run, snapshots=False, start=starts.get(p.unit, "")
        )
        for p in plan.runs
    ]
    await study.complete("evaluate", "trajectory", units)


async def _shared_starts(study: Study, plan: EvaluationPlan) -> dict[str, str]:
    """By unit, the start that it shares with the other arms of its budget; those that are finished need none."""
    finished = study.store.finished("trajectory")
    alike = {arm.key for arm in plan.arms if not arm.study(study).schedule.tools}  # by what the agent may call
    by_budget = [p for p in plan.runs if p.arm.compresses and p.arm.budget and p.arm.trigger in (None, BUDGET)]
    by_budget = [p for p in by_budget if p.arm.key in alike and p.arm.scope != "observation"]
    waiting = [p for p in by_budget if p.unit not in finished]
    if not waiting or not can_share(study):
        return {}
    starts = {p.unit: SharedStart(PHASE, p.arm.budget or 0, p.task, p.run) for p in waiting}
    usable = await play_starts(waiting[0].arm.study(study), starts.values())  # over the budget, whatever the config's
    return {unit: start.name for unit, start in starts.items() if start.name in usable}


async def plan_evaluation(study: Study, arms: Sequence[Arm], runs: int) -> EvaluationPlan:
    """What an evaluation will run."""
    complete = tuple(arm.completed(study) for arm in arms)
    tasks = await tasks_of(study)
    return EvaluationPlan(complete, tasks, tuple(plan_runs(tasks, complete, runs, study.config.run.seed)))


def plan_runs(tasks: Sequence[Task], arms: Sequence[Arm], runs: int, seed: int = 0) -> list[PlannedRun]:
    """All trajectories in the order in which they begin: by task, then by run, then by arm.

    The arm that comes first rotates over the runs of a task, and each task has its own starting point.
    """
    distinct = list({arm.key: arm for arm in arms}.values())
    plan = []
    for task in tasks:
        start = seed_of(f"{PHASE}/order/{task.id}", 0, seed)
        for run in range(runs):
            first = (start + run) % len(distinct)
            for arm in distinct[first:] + distinct[:first]:
                plan.append(PlannedRun(unit_of(arm.key, task.id, run), arm, task, run))
    return plan


def unit_of(key: str, task: str, run: int) -> str:
    return f"{PHASE}/{key}/{task}/{run}"


def digest(store: Store, units: Sequence[str]) -> str:
    """One hash over the results of these units, whatever else the run holds."""
    return phase_digest(store, "trajectory", without=store.finished("trajectory").difference(units))


async def tasks_of(study: Study) -> tuple[Task, ...]:
    """The tasks that are evaluated."""
    split = study.config.suite.split
    try:
        return await study.tasks()
    except ConfigError:  # another split would not help
        raise
    except (InputError, ValueError, EnvironmentFailed) as error:
        raise InputError(f"split {split!r}: {error} (--split chooses it, and the test split is the default)") from None
