"""What commands and reproductions will take, before they begin. No real model is asked, and a benchmark whose size the
paper prints need not be installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

from recompact.adaptation.method import Method, load_method
from recompact.attribution.allocation import Allocation, RunFacts, play_through
from recompact.attribution.bisection.bisect import PHASE, SHARE
from recompact.attribution.forecast import BASIS, HARMFUL, forecast_draws, imagined_outcomes
from recompact.attribution.registry import allocation_named, allocation_of
from recompact.engine.assembly import open_study, open_suite
from recompact.engine.collection import collect
from recompact.engine.config import CeilingConfig, Config
from recompact.engine.forecast import Amount, Forecast, UsageByRole, Work, add_usage, scale_usage, with_price
from recompact.engine.store.calls import pace_of
from recompact.engine.store.runs import BoundaryRow, TrajectoryRow, boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_verdicts import ArmVerification
from recompact.evaluation.arms import PROMPTED, Arm
from recompact.evaluation.probes import CompactionPoint
from recompact.evaluation.probing import PLANTED
from recompact.evaluation.reproduction.experiments import (
    DRAWS,
    Adaptations,
    Diagnostics,
    Experiment,
    Setting,
    UnseenTasks,
    Windows,
)
from recompact.evaluation.reproduction.paper import arm_figures, benchmark
from recompact.models.protocol import MODELS
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.texts import quantity

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
    return len(play_through(allocation, {id: Outcomes() for id in ids}, outcome)[1])


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
    basis = (
        f"{habits.basis}: {habits.steps:.0f} steps, {habits.tokens / 1000:,.0f} thousand tokens and"
        f" {habits.compactions:.1f} compactions a trajectory"
    )
    return with_price(Forecast(tuple(works), basis, seconds=habits.seconds), config)


def forecast_probes(
    config: Config, points: Sequence[CompactionPoint], arms: Sequence[Arm], *, ask: bool, judge: bool
) -> Forecast:
    """What it takes, if nothing of it was done before."""
    asking = [point for point in points if point.probes]
    prompted = [arm for arm in arms if PROMPTED in arm.kind]
    works = []
    if prompted:
        usages = [
            Usage(size, point.budget or config.compressor.budget, calls=1)
            for point in asking
            for size in (point.pre.size, sum(turn.tokens for turn in point.following))
            if size
        ]
        total = scale_usage({"compressor": sum(usages, Usage())}, len(prompted))
        works.append(Work("compact", "compaction", 0, Amount(len(prompted) * len(asking), total)))
    questions = sum(len(point.probes) for point in asking)
    if ask:
        sizes = [
            len(point.probes) * (point.pre.size + (len(arms) + 1) * (point.budget or config.compressor.budget))
            for point in asking
        ]
        number = questions * (len(arms) + 2)
        works.append(
            Work("ask", "question", 0, Amount(number, {"agent": Usage(sum(sizes), 20 * number, calls=number)}))
        )
    if judge:
        open_questions = sum(len(point.probes) - len(point.facts) for point in asking)
        number = (len(arms) + 2) * open_questions + 4 * PLANTED
        usage = {"optimizer": Usage(300 * number, 2 * number, calls=number)}
        works.append(Work("judge", "verdict", 0, Amount(number, usage)))
    basis = f"{quantity(len(asking), 'compaction')} with {quantity(questions, 'probe')}, and budgets that are used up"
    return with_price(Forecast(tuple(works), basis), config)


def forecast_pairs(config: Config, points: Sequence[CompactionPoint], arms: Sequence[Arm], pairs: int) -> Forecast:
    """What a gate by probes takes, if it takes all its pairs and none was compacted before."""
    prompted = sum(PROMPTED in arm.kind for arm in arms)
    written = [point.budget or config.compressor.budget for point in points]
    usage = Usage(sum(point.pre.size for point in points), sum(written), calls=len(points))
    total = scale_usage({"compressor": usage}, prompted * pairs / max(1, len(points)))
    work = Work(f"gate, at most {pairs:,} pairs", "compaction", 0, Amount(2 * pairs, total if prompted else {}))
    basis = f"the mean of {quantity(len(points), 'compaction')}, and budgets that are used up"
    return with_price(Forecast((work,), basis), config)


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
    return _mean_trajectory(compacted, f"{len(compacted)} trajectories of these runs")


def _mean_trajectory(rows: Sequence[TrajectoryRow], basis: str) -> UsualTrajectory:
    usage = scale_usage(add_usage(row.usage for row in rows), 1 / len(rows))
    return UsualTrajectory(fmean(row.steps for row in rows), usage, fmean(row.compactions for row in rows), basis)


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
    return _mean_trajectory(rows, f"{len(rows)} tasks that the simulated models played")


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
