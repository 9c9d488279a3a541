"""What commands and reproductions will take, before they begin. No real model is asked, and a benchmark whose size the
paper prints need not be installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from recompact.adaptation.method import Method
from recompact.adaptation.registry import load_method
from recompact.attribution.allocation import Allocation, RunFacts
from recompact.attribution.bisection.bisect import PHASE, SHARE
from recompact.attribution.forecast import BASIS, HARMFUL, draws_of, forecast_draws, imagined_outcomes
from recompact.attribution.registry import allocation_named, allocation_of
from recompact.engine.assembly import open_suite
from recompact.engine.config import Config
from recompact.engine.forecast import Amount, Forecast, Work, scale_usage, with_price
from recompact.engine.store.calls import pace_of
from recompact.engine.store.runs import BoundaryRow, boundary_rows
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_verdicts import ArmVerification
from recompact.evaluation.arms import Arm
from recompact.evaluation.reproduction.experiments import (
    DRAWS,
    Adaptations,
    Diagnostics,
    Experiment,
    Setting,
    UnseenTasks,
    Windows,
)
from recompact.evaluation.reproduction.habits import UsualTrajectory, habits_of
from recompact.evaluation.reproduction.paper import benchmark
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Outcomes

CONTINUATION = 0.7  # of a trajectory's tokens: the mean that follows from the paper's table of costs
EVIDENCE = 0.25  # of [adapt] evidence_tokens: what a diagnosis is usually shown
CALLS = 3  # to the optimizer for one candidate
SEARCH = 25  # continuations of a search for one cause: benchmarks/causes.py counts 19 to 26


async def number_of_tasks(config: Config, split: str) -> int:
    """How many tasks a config runs. Where the suite is not installed, the paper's number for it stands in."""
    chosen = config.suite
    if chosen.tasks:
        return min(len(chosen.tasks), chosen.limit or len(chosen.tasks))
    known = benchmark(chosen.use)
    try:
        number = len(await open_suite(config).tasks(split))
    except InputError:
        if known is None or chosen.use != known.name:
            raise
        number = known.train if split == "train" else known.test
    return min(number, chosen.limit or number)


async def forecast_collection(config: Config, run: Path) -> Forecast:
    """`collect`."""
    habits = await habits_of(config, [run])
    tasks = await number_of_tasks(config, config.suite.split)
    return _forecast([_trajectories("collect", habits, tasks, _count_finished(run, "collect/"))], habits, config)


def forecast_verification(config: Config, store: Store) -> Forecast:
    """`verify`, for a run that was collected."""
    work = forecast_draws(store, allocation_of(store, config.verify))
    pace = pace_of(store, config.agent.model)
    seconds = pace.call + pace.pause if pace.call else None
    return with_price(Forecast((work,), BASIS, seconds=seconds), config)


async def forecast_adaptation(config: Config, method: Method, run: Path) -> Forecast:
    """`adapt`: all that is still to be done of its steps."""
    habits = await habits_of(config, [run])
    tasks = await number_of_tasks(config, config.suite.split)
    settings = config.adapt
    works = [_trajectories("collect", habits, tasks, _count_finished(run, "collect/"))]
    if method.needs_effects:
        works.append(_verification(config, run, habits, tasks))
    if method.tested:
        works.append(_searches(run, habits, tasks, works[-1]))
    own = method.training_runs * tasks
    if own:
        works.append(_trajectories(method.name, habits, own))
    if method.asks_optimizer:
        works.append(_questions(config, method, habits, tasks))
    fit = (1 + settings.candidates) * min(settings.fit_tasks, tasks) * settings.fit_runs
    works.append(_trajectories("select", habits, method.selections * fit, _count_finished(run, "select/")))
    return _forecast(works, habits, config)


async def forecast_evaluation(
    config: Config, arms: Sequence[Arm], runs: int, run: Path, verified: Sequence[ArmVerification] = ()
) -> Forecast:
    """`evaluate`; what an arm without compaction saves and spends is not told apart. The compactions of `verified` arms
    are counted by each one's own habits."""
    habits = await habits_of(config, [run])
    tasks = await number_of_tasks(config, config.suite.split)
    done = _count_finished(run, "evaluate/")
    works = [_trajectories("evaluate", habits, len(arms) * tasks * runs, done)]
    for plan in verified:
        own = await habits_of(plan.config, [plan.run])
        collected = _count_finished(plan.run, "collect/")
        works.append(_trajectories(f"collect {plan.arm.label}", own, tasks, collected))
        works.append(replace(_verification(plan.config, plan.run, own, tasks), name=f"verify {plan.arm.label}"))
    return _forecast(works, habits, config)


async def forecast_gate(config: Config, pairs: int, run: Path, *, replay: bool) -> Forecast:
    """`gate`, if it takes all its pairs and none was played before: most stop earlier."""
    habits = await habits_of(config, [run])
    make = _continuations if replay else _trajectories
    works = [replace(make("gate", habits, 2 * pairs, 0), name=f"gate, at most {pairs:,} pairs")]
    return _forecast(works, habits, config)


async def forecast_reproduction(setting: Setting, experiments: Sequence[Experiment], train: int, test: int) -> Forecast:
    """These experiments, with `train` tasks to adapt on and `test` to evaluate on."""
    habits = await habits_of(setting.config, sorted(setting.directory.glob("*.db")))
    works: list[Work] = []
    for each in experiments:
        whole, continuations = _counts(setting, each, habits, train, test)
        path = setting.path(each.name)
        works.append(_trajectories(each.name, habits, whole, _count_finished(path, kind="trajectory")))
        if continuations:
            done = _count_finished(path, kind="continuation")
            works.append(_continuations(f"{each.name}, draws", habits, continuations, done))
    return _forecast(works, habits, setting.config)


def _counts(
    setting: Setting, experiment: Experiment, habits: UsualTrajectory, train: int, test: int
) -> tuple[int, int]:
    """Trajectories and continuations."""
    boundaries, settings = round(train * habits.compactions), setting.config.adapt
    selection = (1 + settings.candidates) * min(settings.fit_tasks, train) * settings.fit_runs
    match experiment:
        case Adaptations(_, methods):
            chosen = [load_method(method) for method in methods]
            own = max(method.training_runs for method in chosen)  # methods share the runs that several need
            whole = train + own * train + sum(method.selections for method in chosen) * selection
            draws = imagined_draws(allocation_named(setting.config.verify), boundaries)
            return whole, draws * any(method.needs_effects for method in chosen)
        case UnseenTasks():
            arms = len(experiment.unscoped()) + len(setting.scopes) * (1 + len(experiment.methods))
            return arms * test * setting.runs, 0
        case Windows():
            return (1 + len(experiment.budgets(setting))) * train * setting.runs, 0
        case Diagnostics():
            return train + selection * experiment.adapted, 2 * DRAWS * boundaries


def imagined_draws(allocation: Allocation, boundaries: int, steps: int = 15) -> int:
    """How many draws an allocation takes for so many boundaries, of which one in ten is harmful."""
    ids = [BoundaryId(f"collect/{n}", 1) for n in range(boundaries)]
    rows = {id: BoundaryRow(id.unit, 1, "", 0, 0, 0, steps, True) for id in ids}
    outcome = imagined_outcomes(rows, 3 * steps, Random("forecast"))
    return len(draws_of(allocation, {id: Outcomes() for id in ids}, outcome))


def _verification(config: Config, run: Path, habits: UsualTrajectory, tasks: int) -> Work:
    if run.is_file():
        with Store.read(run) as store:
            if store.metadata.identity and boundary_rows(store):
                return forecast_draws(store, allocation_of(store, config.verify))
    facts = RunFacts(config.run.seed, config.run.step_limit)
    allocation = allocation_named(config.verify, facts, config.directory)
    return _continuations("verify", habits, imagined_draws(allocation, round(tasks * habits.compactions)), 0)


def _searches(run: Path, habits: UsualTrajectory, tasks: int, verification: Work) -> Work:
    """What the search for causes takes, which has a share of the verification's continuations at most."""
    most = int(SHARE * (verification.done + verification.expected.units))
    expected = min(most, round(SEARCH * HARMFUL * tasks * habits.compactions))
    done = _count_finished(run, f"{PHASE}/")
    limit = _continuations("bisect", habits, most, done).expected
    return replace(_continuations("bisect", habits, expected, done), at_most=limit)


def _trajectories(name: str, habits: UsualTrajectory, number: int, done: int = 0) -> Work:
    missing = max(0, number - done)
    return Work(name, "trajectory", min(done, number), Amount(missing, scale_usage(habits.usage, missing)))


def _continuations(name: str, habits: UsualTrajectory, number: int, done: int) -> Work:
    missing = max(0, number - done)
    alone = {role: usage for role, usage in habits.usage.items() if role != "compressor"}
    usage = scale_usage(alone, missing * CONTINUATION * habits.tokens / max(1, Amount(1, alone).tokens))
    return Work(name, "continuation", min(done, number), Amount(missing, usage))


def _questions(config: Config, method: Method, habits: UsualTrajectory, tasks: int) -> Work:
    """What the optimizer is asked: about each harmful compaction, or each task, and for each candidate."""
    settings = config.adapt
    about = HARMFUL * tasks * habits.compactions if method.needs_effects else tasks / 2
    calls = round(about + CALLS * settings.candidates)
    usage = {"optimizer": Usage(round(calls * EVIDENCE * settings.evidence_tokens), 1_000 * calls, calls=calls)}
    return Work("revise", "question", 0, Amount(calls, usage))


def _count_finished(run: Path, beginning: str = "", kind: str = "trajectory") -> int:
    if not run.is_file():
        return 0
    with Store.read(run) as store:
        return sum(name.startswith(beginning) for name in store.finished(kind))


def _forecast(works: Sequence[Work], habits: UsualTrajectory, config: Config) -> Forecast:
    return with_price(Forecast(tuple(works), _basis(habits), seconds=habits.seconds), config)


def _basis(habits: UsualTrajectory) -> str:
    return (
        f"{habits.basis}: {habits.steps:.0f} steps, {habits.tokens / 1000:,.0f} thousand tokens and"
        f" {habits.compactions:.1f} compactions a trajectory"
    )
