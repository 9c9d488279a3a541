"""The paper's first figure: Acc, reliability beside solvability, and steps as the budget shrinks."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any

from recompact.evaluation.intervals import RELATIVE
from recompact.evaluation.sweep import Line, Point, Sweep, sweep_table
from recompact.presentation.report.figures.figure import Figure
from recompact.presentation.report.figures.style import (
    INK,
    NAME,
    WIDE,
    Look,
    drawing,
    grid,
    legend,
    legend_height,
    powers,
    short_label,
)
from recompact.values.stats import Estimate
from recompact.values.texts import quantity

DODGE = 0.08  # of an octave, between arms at one budget
DOTS = (0, (1, 1.6))


def sweep_figure(sweep: Sweep, colors: Mapping[str, Look], simulated: bool = False) -> Figure:
    relative = RELATIVE in sweep.lines[0].points[0].figures
    count = 3 if sweep.runs > 1 else 2
    names = [*(short_label(line.label, NAME) for line in sweep.lines), "none"]
    width = WIDE * count / 3
    with drawing(width, 2.45 + legend_height(names, width)) as figure:
        panels = list(figure.subplots(1, count, squeeze=False)[0])
        _lines(panels[0], sweep, "acc", colors, 100)
        panels[0].set_title("Acc, %")
        if sweep.runs > 1:
            _reliability(panels[1], sweep, colors)
        _lines(panels[-1], sweep, RELATIVE if relative else "steps", colors, 100 if relative else 1)
        panels[-1].set_title("Extra steps beside none, %" if relative else "Steps")
        for letter, axes in zip("abc", panels, strict=False):
            axes.set_title(f"({letter}) {axes.get_title(loc='left')}")
            axes.set_xlabel("budget, tokens")
            _budget_axis(axes, sweep)
            grid(axes)
        _legend(figure, sweep, colors)
    caption = _caption(sweep) + (" Simulated models." if simulated else "")
    return Figure("budget-sweep", "What a smaller budget costs", caption, figure, sweep_table(sweep))


def _shift(sweep: Sweep, line: Line) -> float:
    """The shift that sets arms at one budget side by side."""
    return DODGE * (sweep.lines.index(line) - (len(sweep.lines) - 1) / 2)


def _lines(axes: Any, sweep: Sweep, key: str, colors: Mapping[str, Look], scale: float) -> None:
    whole = sweep.none.get(key) if sweep.none else None
    if whole:
        axes.axhline(scale * whole.value, color=INK, lw=0.9, ls=DOTS)
        if key != RELATIVE:
            axes.axhspan(scale * whole.low, scale * whole.high, color=INK, alpha=0.06, lw=0)
    for line in sweep.lines:
        look = colors[line.name]
        xs = [log2(point.budget) + _shift(sweep, line) for point in line.points]
        estimates = [point.figures[key] for point in line.points]
        axes.plot(xs, [scale * e.value for e in estimates], look.line(line.scope), color=look.color, lw=1.2)
        for x, e in zip(xs, estimates, strict=True):
            axes.plot([x, x], [scale * e.low, scale * e.high], color=look.color, lw=0.9, alpha=0.65)
            axes.plot([x], [scale * e.value], look.marker(line.scope), color=look.color, markersize=4)


def _reliability(axes: Any, sweep: Sweep, colors: Mapping[str, Look]) -> None:
    """Pass^k and Pass@k joined at each budget: the longer the line, the less a success can be relied on."""
    keys = (f"pass^{sweep.runs}", f"pass@{sweep.runs}")
    for key in keys:
        if sweep.none:
            axes.axhline(100 * sweep.none[key].value, color=INK, lw=0.9, ls=DOTS)
    for line in sweep.lines:
        look = colors[line.name]
        for point in line.points:
            x = log2(point.budget) + _shift(sweep, line)
            every, some = (point.figures[key] for key in keys)
            for e in (every, some):
                ends = [100 * e.low, 100 * e.high]
                axes.plot([x, x], ends, color=look.color, lw=3.4, alpha=0.17, solid_capstyle="butt")
            axes.plot([x, x], [100 * every.value, 100 * some.value], color=look.color, lw=0.9)
            axes.plot([x], [100 * every.value], look.marker(line.scope), color=look.color, markersize=4)
            axes.plot([x], [100 * some.value], "_", color=look.color, markersize=5.5, markeredgewidth=1.5)
    axes.set_title(powers(f"Pass^{sweep.runs} (dot) to Pass@{sweep.runs} (cap), %"))


def _budget_axis(axes: Any, sweep: Sweep) -> None:
    budgets = sorted({point.budget for line in sweep.lines for point in line.points})
    span = log2(budgets[-1] / budgets[0])
    named = [budgets[-1]]
    for budget in budgets[-2::-1]:  # those that would run into the next one get a tick but no name
        if log2(named[-1] / budget) > 0.26 * span:
            named.append(budget)
    axes.set_xticks([log2(b) for b in budgets], [f"{b:,}" if b in named else "" for b in budgets])
    pad = 0.1 * span + DODGE * len(sweep.lines) / 2
    axes.set_xlim(log2(budgets[0]) - pad, log2(budgets[-1]) + pad)


def _legend(figure: Any, sweep: Sweep, colors: Mapping[str, Look]) -> None:
    from matplotlib.lines import Line2D

    entries = [colors[line.name].entry(line.label, line.scope) for line in sweep.lines]
    if sweep.none:
        entries.append(Line2D([], [], color=INK, lw=0.9, ls=DOTS, label="none"))
    legend(figure, entries)


def _caption(sweep: Sweep) -> str:
    size = f"{quantity(sweep.tasks, 'task')}, {quantity(sweep.runs, 'run')} each"
    words = f"{size}; bars are 95 % intervals over tasks. "
    line = next((one for one in sweep.lines if one.scope), sweep.lines[0])
    small, large = line.points[0], line.points[-1]
    words += f"For {short_label(line.label)}, from {large.budget:,} to {small.budget:,} tokens Acc goes from"
    words += f" {_from_to(large, small, 'acc')} %"
    if sweep.runs > 1:
        words += f", {powers(f'Pass^{sweep.runs}')} from {_from_to(large, small, f'pass^{sweep.runs}')} %"
        words += f" and Pass@{sweep.runs} from {_from_to(large, small, f'pass@{sweep.runs}')} %"
    if RELATIVE in small.figures:
        words += f"; under {small.budget:,} tokens it takes {_more(small.figures[RELATIVE])} steps than no compaction"
    return words + "."


def _from_to(large: Point, small: Point, key: str) -> str:
    return f"{100 * large.figures[key].value:.1f} to {100 * small.figures[key].value:.1f}"


def _more(e: Estimate) -> str:
    return f"{abs(100 * e.value):.0f} % {'more' if e.value >= 0 else 'fewer'}"
