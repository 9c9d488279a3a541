"""An average trajectory, which forecasts multiply: from runs that exist, from simulated models, from what the paper
prints for the benchmark, or assumed; a forecast says which."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

from recompact.engine.assembly import open_study, open_suite
from recompact.engine.collection import collect
from recompact.engine.config import CeilingConfig, Config
from recompact.engine.forecast import UsageByRole, add_usage, scale_usage
from recompact.engine.store.calls import pace_of
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.reproduction.paper import arm_figures, benchmark
from recompact.models.registry import MODELS
from recompact.values.chat import Usage

OUTPUT = 0.05  # of all tokens, where nothing is known
ENOUGH = 5  # trajectories needed before a run's own habits count
SAMPLE = 45  # tasks that simulated models play


@dataclass(frozen=True)
class UsualTrajectory:
    """An average trajectory with compaction, and where its figures come from."""

    steps: float
    usage: UsageByRole
    compactions: float
    basis: str
    seconds: float | None = None  # of one call, with what happens until the next

    @property
    def tokens(self) -> float:
        return sum(usage.total for usage in self.usage.values())


async def habits_of(config: Config, runs: Iterable[Path] = ()) -> UsualTrajectory:
    """The habits of what a config runs: of these runs of it, or whatever is known without them."""
    embedded = config.deciding_models & {*MODELS.names()} - config.models.keys()
    simulated = {name for name in embedded if getattr(MODELS.find(name), "simulated", False)}
    played, seconds = _read_runs(config, runs)
    if measured := measured_habits(played):
        habits = measured
    elif simulated == config.deciding_models and not config.suite.host:
        habits = await _sampled_habits(config)
    else:
        habits = published_habits(config) or assumed_habits(config)
    return replace(habits, seconds=seconds)


def _read_runs(config: Config, runs: Iterable[Path]) -> tuple[list[TrajectoryRow], float | None]:
    """The trajectories of these runs, and how long a call to the agent's model took in them."""
    rows: list[TrajectoryRow] = []
    paces = []
    for path in runs:
        if path.is_file():
            with Store.read(path) as store:
                rows += [row for phase in ("collect", "evaluate") for row in trajectories(store, phase=phase)]
                paces.append(pace_of(store, config.agent.model))
    seconds = [pace.call + pace.pause for pace in paces if pace.call]
    return rows, fmean(seconds) if seconds else None


def measured_habits(rows: Iterable[TrajectoryRow]) -> UsualTrajectory | None:
    """From trajectories in which something was compacted, if there are enough of them."""
    compacted = [row for row in rows if row.compactions]
    if len(compacted) < ENOUGH:
        return None
    usage = scale_usage(add_usage(row.usage for row in compacted), 1 / len(compacted))
    return UsualTrajectory(
        fmean(row.steps for row in compacted),
        usage,
        fmean(row.compactions for row in compacted),
        f"{len(compacted)} trajectories of these runs",
    )


async def _sampled_habits(config: Config) -> UsualTrajectory:
    """Simulated models cost nothing: a few tasks, drawn by lot, are simply played."""
    tasks = config.suite.tasks or tuple(task.id for task in await open_suite(config).tasks(config.suite.split))
    tasks = tasks[: config.suite.limit]
    drawn = tuple(Random("forecast").sample(tasks, min(SAMPLE, len(tasks))))
    suite = replace(config.suite, tasks=drawn, limit=None)
    few = replace(config, suite=suite, ceiling=CeilingConfig())  # what is not paid for cannot exceed it
    with tempfile.TemporaryDirectory() as place:
        async with open_study(few, Path(place) / "sample.db") as study:
            await collect(study)
            rows = trajectories(study.store)
    number = len(rows)
    usage = scale_usage(add_usage(row.usage for row in rows), 1 / number)
    basis = f"{number} tasks that the simulated models played"
    return UsualTrajectory(fmean(row.steps for row in rows), usage, fmean(row.compactions for row in rows), basis)


def published_habits(config: Config) -> UsualTrajectory | None:
    """From the paper's figures. Steps times the peak comes within a fifth of the totals that it gives."""
    known = benchmark(config.suite.use)
    figures = arm_figures(known.name, "prompting", config.compressor.scope) if known else {}
    if known is None or not figures or config.suite.use != known.name:
        return None
    boundaries = known.of("cost", config.compressor.scope, "boundaries")
    compactions = boundaries / known.train if boundaries else 2.5
    tokens = 1000 * figures.get("tokens", figures["steps"] * figures["peak"])
    return _habits(figures["steps"], tokens, compactions, f"the paper's figures for {known.title}")


def assumed_habits(config: Config) -> UsualTrajectory:
    """Half the steps that are allowed, and contexts of twice the budget."""
    steps = config.run.step_limit / 2
    tokens = steps * 2 * config.compressor.budget
    return _habits(steps, tokens, 2.5, "assumptions: half the step limit, contexts of twice the budget")


def _habits(steps: float, tokens: float, compactions: float, basis: str) -> UsualTrajectory:
    """Where only a sum is known, it is taken to be the agent's but for the compressor's calls."""
    share = compactions / (steps + compactions)
    usage = {
        role: Usage(round(part * tokens * (1 - OUTPUT)), round(part * tokens * OUTPUT), calls=round(calls))
        for role, part, calls in (("agent", 1 - share, steps), ("compressor", share, compactions))
    }
    return UsualTrajectory(steps, usage, compactions, basis)
