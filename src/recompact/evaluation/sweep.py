"""What a smaller budget costs: the same arms under several budgets, as in the paper's first figure.

Comes in: an evaluation with arms such as `prompting@1024` and `prompting@4096`. Goes out: for each of these arms a line
of points, smallest budget first, every figure with its interval; and the same as a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import label
from recompact.evaluation.intervals import RELATIVE, Estimate, Estimates, estimates, none_of
from recompact.evaluation.metrics import metric
from recompact.evaluation.summary import STAR, Evaluation, percentage
from recompact.tables import Cell, Column, Number, Table
from recompact.texts import counted


@dataclass(frozen=True)
class Point:
    """An arm under one budget."""

    budget: int
    compactions: float | None  # per task and run
    figures: Mapping[str, Estimate]  # by metric: acc, pass^k, pass@k, steps, RELATIVE


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
    """All arms that were run under two or more budgets, and `none` as what they are measured by."""

    lines: tuple[Line, ...]
    none: Mapping[str, Estimate] | None
    tasks: int
    runs: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sweep_keys(runs: int) -> tuple[str, ...]:
    """What is looked at in a sweep; with a single run Pass^k and Pass@k say no more than Acc."""
    return ("acc", *((f"pass^{runs}", f"pass@{runs}") if runs > 1 else ()), "steps")


def swept_arms(shown: Evaluation) -> dict[tuple[str, str | None], dict[int, ArmRuns]]:
    """The arms that there are under two or more budgets: by name and scope, then by budget."""
    groups: dict[tuple[str, str | None], dict[int, ArmRuns]] = {}
    for arm in shown.arms:
        if budget := arm.settings.get("budget"):
            # Two names for the same budget (`fifo` and `fifo@2048`) are one point.
            groups.setdefault((arm.base, arm.scope), {}).setdefault(budget, arm)
    return {place: arms for place, arms in groups.items() if len(arms) > 1}


def sweep(shown: Evaluation, found: Estimates | None = None) -> Sweep | None:
    """The sweep in an evaluation; None where no arm was run under two budgets. `found` where estimates are at hand."""
    swept = swept_arms(shown)
    if not swept or not shown.shared.tasks:
        return None
    runs = shown.shared.runs
    known = found if found is not None else estimates(shown, sweep_keys(runs))
    kept = (*sweep_keys(runs), RELATIVE)

    def figures(arm: ArmRuns) -> dict[str, Estimate]:
        return {key: known[arm.label][key] for key in kept if key in known[arm.label]}

    lines = tuple(
        Line(
            name,
            scope,
            tuple(
                Point(budget, shown.metrics(arm).means.get("compactions"), figures(arm))
                for budget, arm in sorted(arms.items())
            ),
        )
        for (name, scope), arms in swept.items()
    )
    whole = none_of(shown)
    return Sweep(lines, figures(whole) if whole else None, len(shown.shared.tasks), runs)


def sweep_table(found: Sweep) -> Table:
    """The sweep by arm and budget, with `none` on top."""
    keys = [key for key in (*sweep_keys(found.runs), RELATIVE) if key in found.lines[0].points[0].figures]
    heads = (Column("arm", "arm"), Column("scope", "scope"), Column("budget", "budget"))
    columns = (*heads, Column("compactions", "Compactions"), *(Column(k, _title(k)) for k in keys))
    rows: list[tuple[Cell, ...]] = []
    if found.none:
        rows.append(("none", None, None, None, *(_cell(found, found.none, key, whole=True) for key in keys)))
    for line in found.lines:
        for point in line.points:
            compactions = None if point.compactions is None else Number(point.compactions, 2)
            cells = (_cell(found, point.figures, key) for key in keys)
            rows.append((line.name, line.scope, point.budget, compactions, *cells))
    said = f"{counted(found.tasks, 'task')}, {counted(found.runs, 'run')}. In brackets: 95 % intervals"
    notes = [f"{said} (bootstrap over tasks, 10,000 resamples). Budgets in tokens."]
    if RELATIVE in keys:
        notes.append(f"Δ Steps: steps beside those of `none`, in per cent. {STAR}")
    return Table("By budget", columns, tuple(rows), tuple(notes))


def _title(key: str) -> str:
    return "Δ Steps, %" if key == RELATIVE else metric(key).title


def _cell(found: Sweep, figures: Mapping[str, Estimate], key: str, *, whole: bool = False) -> Cell:
    if key not in figures or (whole and key == RELATIVE):
        return None
    if key == RELATIVE:
        return percentage(figures[key], found.tasks)
    estimate, m = figures[key], metric(key)
    return Number(estimate.value * m.scale, m.digits, interval=(estimate.low * m.scale, estimate.high * m.scale))
