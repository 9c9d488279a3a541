"""What a smaller budget costs: the same arms under several budgets, as in the paper's first figure.

An evaluation with arms such as `prompting@1024` and `prompting@4096` has one line of points per arm, and a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import label
from recompact.evaluation.intervals import RELATIVE, Estimates, estimates, none_of
from recompact.evaluation.metrics import metric, per_task
from recompact.evaluation.summary import STAR, Evaluation, interval, percentage
from recompact.values.stats import Estimate
from recompact.values.tables import Cell, Column, Number, Table, columns
from recompact.values.texts import quantity


@dataclass(frozen=True)
class Point:
    """An arm under one budget."""

    budget: int
    compactions: float | None  # per task and run
    figures: Mapping[str, Estimate]  # by metric: acc, pass^k, pass@k, steps, RELATIVE
    differ: int = 0  # tasks that took another number of steps than with `none`


@dataclass(frozen=True)
class Line:
    """One arm and scope under several budgets, smallest first."""

    name: str
    scope: str | None
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        return label(self.name, self.scope)


@dataclass(frozen=True)
class Sweep:
    """All arms that were run under two or more budgets, and `none`, which they are measured against."""

    lines: tuple[Line, ...]
    none: Mapping[str, Estimate] | None
    tasks: int
    runs: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sweep_keys(runs: int) -> tuple[str, ...]:
    """The metrics of a sweep; with a single run Pass^k and Pass@k say no more than Acc."""
    return ("acc", *((f"pass^{runs}", f"pass@{runs}") if runs > 1 else ()), "steps")


def swept_arms(evaluation: Evaluation) -> dict[tuple[str, str | None], dict[int, ArmRuns]]:
    """The arms under two or more budgets: by name and scope, then by budget."""
    groups: dict[tuple[str, str | None], dict[int, ArmRuns]] = {}
    for arm in evaluation.arms:
        if budget := arm.settings.get("budget"):
            # Two names for the same budget (`fifo` and `fifo@2048`) are one point.
            groups.setdefault((arm.base, arm.scope), {}).setdefault(budget, arm)
    return {place: arms for place, arms in groups.items() if len(arms) > 1}


def reliability(runs: int) -> str:
    """The metric that says how reliable an arm is."""
    return f"pass^{runs}" if runs > 1 else "acc"


def figure_estimates(evaluation: Evaluation) -> Estimates:
    """The estimates that the figures of an evaluation show. Resampling is what takes time, so only these are made."""
    runs = evaluation.shared.runs
    return estimates(
        evaluation, (*(sweep_keys(runs) if swept_arms(evaluation) else ("acc", reliability(runs))), "tokens")
    )


def sweep(evaluation: Evaluation, by_arm: Estimates | None = None) -> Sweep | None:
    """The sweep in an evaluation; None where no arm was run under two budgets. `by_arm` if estimates are at hand."""
    swept = swept_arms(evaluation)
    if not swept or not evaluation.shared.tasks:
        return None
    runs = evaluation.shared.runs
    by_arm = by_arm if by_arm is not None else estimates(evaluation, sweep_keys(runs))

    def figures(arm: ArmRuns) -> dict[str, Estimate]:
        own = by_arm[arm.label]
        return {key: own[key] for key in (*sweep_keys(runs), RELATIVE) if key in own}

    none = none_of(evaluation)

    def differ(arm: ArmRuns) -> int:
        if none is None:
            return 0
        tasks = evaluation.shared.tasks
        own, other = (per_task(one, tasks, runs, evaluation.source)["steps"] for one in (arm, none))
        return sum(x != y for x, y in zip(own, other, strict=True))

    lines = tuple(
        Line(
            name,
            scope,
            tuple(
                Point(budget, evaluation.metrics(arm).means.get("compactions"), figures(arm), differ(arm))
                for budget, arm in sorted(arms.items())
            ),
        )
        for (name, scope), arms in swept.items()
    )
    return Sweep(lines, figures(none) if none else None, len(evaluation.shared.tasks), runs)


def sweep_table(budgets: Sweep) -> Table:
    """The sweep by arm and budget, with `none` on top."""
    keys = [key for key in (*sweep_keys(budgets.runs), RELATIVE) if key in budgets.lines[0].points[0].figures]
    heads = (
        *columns("arm", "scope", "budget", "compactions", compactions="Compactions"),
        *(Column(key, _title(key)) for key in keys),
    )
    rows: list[tuple[Cell, ...]] = []
    if budgets.none:
        rows.append(("none", None, None, None, *(_cell(budgets, budgets.none, key) for key in keys)))
    for line in budgets.lines:
        for point in line.points:
            compactions = None if point.compactions is None else Number(point.compactions, 2)
            cells = (_cell(budgets, point.figures, key, point) for key in keys)
            rows.append((line.name, line.scope, point.budget, compactions, *cells))
    size = f"{quantity(budgets.tasks, 'task')}, {quantity(budgets.runs, 'run')}. In brackets: 95 % intervals"
    notes = [f"{size} (bootstrap over tasks, 10,000 resamples). Budgets in tokens."]
    if RELATIVE in keys:
        notes.append(f"Δ Steps: steps beside those of `none`, in per cent. {STAR}")
    return Table("By budget", heads, tuple(rows), tuple(notes))


def _title(key: str) -> str:
    return "Δ Steps, %" if key == RELATIVE else metric(key).title


def _cell(budgets: Sweep, figures: Mapping[str, Estimate], key: str, point: Point | None = None) -> Cell:
    """A figure of a point, or of `none`, which is not relative to itself."""
    if key not in figures or (point is None and key == RELATIVE):
        return None
    if point is not None and key == RELATIVE:
        return percentage("steps", figures[key], budgets.tasks, point.differ)
    return interval(key, figures[key])
