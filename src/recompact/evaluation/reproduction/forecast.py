"""What a reproduction will take, before it begins: each run's trajectories, calls, tokens and money, asking no model.

The length and cost of a trajectory are taken from the runs that already exist, else from what the paper prints for the
benchmark, else assumed; the forecast says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from recompact.engine.config import Config
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.reproduction.experiments import (
    DRAWS,
    Adaptations,
    Diagnostics,
    Evaluation,
    Experiment,
    Setting,
    Windows,
)
from recompact.evaluation.reproduction.paper import arm_figures, benchmark
from recompact.models.limits import Price
from recompact.values.chat import Usage
from recompact.values.tables import Number, Row, Table, columns

HALVING = 3.5  # continuations that halving spends on a boundary
CONTINUATION = 0.7  # of a trajectory's tokens: the mean that follows from the paper's table of costs
OUTPUT = 0.05  # of all tokens, where nothing is known
ENOUGH = 5  # trajectories needed before a run's own habits count


@dataclass(frozen=True)
class Habits:
    """An average trajectory with compaction, and where its figures come from."""

    steps: float
    tokens: float
    compactions: float
    output: float  # share of the tokens
    basis: str


@dataclass(frozen=True)
class Amount:
    """What one run takes in total, and how much of it is done."""

    run: str
    trajectories: int
    continuations: int
    done: float  # share
    calls: int
    tokens: int

    @property
    def tokens_to_come(self) -> int:
        return round(self.tokens * (1 - self.done))


@dataclass(frozen=True)
class Forecast:
    """All runs of a reproduction."""

    amounts: tuple[Amount, ...]
    habits: Habits
    price: Price

    @property
    def tokens(self) -> int:
        """Still to be spent."""
        return sum(amount.tokens_to_come for amount in self.amounts)

    @property
    def money(self) -> float | None:
        """Their cost, if the config has prices; nothing is assumed to be cached."""
        if not (self.price.input or self.price.output):
            return None
        output = round(self.tokens * self.habits.output)
        return self.price.of(Usage(input=self.tokens - output, output=output))


def forecast(setting: Setting, experiments: Sequence[Experiment], train: int, test: int) -> Forecast:
    """Forecast these experiments, with `train` tasks to adapt on and `test` to evaluate on."""
    habits = _measured_habits(setting) or _published_habits(setting.config) or _assumed_habits(setting.config)
    amounts = tuple(_amount(setting, experiment, habits, train, test) for experiment in experiments)
    settings = setting.config.models.get(setting.config.agent.model)
    price = Price(settings.price.input, settings.price.output, settings.price.cached) if settings else Price()
    return Forecast(amounts, habits, price)


def _amount(setting: Setting, experiment: Experiment, habits: Habits, train: int, test: int) -> Amount:
    whole, continuations = _counts(setting, experiment, habits, train, test)
    weight = whole + CONTINUATION * continuations
    return Amount(
        experiment.name,
        whole,
        continuations,
        _share_done(setting.path(experiment.name), weight),
        round(weight * habits.steps + whole * habits.compactions),
        round(weight * habits.tokens),
    )


def _counts(setting: Setting, experiment: Experiment, habits: Habits, train: int, test: int) -> tuple[int, int]:
    """Trajectories and continuations."""
    boundaries = train * habits.compactions
    match experiment:
        case Adaptations(_, methods):
            settings = setting.config.adapt
            selection = settings.candidates * min(settings.fit_tasks, train) * settings.fit_runs
            acon = any(method.startswith("acon") for method in methods)
            whole = train + acon * train + len(methods) * selection + ("acon-utco" in methods) * (train + selection)
            return whole, round(HALVING * boundaries) if "pair" in methods else 0
        case Evaluation():
            arms = len(experiment.unscoped()) + len(setting.scopes) * (1 + len(experiment.methods))
            return arms * test * setting.runs, 0
        case Windows():
            return (1 + len(experiment.budgets(setting))) * train * setting.runs, 0
        case Diagnostics():
            return train, round(2 * DRAWS * boundaries)


def _share_done(path: Path, weight: float) -> float:
    """The share of a run that is done, at most all of it."""
    if not path.is_file() or not weight:
        return 0.0
    with Store.read(path) as store:
        kinds = [len(store.finished(kind)) for kind in ("trajectory", "continuation")]
    return min(1.0, (kinds[0] + CONTINUATION * kinds[1]) / weight)


def _measured_habits(setting: Setting) -> Habits | None:
    """From the runs of this reproduction."""
    rows: list[TrajectoryRow] = []
    for path in sorted(setting.directory.glob("*.db")):
        with Store.read(path) as store:
            rows += [row for phase in ("collect", "evaluate") for row in trajectories(store, phase=phase)]
    compacted = [row for row in rows if row.compactions]
    if len(compacted) < ENOUGH:
        return None
    spent = [sum(usage.total for usage in row.usage.values()) for row in compacted]
    output = sum(usage.output for row in compacted for usage in row.usage.values())
    basis = f"{len(compacted)} trajectories of these runs"
    compactions = fmean(row.compactions for row in compacted)
    return Habits(fmean(row.steps for row in compacted), fmean(spent), compactions, output / max(1, sum(spent)), basis)


def _published_habits(config: Config) -> Habits | None:
    """From the paper's figures. Steps times the peak comes within a fifth of the totals that it gives."""
    known = benchmark(config.suite.use)
    figures = arm_figures(known.name, "prompting", config.compressor.scope) if known else {}
    if known is None or not figures or config.suite.use != known.name:
        return None
    boundaries = known.of("cost", config.compressor.scope, "boundaries")
    compactions = boundaries / known.train if boundaries else 2.5
    tokens = 1000 * figures.get("tokens", figures["steps"] * figures["peak"])
    return Habits(figures["steps"], tokens, compactions, OUTPUT, f"the paper's figures for {known.title}")


def _assumed_habits(config: Config) -> Habits:
    """Half the steps that are allowed, and contexts of twice the budget."""
    steps = config.run.step_limit / 2
    tokens = steps * 2 * config.compressor.budget
    return Habits(steps, tokens, 2.5, OUTPUT, "assumptions: half the step limit, contexts of twice the budget")


def forecast_table(forecast: Forecast) -> Table:
    """One row for each run."""
    rows: Iterable[Row] = [
        (
            amount.run,
            amount.trajectories,
            amount.continuations or None,
            Number(100 * amount.done, 0),
            amount.calls,
            Number(amount.tokens / 1e6, 2),
            Number(amount.tokens_to_come / 1e6, 2),
        )
        for amount in forecast.amounts
    ]
    habits, money = forecast.habits, forecast.money
    price = f"about {money:,.2f} by the prices of the config, nothing cached" if money is not None else "unknown: the"
    price += "" if money is not None else " config gives no price"
    notes = (
        f"Still to come: about {forecast.tokens / 1e6:,.1f} million tokens; money: {price}.",
        f"Within a factor of two at best, from {habits.basis}: {habits.steps:.0f} steps,"
        f" {habits.tokens / 1000:,.0f} thousand tokens and {habits.compactions:.1f} compactions a trajectory. The"
        " optimizer's own calls, and a simulated user's or a judge's, are not counted.",
    )
    heads = columns(
        "run",
        "trajectories",
        "continuations",
        "done",
        "calls",
        "tokens",
        "to_come",
        done="done, %",
        tokens="M tokens",
        to_come="still to come",
    )
    return Table("What this takes", heads, tuple(rows), notes)
