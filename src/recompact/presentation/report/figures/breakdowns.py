"""A breakdown as a figure: Acc, reliability beside solvability, and extra steps, by budget (the paper's first figure),
by model, or by a group of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recompact.evaluation.arms import label
from recompact.evaluation.breakdown import BUDGET, Breakdown, breakdown_table
from recompact.evaluation.summary import estimates
from recompact.presentation.report.figures.drawing import (
    NAME,
    WIDE,
    Figure,
    Look,
    drawing,
    grid,
    legend,
    legend_height,
    looks,
    powers,
    short_label,
)
from recompact.values.stats import Estimate
from recompact.values.texts import quantity

DODGE = 0.08  # between arms at one value
SHORT = 14  # characters of a value below the axis
EXTRA = "extra"  # steps beside those of the reference, as a share


@dataclass(frozen=True)
class _Line:
    """One arm through all parts that have it."""

    name: str
    scope: str | None
    points: Mapping[int, Mapping[str, Estimate]]  # by the part's place, then by metric

    @property
    def label(self) -> str:
        return label(self.name, self.scope)


def breakdown_figure(breakdown: Breakdown) -> Figure:
    """The figure of a breakdown with two parts or more."""
    lines, runs = _lines(breakdown), breakdown.runs
    keys = [["acc"], *([[f"pass^{runs}", f"pass@{runs}"]] if runs > 1 else []), [EXTRA]]
    if not any(EXTRA in point for line in lines for point in line.points.values()):
        keys[-1] = ["steps"]
    colors, width = looks(line.name for line in lines), WIDE * len(keys) / 3
    names = [short_label(line.label, NAME) for line in lines]
    with drawing(width, 2.45 + legend_height(names, width)) as figure:
        panels = list(figure.subplots(1, len(keys), squeeze=False)[0])
        for letter, axes, shown in zip("abc", panels, keys, strict=False):
            for place, line in enumerate(lines):
                _draw(axes, line, shown, colors[line.name], DODGE * (place - (len(lines) - 1) / 2))
            axes.set_title(f"({letter}) {_title(shown)}")
            axes.set_xlabel("budget, tokens" if breakdown.by == BUDGET else breakdown.by)
            axes.set_xticks(range(len(breakdown.parts)), [short_label(part.value, SHORT) for part in breakdown.parts])
            grid(axes)
        legend(figure, [colors[line.name].entry(line.label, line.scope) for line in lines])
    return Figure(f"by-{breakdown.by}", _name(breakdown), _caption(breakdown), figure, breakdown_table(breakdown))


def _lines(breakdown: Breakdown) -> list[_Line]:
    runs = breakdown.runs
    by_arm: dict[tuple[str, str | None], dict[int, dict[str, Estimate]]] = {}
    for place, part in enumerate(breakdown.parts):
        figures = estimates(part.evaluation, ("acc", f"pass^{runs}", f"pass@{runs}", "steps"))
        for arm in part.evaluation.arms:
            own = dict(figures[arm.label])
            comparison = part.comparison(arm)
            extra = comparison and next((d.relative for d in comparison.differences if d.metric == "steps"), None)
            by_arm.setdefault((arm.base, arm.scope), {})[place] = own | ({EXTRA: extra} if extra else {})
    return [_Line(name, scope, points) for (name, scope), points in by_arm.items()]


def _draw(axes: Any, line: _Line, keys: Sequence[str], look: Look, shift: float) -> None:
    """An arm's points with their intervals, joined; two metrics of one point are a dot and a cap on one line."""
    scale = 1 if keys[0] == "steps" else 100
    marked = [(place + shift, [point[key] for key in keys]) for place, point in line.points.items() if keys[0] in point]
    if len(keys) == 1:
        values = [scale * own[0].value for _, own in marked]
        axes.plot([x for x, _ in marked], values, look.line(line.scope), color=look.color, lw=1.2)
    for x, own in marked:
        wide = {"lw": 0.9, "alpha": 0.65} if len(own) == 1 else {"lw": 3.4, "alpha": 0.17, "solid_capstyle": "butt"}
        for e in own:
            axes.plot([x, x], [scale * e.low, scale * e.high], color=look.color, **wide)
        axes.plot([x, x], [scale * own[0].value, scale * own[-1].value], color=look.color, lw=0.9)
        axes.plot([x], [scale * own[0].value], look.marker(line.scope), color=look.color, markersize=4)
        if len(own) > 1:
            axes.plot([x], [scale * own[1].value], "_", color=look.color, markersize=5.5, markeredgewidth=1.5)


def _title(keys: Sequence[str]) -> str:
    if len(keys) > 1:
        runs = keys[0].partition("^")[2]
        return powers(f"Pass^{runs} (dot) to Pass@{runs} (cap), %")
    return {"acc": "Acc, %", "steps": "Steps"}.get(keys[0], "Extra steps, %")


def _name(breakdown: Breakdown) -> str:
    return "What a smaller budget costs" if breakdown.by == BUDGET else f"The arms by {breakdown.by}"


def _caption(breakdown: Breakdown) -> str:
    sizes = {len(part.evaluation.shared.tasks) for part in breakdown.parts}
    tasks = quantity(sizes.pop(), "task") if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)} tasks"
    words = f"Dots: means over {tasks}, {quantity(breakdown.runs, 'run')} each; lines: 95 % intervals over tasks."
    references = dict.fromkeys(c.second.partition("@")[0] for part in breakdown.parts for c in part.comparisons)
    words += f" Extra steps: beside {' and '.join(references)}, paired by task." if references else ""
    nothing = dict.fromkeys(
        each.sentence for part in breakdown.parts for c in part.comparisons for each in c.uncompacted
    )
    words = " ".join([words, *nothing])
    return words + (" Simulated models." if any(part.evaluation.simulated for part in breakdown.parts) else "")
