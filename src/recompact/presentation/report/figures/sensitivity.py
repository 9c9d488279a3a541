"""How far the verdicts depend on the number of draws and on the thresholds: the paper's sensitivity figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recompact.attribution.judgement import Verification
from recompact.attribution.posterior import Thresholds
from recompact.attribution.sensitivity import (
    DrawsPoint,
    ThresholdPoint,
    sensitivity_to_draws,
    sensitivity_to_thresholds,
)
from recompact.presentation.report.figures.drawing import FINE, HARM, WIDE, Figure, drawing, grid
from recompact.values.stats import Estimate
from recompact.values.tables import Cell, Number, Table, columns
from recompact.values.texts import quantity

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
    thresholds = Thresholds(verification.settings.hazard, verification.settings.burden)
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
    rows = tuple((p.draws, _spread(p.hazard), _spread(p.burden), _spread(p.jaccard)) for p in points)
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


def _spread(spread: Estimate | None) -> Cell:
    return Number(spread.value, 2, interval=(spread.low, spread.high)) if spread else None


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
