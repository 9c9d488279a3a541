"""Strategies side by side: what each costs and gains against none and against each other, and at equal mean context.

An arm that compacts less keeps more and wins trivially; so its mean context stands beside its success, and where arms
ran under several budgets they are compared at the same mean context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_verdicts import NOT_VERIFIED, ArmVerdicts
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.costs import arm_costs
from recompact.evaluation.metrics import per_task
from recompact.evaluation.paired import Comparison, Difference, compare_many
from recompact.evaluation.summary import STAR, Evaluation, delta, notes, number, without_empty
from recompact.values.receipt import PRICES
from recompact.values.stats import FEWEST, Estimate, bootstrap
from recompact.values.tables import Cell, Column, Number, Table, columns, estimate_cell, tabulate
from recompact.values.texts import quantity

EVERY = (
    "none",
    "fifo",
    "masking",
    "clear_tool_results",
    "prompting",
    "masking+prompting",
    "anchors+prompting",
    "pinned+prompting",
    "prompting@phase",
    "prompting@turn",
    "prompting@interval:8",
)
"""The arms of `--strategies all`: every strategy and trigger that needs nothing to be installed."""

MORE = (
    "A strategy that compacts less keeps more of the history and wins trivially: read Acc beside Context, or run arms"
    " under several budgets (--budget 1024,2048,4096), which are then compared at equal mean context."
)
NEAR = 0.02
"""An arm whose mean context is within this share of another's has the same."""


def strategies(text: str) -> tuple[str, ...]:
    """The arms that `--strategies` names: `all`, or names as for --arm, separated by commas.

    >>> strategies("none, masking@512,prompting")
    ('none', 'masking@512', 'prompting')
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"--strategies {text!r} names none: write all, or as in --strategies none,masking,prompting")
    return EVERY if names == ("all",) else names


# --- arms


@dataclass(frozen=True)
class StrategyFigures:
    """An arm among strategies. `cost` is per task, in tokens of uncached input; `before` and `after` are mean sizes of
    a compaction; accuracy and steps are against the arm that does not compress. `verdicts` are there where the arm's
    compactions were verified."""

    arm: str
    means: Mapping[str, float]
    cost: Estimate
    before: float | None
    after: float | None
    accuracy: Difference | None = None
    steps: Difference | None = None
    verdicts: ArmVerdicts | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdicts": self.verdicts and self.verdicts.to_json()}


def strategy_figures(
    store: Store, evaluation: Evaluation, verdicts: Mapping[str, ArmVerdicts] = NOT_VERIFIED
) -> tuple[StrategyFigures, ...]:
    """All arms of an evaluation, each against the one that does not compress."""
    shared, none, source = evaluation.shared, evaluation.none, evaluation.source
    figures = []
    for arm in evaluation.arms:
        means = {key: fmean(own) for key, own in per_task(arm, shared.tasks, shared.runs, source).items()}
        costs = arm_costs(store, evaluation, arm)
        number = costs.compactions
        plain = StrategyFigures(
            arm.label,
            means,
            costs.cost,
            costs.before / number if number else None,
            costs.after / number if number else None,
            verdicts=verdicts.get(arm.label),
        )
        if none is not None and arm is not none:
            [against] = compare_many([(arm, none)], shared, keys=("acc", "steps"), source=source)
            plain = replace(plain, accuracy=against.of("acc"), steps=against.of("steps"))
        figures.append(plain)
    return tuple(figures)


# --- tables


@dataclass(frozen=True)
class Strategies:
    """The arms of an evaluation as strategies: each against none and against each other, and at equal mean context."""

    figures: tuple[StrategyFigures, ...]
    pairs: tuple[Comparison, ...]
    equal: EqualContext | None
    arms: tuple[str, ...]
    notes: tuple[str, ...]  # of the evaluation

    def to_json(self) -> dict[str, Any]:
        return {
            "strategies": [each.to_json() for each in self.figures],
            "pairs": [each.to_json() for each in self.pairs],
            "equal_context": self.equal and asdict(self.equal),
        }

    def tables(self, tasks: int) -> list[Table]:
        first = _table(self.figures, tasks)
        first = replace(first, notes=(*self.notes, *first.notes))
        return [first, _pair_table(self.arms, self.pairs), *_equal_table(self.equal)]


def strategies_of(
    store: Store, evaluation: Evaluation, verdicts: Mapping[str, ArmVerdicts] = NOT_VERIFIED
) -> Strategies | None:
    """None where no task has been finished by every arm."""
    arms = evaluation.arms
    if not evaluation.shared.tasks:
        return None
    pairs = [(one, other) for n, one in enumerate(arms) for other in arms[:n]]
    compared = compare_many(pairs, evaluation.shared, keys=("acc",), source=evaluation.source) if pairs else []
    labels = tuple(arm.label for arm in arms)
    figures, equal = strategy_figures(store, evaluation, verdicts), equal_context(evaluation)
    return Strategies(figures, tuple(compared), equal, labels, notes(evaluation))


def _table(figures: Sequence[StrategyFigures], tasks: int) -> Table:
    lines = (
        STAR,
        "from → to: mean size of a context before and after a compaction. Context: thousand tokens that the agent reads"
        f" in a call. Cost: {PRICES}; what was the same in the call before counts as cached.",
        *_verdict_notes(figures),
        MORE,
    )
    cells: dict[str, tuple[str, Callable[[StrategyFigures], Cell]]] = {
        "arm": ("strategy", lambda each: each.arm),
        "acc": ("Acc", partial(_mean, "acc")),
        "accuracy": ("Δ Acc", lambda each: _delta(each.accuracy, tasks)),
        "violations": ("Violations", partial(_mean, "violations")),
        "steps": ("Steps", partial(_mean, "steps")),
        "added": ("Δ Steps", lambda each: _delta(each.steps, tasks)),
        "compactions": ("Compactions", partial(_mean, "compactions")),
        "sizes": ("from → to", _sizes),
        "context": ("Context", partial(_mean, "context")),
        "peak": ("Peak", partial(_mean, "peak")),
        "tokens": ("Tokens", partial(_mean, "tokens")),
        "cost": ("Cost", lambda each: Number(each.cost.value / 1000)),
        "hazard": ("H", _of_verdicts(lambda own: own.effects.cell(own.effects.hazard, 3))),
        "burden": ("B", _of_verdicts(lambda own: own.effects.cell(own.effects.burden, 2))),
        "harmful": ("harmful", _of_verdicts(lambda own: own.effects.share_retained)),
        "broken": ("rules", _of_verdicts(lambda own: own.violations.cell if own.violations else None)),
    }
    return without_empty(tabulate("Strategies", figures, cells, lines))


def _of_verdicts(cell: Callable[[ArmVerdicts], Cell]) -> Callable[[StrategyFigures], Cell]:
    return lambda figures: cell(figures.verdicts) if figures.verdicts else None


def _sizes(figures: StrategyFigures) -> str | None:
    known = figures.before is not None and figures.after is not None
    return f"{figures.before:,.0f} → {figures.after:,.0f}" if known else None


def _verdict_notes(figures: Sequence[StrategyFigures]) -> list[str]:
    known = [each.verdicts for each in figures if each.verdicts]
    if not known:
        return ["H and B of each strategy's compactions: add --verify; with --dry-run it says what that takes."]
    draws = sorted({each.effects.draws for each in known if each.effects.draws})
    lines = [
        "H and B: success lost and steps added by a compaction, measured by continuing with and without it (`recompact"
        f" verify`), on average over those of one run of each task, by {_range(draws)} of each arm; harmful: those that"
        f" the verification retained. No interval with fewer than {FEWEST} trajectories."
    ]
    if any(each.violations for each in known):
        lines.append("rules: violations that a compaction adds to a continuation.")
    return lines


def _range(numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return quantity(numbers[0] if numbers else 0, "draw")
    return f"{numbers[0]} to {quantity(numbers[-1], 'draw')}"


def _mean(key: str, figures: StrategyFigures) -> Cell:
    return number(key, figures.means[key]) if key in figures.means else None


def _delta(difference: Difference | None, tasks: int) -> Cell:
    return None if difference is None else delta(difference, tasks)


def _pair_table(arms: Sequence[str], pairs: Sequence[Comparison]) -> Table:
    """Accuracy of each arm minus that of each other one, in points."""
    cells = {(c.first, c.second): f"{100 * c.of('acc').delta:+.1f}{'*' * c.marks(c.of('acc'))}" for c in pairs}
    heads = (*columns("arm", arm="row minus column"), *(Column(arm, f"{n}") for n, arm in enumerate(arms[:-1], 1)))
    rows = tuple(
        (f"{n} {one}", *("" if one == other else cells.get((one, other), "") for other in arms[:-1]))
        for n, one in enumerate(arms, 1)
    )
    chance = f"{len(pairs)} intervals: one in twenty excludes zero by chance, even where nothing differs."
    return Table("Accuracy, each against each other", heads, rows, (STAR, *([chance] if len(pairs) > 10 else [])))


# --- at equal mean context


@dataclass(frozen=True)
class EqualContext:
    """Strategies at one mean context: between two budgets of each, as far as its budgets reach there."""

    context: float
    accuracies: Mapping[str, Estimate]
    against: str
    differences: Mapping[str, Estimate]
    out_of_reach: tuple[str, ...]


def equal_context(evaluation: Evaluation) -> EqualContext | None:
    """Every strategy at the mean context that most of them reach; None where fewer than two do.

    Between two budgets, a strategy is a mixture: its accuracy in a task is the weighted mean of the two arms', with
    the weights that make the mean context equal. Intervals resample tasks and keep the weights.
    """
    curves = _curves(evaluation)
    middle = fmean(context for curve in curves.values() for context, _ in curve)

    def reaching(target: float) -> dict[str, list[float]]:
        mixed = {name: _at(curve, target) for name, curve in curves.items()}
        return {name: values for name, values in mixed.items() if values is not None}

    targets = [context for curve in curves.values() for context, _ in curve]
    target = max(targets, key=lambda each: (len(reaching(each)), -abs(each - middle)))
    mixed = reaching(target)
    if len(mixed) < 2:
        return None
    against = next((name for name in mixed if name.partition("/")[0] == PROMPTING), next(iter(mixed)))
    others = [name for name in mixed if name != against]
    estimates = bootstrap(list(mixed.values()))
    differences = bootstrap([[x - y for x, y in zip(mixed[n], mixed[against], strict=True)] for n in others])
    missing = tuple(name for name in curves if name not in mixed)
    accuracies = dict(zip(mixed, estimates, strict=True))
    return EqualContext(target, accuracies, against, dict(zip(others, differences, strict=True)), missing)


_Curve = list[tuple[float, Sequence[float]]]


def _curves(evaluation: Evaluation) -> dict[str, _Curve]:
    """By strategy, its arms: mean context and accuracy in each task, from the smallest context on."""
    shared, curves = evaluation.shared, dict[str, _Curve]()
    for arm in evaluation.arms:
        values = per_task(arm, shared.tasks, shared.runs, evaluation.source)
        if "context" in values:
            name = re.sub(rf"@{arm.settings.get('budget')}(?=[@/]|$)", "", arm.label)
            curves.setdefault(name, []).append((fmean(values["context"]), values["acc"]))
    return {name: sorted(curve, key=lambda each: each[0]) for name, curve in curves.items()}


def _at(curve: _Curve, target: float) -> list[float] | None:
    """The accuracy in each task at a mean context, if the curve reaches it."""
    near = min(curve, key=lambda each: abs(each[0] - target))
    if abs(near[0] - target) <= NEAR * target:
        return list(near[1])
    for (low, first), (high, second) in pairwise(curve):
        if low <= target <= high:
            weight = (target - low) / (high - low)
            return [(1 - weight) * x + weight * y for x, y in zip(first, second, strict=True)]
    return None


def _equal_table(equal: EqualContext | None) -> list[Table]:
    if equal is None:
        return []
    rows = tuple(
        (
            name,
            estimate_cell(accuracy, 1, scale=100),
            estimate_cell(equal.differences.get(name), 1, scale=100, signed=True),
        )
        for name, accuracy in equal.accuracies.items()
    )
    lines = [STAR, "Between two budgets a strategy is their mixture; intervals keep its weights."]
    if equal.out_of_reach:
        lines.append(f"Not reached under these budgets: {', '.join(equal.out_of_reach)}.")
    heads = columns("arm", "acc", "delta", arm="strategy", acc="Acc", delta=f"minus {equal.against}")
    return [Table(f"At a mean context of {equal.context / 1000:.2f} thousand tokens", heads, rows, tuple(lines))]
