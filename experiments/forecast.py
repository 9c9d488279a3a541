"""What an experiment takes before it begins: calls, tokens and money by role, asking no model and needing no key.

What a trajectory takes is measured on the run files of the experiment where there are enough, else assumed; the table
says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiment import Experiment
from recompact.adaptation.method import load_method
from recompact.engine.forecast import price_of
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arms import PROMPTING, built_in_arms
from recompact.models.endpoint import Price
from recompact.values.chat import Usage
from recompact.values.tables import Number, Table, columns

ENOUGH = 5  # trajectories with a compaction, before measured habits count
CONTINUATION = 0.5  # of a trajectory's agent calls
SEARCHES = 0.5  # of verification's continuations, where retained compactions are bisected
INSTRUCTIONS = 500  # tokens of a compaction prompt besides the history
STEP = 60  # output tokens of an agent's step
ANSWER = 1_000  # output tokens of the optimizer
SIMULATED = "sim-"
_UNPROMPTED = frozenset(built_in_arms()) - {PROMPTING}


@dataclass(frozen=True)
class Habits:
    """A trajectory with compaction on average."""

    agent: Usage
    compressor: Usage
    basis: str


@dataclass(frozen=True)
class Share:
    """What one role takes in all."""

    role: str
    model: str
    usage: Usage
    price: Price

    @property
    def simulated(self) -> bool:
        return self.model.startswith(SIMULATED)

    @property
    def money(self) -> float:
        return self.price.of(self.usage)


def forecast(experiment: Experiment, runs: int | None = None) -> Table:
    """Everything that the whole experiment takes, no matter how much of it is done already."""
    habits = measured_habits(experiment) or assumed_habits(experiment)
    whole, continuations, questions = amounts(experiment, habits, runs or experiment.plan.runs)
    compressed = whole - _uncompressed_trajectories(experiment, runs or experiment.plan.runs)
    config = experiment.config
    usage = {
        "agent": _times(habits.agent, whole + CONTINUATION * continuations),
        "compressor": _times(habits.compressor, compressed),
        "optimizer": Usage(questions * config.adapt.evidence_tokens, questions * ANSWER, calls=questions),
    }
    models = {"agent": config.agent.model, "compressor": config.compressor_model, "optimizer": config.optimizer_model}
    shares = [Share(role, models[role], usage[role], price_of(config.models.get(models[role]))) for role in usage]
    shares = [share for share in shares if share.usage.calls]
    rows = tuple(
        (
            share.role,
            share.model,
            share.usage.calls,
            Number(share.usage.input / 1e6, 2),
            Number(share.usage.output / 1e6, 2),
            None if share.simulated else Number(share.money, 2),
        )
        for share in shares
    )
    priced = sum(share.money for share in shares if not share.simulated)
    notes = (
        f"{whole} trajectories and {continuations} continuations, from {habits.basis}: {habits.agent.calls} steps and"
        f" {habits.compressor.calls} compactions a trajectory. Within a factor of two at best.",
        f"Together {priced:,.2f} by the prices of the config, nothing cached; simulated models cost nothing."
        if priced
        else "The config gives no prices.",
        *_ceiling_note(experiment, priced),
        "The optimizer is taken to be asked about every boundary, in evidence of full size. Reasoning is not foreseen."
        if questions
        else "Reasoning is not foreseen.",
    )
    heads = columns("role", "model", "calls", "input", "output", "money", input="M input", output="M output")
    return Table(f"What {experiment.name} takes", heads, rows, notes)


def _ceiling_note(experiment: Experiment, money: float) -> Iterator[str]:
    ceiling = experiment.config.ceiling.money
    if ceiling is not None and money:
        ends = " That is less: it stops there, and goes on when the ceiling is raised." if ceiling < money else ""
        yield f"A run file stops when it has cost {ceiling:,.2f}.{ends}"


def amounts(experiment: Experiment, habits: Habits, runs: int) -> tuple[int, int, int]:
    """Trajectories, continuations, and questions to the optimizer."""
    plan, settings = experiment.plan, experiment.config.adapt
    train = len(experiment.config.suite.tasks) if plan.methods else 0
    fit = min(settings.fit_tasks, train) * settings.fit_runs if plan.until == "select" else 0
    boundaries = train * habits.compressor.calls
    per_boundary = draws(experiment.config.verify.allocation)
    whole, questions = train + fit, 0
    for method in plan.methods:
        whole += settings.candidates * fit
        if method == "gepa":  # by default, as many runs as verification makes continuations
            whole += int(experiment.options(method).get("metric_calls", per_boundary * boundaries))
        if method == "pair":
            questions += boundaries + settings.candidates
        elif load_method(method, experiment.options(method), experiment.config.directory).asks_optimizer:
            questions += train + settings.candidates
    whole += (len(plan.arms) + len(plan.later)) * len(plan.tasks) * runs
    whole += _trials(experiment)
    searched = 1 + SEARCHES if plan.bisect else 1
    return whole, round(searched * per_boundary * boundaries), questions


def draws(allocation: str) -> float:
    """Continuations that an allocation spends on a boundary, on average.

    >>> draws("halving"), draws("uniform:3"), draws("chained:uniform:1")
    (3.5, 6.0, 1.0)
    """
    uniform = re.search(r"uniform:?(\d*)", allocation)
    spent = 2.0 * int(uniform[1] or 3) if uniform else 3.5
    return spent - 1 if allocation.startswith("chained") else spent


def _uncompressed_trajectories(experiment: Experiment, runs: int) -> int:
    """Trajectories without a compressor."""
    unprompted = [text for text in (*experiment.plan.arms, *experiment.plan.later) if text in _UNPROMPTED]
    return len(unprompted) * len(experiment.plan.tasks) * runs + _trials(experiment)


def _trials(experiment: Experiment) -> int:
    """Training tasks without compaction: what all ACON methods compare with, and what shows whether any is solvable."""
    acon = any(method.startswith("acon") for method in experiment.plan.methods)
    return (acon + bool(experiment.plan.solvable)) * len(experiment.config.suite.tasks)


def measured_habits(experiment: Experiment) -> Habits | None:
    """From the run files of this very experiment."""
    rows: list[TrajectoryRow] = []
    for path in (experiment.adaptations, experiment.evaluation):
        if path.is_file():
            with Store.read(path) as store:
                rows += [row for phase in ("collect", "evaluate") for row in trajectories(store, phase=phase)]
    compacted = [row for row in rows if row.compactions]
    if len(compacted) < ENOUGH:
        return None
    agent, compressor = (_mean([row.usage.get(role, Usage()) for row in compacted]) for role in ("agent", "compressor"))
    return Habits(agent, compressor, f"{len(compacted)} trajectories of its run files")


def assumed_habits(experiment: Experiment) -> Habits:
    """Half the step limit, contexts of twice the budget, two compactions."""
    config = experiment.config
    steps, budget = round(config.run.step_limit / 2), config.compressor.budget
    return Habits(
        Usage(steps * 2 * budget, steps * STEP, calls=steps),
        Usage(2 * (budget + INSTRUCTIONS), 2 * budget // 2, calls=2),
        "assumptions (half the step limit, contexts of twice the budget, two compactions)",
    )


def _mean(usages: Sequence[Usage]) -> Usage:
    total = sum(usages, Usage())
    return _times(total, 1 / len(usages))


def _times(usage: Usage, number: float) -> Usage:
    return Usage(round(usage.input * number), round(usage.output * number), calls=round(usage.calls * number))
