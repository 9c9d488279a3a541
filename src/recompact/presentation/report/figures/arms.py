"""Figures of evaluations: the arms with their intervals, reliability against its cost in tokens, and the arms by budget
(the paper's first figure), by model, or by a group of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import label
from recompact.evaluation.breakdown import BUDGET, Breakdown, breakdown_table, swept_arms
from recompact.evaluation.metrics import metric, reliability
from recompact.evaluation.summary import Estimates, Evaluation, estimates, estimates as estimate_metrics, interval
from recompact.presentation.report.figures.drawing import (
    FINE,
    INK,
    NAME,
    WIDE,
    Figure,
    Look,
    drawing,
    grid,
    legend,
    legend_height,
    looks,
    note,
    powers,
    short_label,
)
from recompact.values.stats import Estimate
from recompact.values.tables import Column, Row, Table, columns
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


FEW = 8  # arms up to which intervals do not get in each other's way


def size_words(evaluation: Evaluation) -> str:
    return f"{quantity(len(evaluation.shared.tasks), 'task')}, {quantity(evaluation.shared.runs, 'run')} each"


def simulated_words(evaluation: Evaluation) -> str:
    return " Simulated models." if evaluation.simulated else ""


def arm_looks(evaluation: Evaluation) -> dict[str, Look]:
    """The look of each arm, by its label: of the same name, without the budget, it is the same."""
    names = {arm.label: arm.base if arm.compresses else "none" for arm in evaluation.arms}
    by_name = looks(names.values())
    return {label: by_name[name] for label, name in names.items()}


def figure_estimates(evaluation: Evaluation) -> Estimates:
    """The estimates that the figures of an evaluation show. Resampling is what takes time, so only these are made."""
    return estimate_metrics(evaluation, ("acc", reliability(evaluation.shared.runs), "tokens"))


def arms_figure(evaluation: Evaluation, estimates: Estimates) -> Figure:
    """Acc and Pass^k of each arm as a dot with its interval."""
    keys = list(dict.fromkeys(("acc", reliability(evaluation.shared.runs))))
    arms = evaluation.arms
    with drawing(2.5 + 1.9 * len(keys), 0.75 + 0.27 * len(arms)) as figure:
        panels = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
        for axes, key in zip(panels, keys, strict=True):
            _dots(axes, evaluation, estimates, key)
        panels[0].set_yticks(range(len(arms)), [short_label(arm.label, 30) for arm in arms])
        panels[0].set_ylim(len(arms) - 0.4, -0.6)
    return Figure(
        "arms",
        "Success and reliability of each arm",
        _arms_caption(evaluation, estimates, keys),
        figure,
        figures_table("arms", evaluation, estimates, keys),
    )


def _dots(axes: Any, evaluation: Evaluation, estimates: Estimates, key: str) -> None:
    colors = arm_looks(evaluation)
    whole = evaluation.none
    if whole:
        axes.axvline(100 * estimates[whole.label][key].value, color=INK, alpha=0.6, lw=0.8, ls=(0, (4, 3)))
    for n, arm in enumerate(evaluation.arms):
        e = estimates[arm.label][key]
        look = colors[arm.label]
        axes.plot([100 * e.low, 100 * e.high], [n, n], color=look.color, lw=1.6, solid_capstyle="round")
        axes.plot([100 * e.value], [n], look.marker(arm.scope), color=look.color, markersize=5.5)
        note(axes, f"{100 * e.value:.1f}", x=1.02, y=n, transform=axes.get_yaxis_transform(), va="center_baseline")
    axes.set_title(f"{powers(metric(key).title)}, %")
    grid(axes, "x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, -2), min(high, 102))


def _arms_caption(evaluation: Evaluation, estimates: Estimates, keys: Sequence[str]) -> str:
    key = keys[-1]
    best = _best([arm for arm in evaluation.arms if arm.compresses], estimates, key)
    words = f"Dots: means over {size_words(evaluation)}; lines: 95 % intervals over tasks."
    whole = evaluation.none
    words += " Dashed: no compaction." if whole else ""
    if best:
        e = estimates[best[0].label][key]
        words += f" The highest {powers(metric(key).title)} under compaction is that of {_and(best)},"
        words += f" {100 * e.value:.1f} %" + (f" ({100 * e.low:.1f} to {100 * e.high:.1f})" if len(best) == 1 else "")
        words += f"; without compaction it is {100 * estimates[whole.label][key].value:.1f} %." if whole else "."
    return words + simulated_words(evaluation)


def _best(arms: Sequence[ArmRuns], estimates: Estimates, key: str) -> list[ArmRuns]:
    """The arms with the highest figure, as shown."""
    values = {arm.label: round(100 * estimates[arm.label][key].value, 1) for arm in arms}
    return [arm for arm in arms if values[arm.label] == max(values.values())]


def _and(arms: Sequence[ArmRuns]) -> str:
    """Their names, three at most."""
    names = [short_label(arm.label) for arm in arms]
    names = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def figures_table(title: str, evaluation: Evaluation, estimates: Estimates, keys: Sequence[str]) -> Table:
    """These figures of all arms, in full, with their intervals."""
    heads = (*columns("arm", "scope", "budget"), *(Column(key, metric(key).title) for key in keys))
    rows: list[Row] = []
    for arm in evaluation.arms:
        own = estimates[arm.label]
        cells = [interval(key, own[key]) if key in own else None for key in keys]
        rows.append((arm.name, arm.scope, arm.settings.get("budget"), *cells))
    return Table(title, heads, tuple(rows))


def tokens_figure(evaluation: Evaluation, estimates: Estimates) -> Figure:
    """Pass^k against thousand tokens per task, the compressor's included."""
    key = reliability(evaluation.shared.runs)
    arms = [arm for arm in evaluation.arms if "tokens" in estimates[arm.label]]
    families = [[arms[budget] for budget in sorted(arms)] for arms in swept_arms(evaluation).values()]
    colors = arm_looks(evaluation)
    entries = [colors[own[0].label].entry(label(own[0].base, own[0].scope), own[0].scope) for own in families]
    points = {arm.label: _point(estimates, arm, key) for arm in arms}
    with drawing(5.4, 3.6 + (legend_height([entry.get_label() for entry in entries], 5.4) if entries else 0)) as figure:
        axes = figure.subplots()
        for own in families:
            look, line = colors[own[0].label], [points[arm.label] for arm in own if arm.label in points]
            axes.plot(*zip(*line, strict=True), look.line(own[0].scope), color=look.color, lw=0.8, alpha=0.6)
        for arm in arms:
            look, (x, y), e = colors[arm.label], points[arm.label], estimates[arm.label][key]
            if len(arms) <= FEW:
                axes.plot([x, x], [100 * e.low, 100 * e.high], color=look.color, alpha=0.3, lw=1.0)
            axes.plot([x], [y], look.marker(arm.scope), color=look.color)
        axes.set_xlabel("thousand tokens per task (agent and compressor, input and output)")
        axes.set_ylabel(f"{powers(metric(key).title)}, %")
        axes.set_title("↖ better", fontsize=FINE, alpha=0.75, pad=3)
        axes.margins(x=0.1, y=0.1)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -2), min(high, 103))
        grid(axes, "both")
        if entries:
            legend(figure, entries)
        swept = {arm.label: f"{arm.settings['budget']:,}" for own in families for arm in own}
        named = [(swept.get(a.label) or short_label(a.label, 30), points[a.label], colors[a.label]) for a in arms]
        _name_points(axes, named)
    return Figure(
        "reliability-tokens",
        "Reliability against tokens",
        _tokens_caption(evaluation, arms, estimates, key),
        figure,
        figures_table("reliability-tokens", evaluation, estimates, [key, "tokens"]),
    )


def _point(estimates: Estimates, arm: ArmRuns, key: str) -> tuple[float, float]:
    return estimates[arm.label]["tokens"].value / 1000, 100 * estimates[arm.label][key].value


def _name_points(axes: Any, named: Sequence[tuple[str, tuple[float, float], Look]]) -> None:
    """Names in a column beside the axes, in the order of their points and none on another, with a line to each. A point
    of an arm under several budgets is named by its budget: the legend says which arm it is."""
    low, high = axes.get_ylim()
    gap, place = min(0.055, 1 / len(named)), 2.0
    for n, (text, point, look) in enumerate(sorted(named, key=lambda entry: -entry[1][1])):
        place = max(min((point[1] - low) / (high - low), place - gap), gap * (len(named) - 1 - n))
        line = {"arrowstyle": "-", "color": look.color, "alpha": 0.35, "lw": 0.5, "shrinkB": 3.0}
        at: Any = {"xytext": (1.03, place), "textcoords": "axes fraction", "va": "center", "arrowprops": line}
        axes.annotate(text, point, **at, fontsize=7, color=look.color)


def _tokens_caption(evaluation: Evaluation, arms: Sequence[ArmRuns], estimates: Estimates, key: str) -> str:
    title = powers(metric(key).title)
    words = f"{title} against tokens per task, compressor included; up and to the left is better"
    words += f" ({size_words(evaluation)}{'; pale lines: 95 % intervals over tasks' if len(arms) <= FEW else ''})."
    whole = next((arm for arm in arms if not arm.compresses), None)
    highest = _best([arm for arm in arms if arm.compresses], estimates, key)
    best = min(highest, key=lambda arm: estimates[arm.label]["tokens"].value, default=None)
    points = []
    for name, arm in ((f"{short_label(best.label)} reaches" if best else "", best), ("no compaction", whole)):
        if arm:
            tokens, figure = _point(estimates, arm, key)
            points.append(f"{name} {figure:.1f} % for {tokens:.1f} thousand tokens")
    return words + (f" {'; '.join(points)}." if points else "") + simulated_words(evaluation)
