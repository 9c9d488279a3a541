"""Figures of boundaries: which compaction of which trajectory did harm, as in the paper's third figure, and how far the
verdicts depend on the number of draws and on the thresholds.

There is a number in each cell that is not zero (where cells are narrow, a sign in those that matter), as far as it
fits, so that little depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from recompact.attribution.detection import (
    DrawsPoint,
    ThresholdPoint,
    sensitivity_to_draws,
    sensitivity_to_thresholds,
)
from recompact.attribution.judgement import Verification
from recompact.attribution.means import counts, unequal_note
from recompact.engine.store.verdicts import Verdict
from recompact.presentation.report.content.overview import exact_boundary_table
from recompact.presentation.report.figures.drawing import FINE, HARM, INK, WIDE, Figure, drawing, grid, short_label
from recompact.values.outcome import Thresholds
from recompact.values.stats import Estimate
from recompact.values.tables import Number, Table, columns, estimate_cell
from recompact.values.texts import quantity

FAILED, SUCCESSFUL, BURDEN = 30, 10, 15  # trajectories at most in each panel; the last two are the paper's
ROW, LETTER = 0.165, 0.058  # inches
NUMBERS = 0.2  # inches that a number needs; a sign needs half of that
WIDEST = 0.36  # inches of a cell
GREY: Any = {"color": "#808080", "alpha": 0.22}

Channel = Literal["hazard", "burden"]


@dataclass(frozen=True)
class Panel:
    """Some trajectories, each with its boundaries by index."""

    title: str
    outcome: str  # of these trajectories; empty where it does not matter
    channel: Channel
    rows: tuple[tuple[str, Mapping[int, Verdict]], ...]
    of: int  # trajectories in all, shown or not

    @property
    def columns(self) -> int:
        return max(index for _, cells in self.rows for index in cells)


def panels(verification: Verification) -> list[Panel]:
    """What is shown: all failed trajectories up to a limit, and, of the others, those with the largest effects."""
    units: dict[str, dict[int, Verdict]] = {}
    for verdict in verification.verdicts:
        units.setdefault(verdict.id.unit, {})[verdict.id.index] = verdict
    judged = {unit: cells for unit, cells in units.items() if any(f.effect for f in cells.values())}
    failed = {unit: cells for unit, cells in judged.items() if not _has_passed(cells)}
    passed = {unit: cells for unit, cells in judged.items() if _has_passed(cells)}
    every = [
        _panel("H, failed", "failed", "hazard", failed, FAILED),
        _panel("H, successful", "successful", "hazard", passed, SUCCESSFUL),
        _panel("B, all", "", "burden", judged, BURDEN),
    ]
    return [panel for panel in every if panel.rows]


def _has_passed(cells: Mapping[int, Verdict]) -> bool:
    return next(iter(cells.values())).row.trajectory_success


def _panel(title: str, outcome: str, channel: Channel, units: Mapping[str, Mapping[int, Verdict]], most: int) -> Panel:
    def largest(unit: str) -> float:
        return max(value for f in units[unit].values() if (value := _value(f, channel)) is not None)

    order = sorted(units, key=lambda unit: (-largest(unit), unit))[:most]
    rows = tuple((unit.removeprefix("collect/"), units[unit]) for unit in order)
    return Panel(title, outcome, channel, rows, len(units))


def _value(verdict: Verdict, channel: Channel) -> float | None:
    if verdict.effect is None:
        return None
    return verdict.effect.hazard if channel == "hazard" else verdict.effect.burden


def heatmap_figure(verification: Verification) -> Figure | None:
    """None where no boundary has draws in both arms."""
    chosen = panels(verification)
    if not chosen:
        return None
    names = [_names([name for name, _ in panel.rows]) for panel in chosen]
    margins = sum(0.6 + LETTER * max(map(len, short)) for _, short in names)
    cells, rows = [max(panel.columns, 3) for panel in chosen], max(len(panel.rows) for panel in chosen)
    cell = min(WIDEST, (WIDE - margins) / sum(cells))
    with drawing(max(WIDE * 0.75, margins + cell * sum(cells)), 1.3 + ROW * rows) as figure:
        every = list(figure.subplots(1, len(chosen), squeeze=False, width_ratios=cells)[0])
        for letter, axes, panel, (prefix, short) in zip("abc", every, chosen, names, strict=False):
            _draw(axes, panel, short, _limit(panel, verification), cell)
            axes.set_xlim(0.5, max(panel.columns, 3) + 0.5)
            axes.set_ylim(rows - 0.5, -0.5)
            axes.set_title(f"({letter}) {panel.title}", pad=14)
            if len(prefix) * LETTER <= ROW * len(panel.rows):
                axes.set_ylabel(prefix, fontsize=FINE, labelpad=5, y=1 - len(panel.rows) / rows / 2)
        _keys(figure, every, chosen, verification)
    return Figure(
        "boundary-effects",
        "What each compaction did",
        _caption(verification, chosen),
        figure,
        lambda: _data(verification),
    )


def _names(names: Sequence[str]) -> tuple[str, list[str]]:
    """The beginning that the names share, and the rest of each."""
    first, last = min(names), max(names)
    alike = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    cut = max(first.rfind(mark, 0, alike) for mark in "-_/.") + 1
    return short_label(first[:cut], 24), [short_label(name[cut:], 18) for name in names]


def _limit(panel: Panel, verification: Verification) -> float:
    """The effect at which the colour is full."""
    return 1.0 if panel.channel == "hazard" else 2 * verification.settings.burden


def _draw(axes: Any, panel: Panel, names: Sequence[str], limit: float, cell: float) -> None:
    from matplotlib import colormaps

    colors = colormaps["RdBu_r"]
    for row, (_, cells) in enumerate(panel.rows):
        for index in range(1, panel.columns + 1):
            verdict = cells.get(index)
            value = _value(verdict, panel.channel) if verdict else None
            if value is None:
                _box(axes, index, row, GREY["color"], alpha=GREY["alpha"], hatch="////" if verdict else None)
                continue
            color = colors(0.5 + 0.5 * max(-1.0, min(1.0, value / limit)))
            # Not the page's ink: a cell is as light or dark on a dark page as on a light one.
            ink = "#0d0d0d" if 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2] > 0.5 else "#fefefe"
            _box(axes, index, row, color)
            if verdict and verdict.retained:
                _box(axes, index, row, "none", edgecolor=ink, linewidth=1.2, inset=0.1)
            text = _text(value, limit, cell)
            axes.text(index, row, text, fontsize=5.4, color=ink, ha="center", va="center_baseline")
    axes.set_yticks(range(len(names)), names, fontsize=FINE)
    step = 1 if panel.columns <= 12 else 5
    axes.set_xticks(range(step if step > 1 else 1, panel.columns + 1, step))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2, labelsize=FINE)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _text(value: float, limit: float, cell: float) -> str:
    """The text of a cell.

    >>> [_text(value, 1.0, 0.3) for value in (0.0, 2 / 3, -1.0)], [_text(v, 10.0, 0.3) for v in (-0.02, 2.34, 12.2)]
    (['', '+.67', '−1'], ['', '+2.3', '+12'])
    >>> [_text(value, 1.0, 0.15) for value in (1.0, 0.1, -0.5)]
    ['+', '', '−']
    """
    if cell < NUMBERS:
        return "" if cell < NUMBERS / 2 or abs(value) < 0.2 * limit else "+" if value > 0 else "−"
    digits = (2 if abs(value) < 0.995 else 0) if limit == 1 else (1 if abs(value) < 9.95 else 0)
    text = f"{value:+.{digits}f}".replace("-", "−")
    text = text.replace("0.", ".", 1) if limit == 1 else text
    return text if text.strip("+−0.") else ""


def _box(axes: Any, index: int, row: int, color: Any, inset: float = 0.02, **options: Any) -> None:
    from matplotlib.patches import Rectangle

    corner, side = (index - 0.5 + inset, row - 0.5 + inset), 1 - 2 * inset
    options = {"linewidth": 0, "edgecolor": INK if options.get("hatch") else "none", **options}
    axes.add_patch(Rectangle(corner, side, side, facecolor=color, **options))


def _keys(figure: Any, axes: Sequence[Any], chosen: Sequence[Panel], verification: Verification) -> None:
    """A scale of colours for each channel, and what the other marks mean."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch

    rows = max(len(panel.rows) for panel in chosen)
    for channel in dict.fromkeys(panel.channel for panel in chosen):
        own = [(one, panel) for one, panel in zip(axes, chosen, strict=True) if panel.channel == channel]
        limit = _limit(own[0][1], verification)
        scale = ScalarMappable(Normalize(-limit, limit), colormaps["RdBu_r"])
        place: Any = {"location": "bottom", "fraction": min(0.4, 0.1 / (ROW * rows)), "aspect": 14}
        bar = figure.colorbar(scale, ax=[one for one, _ in own], **place)
        bar.outline.set_visible(False)
        bar.solids.set_rasterized(False)
        bar.set_ticks([-limit, 0, limit], labels=[f"−{limit:g}", "0", f"+{limit:g}"], fontsize=FINE)
        bar.ax.set_title("H: success lost" if channel == "hazard" else "B: steps added", fontsize=FINE, pad=3)
    marks = [Patch(**GREY, lw=0, label="no boundary"), Patch(fc="none", ec=INK, lw=1.2, label="retained")]
    if any(f.effect is None for panel in chosen for _, cells in panel.rows for f in cells.values()):
        marks.append(Patch(fc=GREY["color"], alpha=GREY["alpha"], ec=INK, lw=0, hatch="////", label="no verdict"))
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=FINE, handlelength=1.2, handleheight=0.9)


def _caption(verification: Verification, chosen: Sequence[Panel]) -> str:
    effects = {f.id: f.effect for f in verification.verdicts if f.effect is not None}
    passed = {f.id.unit: f.row.trajectory_success for f in verification.verdicts if f.id in effects}
    all_of, *_ = counts(effects, passed, verification.settings.thresholds)
    draws = sorted({n for f in verification.verdicts if f.effect for n in (len(f.outcomes.pre), len(f.outcomes.post))})
    often = quantity(draws[0], "draw") if draws[0] == draws[-1] else f"{draws[0]} to {draws[-1]} draws"
    words = "Rows are trajectories, columns their compactions in order; red is harm, blue improvement, white no change,"
    words += f" grey no boundary, outlined what {verification.settings.allocation} retained."
    words += f" Of {quantity(all_of.boundaries, 'boundary')} in {quantity(all_of.trajectories, 'trajectory')}"
    words += f" ({often} in each arm), {all_of.unchanged} leave success as it was, {all_of.severe_hazard} have"
    words += f" H ≥ {verification.settings.hazard:g} and {all_of.severe_burden} B ≥ {verification.settings.burden:g}."
    if unequal := unequal_note(effects.values()):
        words += f" {unequal}"
    parts = [
        f"in ({letter}) {len(panel.rows)} of {panel.of} {panel.outcome or 'of either outcome'}"
        for letter, panel in zip("abc", chosen, strict=False)
    ]
    return f"{words} Shown are the trajectories with the largest effects: {', '.join(parts)}."


def _data(verification: Verification) -> Table:
    """Every boundary, shown or not, with the outcome of its trajectory."""
    table = exact_boundary_table(verification)
    outcomes = [verdict.row.trajectory_success for verdict in verification.verdicts]
    rows = tuple((row[0], success, *row[1:]) for row, success in zip(table.rows, outcomes, strict=True))
    return replace(table, columns=(table.columns[0], *columns("success"), *table.columns[1:]), rows=rows)


PAIRS = 3  # the paper's cap, and what its thresholds are judged at
DRAWS = (1, 3, 5, 9)
AROUND = (0.6, 0.8, 1.0, 1.2, 1.4)  # thresholds as multiples of the default
DASHES = (0, (4, 3))
BLUE = "#1F7FC4"


def sensitivity_figures(verification: Verification) -> list[Figure]:
    """One figure where every boundary has three draws in each arm, both where it has more."""
    most, outcomes = verification.equal_draws
    if most < PAIRS:
        return []
    thresholds = verification.settings.thresholds
    varied = sensitivity_to_thresholds(
        outcomes,
        [round(f * thresholds.hazard, 6) for f in AROUND],
        [round(f * thresholds.burden, 6) for f in AROUND],
        draws=PAIRS,
        thresholds=thresholds,
    )
    figures = []
    if most > PAIRS:  # subsampling takes seconds
        draws = [m for m in DRAWS if m < most] + [most]
        figures.append(_draws_figure(sensitivity_to_draws(outcomes, draws, thresholds=thresholds), most, len(outcomes)))
    return [*figures, _thresholds_figure(varied, thresholds, len(outcomes))]


def _draws_figure(points: Sequence[DrawsPoint], most: int, boundaries: int) -> Figure:
    titles = (f"(a) H: rank correlation with m = {most}", "(b) B: rank correlation", "(c) Overlap of selections")
    spreads: list[list[Estimate | None]] = [[p.hazard for p in points], [p.burden for p in points]]
    spreads.append([p.jaccard for p in points])
    lowest = min(s.low for values in spreads for s in values if s is not None)
    with drawing(WIDE, 2.2) as figure:
        for axes, title, values in zip(figure.subplots(1, 3, sharey=True), titles, spreads, strict=True):
            present = [(p.draws, s) for p, s in zip(points, values, strict=True) if s is not None]
            axes.axvline(PAIRS, color=HARM, lw=0.9, ls=DASHES, zorder=1)
            axes.plot([m for m, _ in present], [s.value for _, s in present], "o-", color=BLUE, lw=1.2, markersize=4)
            for m, s in present:
                axes.plot([m, m], [s.low, s.high], color=BLUE, lw=1.1, zorder=3)
                axes.annotate(f"{s.value:.2f}", (m, s.value), (5, -8), textcoords="offset points", fontsize=FINE)
            axes.set_title(title)
            axes.set_xticks([p.draws for p in points])
            axes.set_xlim(0.3, most + 0.17 * most)
            axes.set_xlabel("draws in each arm, m")
            axes.set_ylim(lowest - 0.08, 1.04)
            grid(axes)
    title, caption = "How far the verdicts depend on the number of draws", _draws_caption(points, most, boundaries)
    heads = columns("draws", "hazard_correlation", "burden_correlation", "jaccard")
    rows = tuple((p.draws, *(estimate_cell(each, 2) for each in (p.hazard, p.burden, p.jaccard))) for p in points)
    return Figure("sensitivity-draws", title, caption, figure, Table("sensitivity-draws", heads, rows))


def _draws_caption(points: Sequence[DrawsPoint], most: int, boundaries: int) -> str:
    words = f"{quantity(boundaries, 'boundary')} with {quantity(most, 'draw')} in each arm;"
    words += f" m of them are drawn 1,000 times and compared with all {most}."
    words += " Dots: means; bars: 2.5 to 97.5 percentiles; dashed: three pairs, the default."
    at = next((p for p in points if p.draws == PAIRS), None)
    if at:
        correlations = [f"H {at.hazard.value:.2f}"] if at.hazard else []
        correlations += [f"B {at.burden.value:.2f}"] if at.burden else []
        ranked = f"rank correlations are {' and '.join(correlations)}, and " if correlations else ""
        words += f" With three, {ranked}the selections overlap by {at.jaccard.value:.2f} (Jaccard)."
    return words


def _thresholds_figure(points: Sequence[ThresholdPoint], thresholds: Thresholds, boundaries: int) -> Figure:
    with drawing(WIDE * 0.72, 2.2) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        kinds = (("hazard", thresholds.hazard, "H"), ("burden", thresholds.burden, "B"))
        for letter, axes, (kind, default, sign) in zip("ab", panels, kinds, strict=True):
            varied = [point for point in points if point.threshold == kind]
            axes.axvline(default, color=HARM, lw=0.9, ls=DASHES)
            axes.plot([p.value for p in varied], [p.jaccard for p in varied], "o-", color=BLUE, lw=1.2, markersize=4)
            for n, p in enumerate(varied):
                before, after = (varied[max(n - 1, 0)].jaccard, varied[min(n + 1, len(varied) - 1)].jaccard)
                axes.annotate(f"{p.selected}", (p.value, p.jaccard), **_beside(before, p.jaccard, after))
            axes.set_title(f"({letter}) Threshold of {sign}")
            axes.set_xlabel(f"{sign} ≥")
            axes.set_xticks([p.value for p in varied], [f"{p.value:g}" for p in varied])
            axes.margins(x=0.1)
            axes.set_ylim(-0.05, 1.16)
            grid(axes)
        panels[0].set_ylabel("Jaccard overlap")
    title, caption = (
        "How far the selection depends on the thresholds",
        _thresholds_caption(points, thresholds, boundaries),
    )
    heads = columns("threshold", "value", "selected", "jaccard")
    rows = tuple((p.threshold, Number(p.value, 2), p.selected, Number(p.jaccard, 2)) for p in points)
    return Figure("sensitivity-thresholds", title, caption, figure, Table("sensitivity-thresholds", heads, rows))


def _beside(before: float, here: float, after: float) -> Any:
    """Where a number keeps clear of a line: on the side that the line does not come from."""
    rising = after > here and before <= here
    up = -11 if before > here and after > here else 4
    at = {"xytext": (-4, up), "ha": "right"} if rising else {"xytext": (4, up), "ha": "left"}
    return {**at, "textcoords": "offset points", "fontsize": FINE}


def _thresholds_caption(points: Sequence[ThresholdPoint], thresholds: Thresholds, boundaries: int) -> str:
    default = next(p for p in points if p.threshold == "hazard" and p.value == round(thresholds.hazard, 6))
    others = [p.jaccard for p in points if p.value != (default.value if p.threshold == "hazard" else thresholds.burden)]
    words = "One threshold is varied at a time, at three pairs a boundary; overlap with what the default selects"
    words += f" (dashed: H ≥ {thresholds.hazard:g} or B ≥ {thresholds.burden:g}). Numbers: boundaries selected."
    words += f" The default selects {default.selected} of {boundaries}; the others overlap with it by"
    return f"{words} {min(others):.2f} to {max(others):.2f}."
