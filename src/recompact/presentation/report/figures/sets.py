"""Which figures each kind of data has, and why one that might be expected is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from recompact.attribution.judgement import Verification
from recompact.evaluation.breakdown import Breakdown, by_budget, swept_arms
from recompact.evaluation.metrics import TOTAL
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.figures.arms import arms_figure, breakdown_figure, figure_estimates, tokens_figure
from recompact.presentation.report.figures.boundaries import PAIRS, heatmap_figure, sensitivity_figures
from recompact.presentation.report.figures.drawing import Figure, available


@dataclass(frozen=True)
class FigureSet:
    """The figures of one source (none without matplotlib), and by name why others are missing and what to do."""

    source: str
    figures: tuple[Figure, ...]
    gaps: Mapping[str, str]


def evaluation_set(source: str, evaluation: Evaluation) -> FigureSet:
    return FigureSet(source, tuple(evaluation_figures(evaluation)), evaluation_gaps(evaluation))


def boundary_set(source: str, verification: Verification, simulated: bool) -> FigureSet:
    return FigureSet(source, tuple(boundary_figures(verification, simulated)), boundary_gaps(verification))


def model_set(source: str, models: Breakdown | str) -> FigureSet:
    """The set for evaluations side by side, or for the reason why there is none."""
    if isinstance(models, str):
        return FigureSet(source, (), {"by-model": models})
    return FigureSet(source, tuple(breakdown_figures(models)), {})


def evaluation_figures(evaluation: Evaluation) -> list[Figure]:
    """The arms by budget, the arms, and reliability against tokens."""
    if not available() or not evaluation.shared.tasks:
        return []
    estimated = figure_estimates(evaluation)
    figures = [*breakdown_figures(by_budget(evaluation)), arms_figure(evaluation, estimated)]
    if any("tokens" in of_arm for of_arm in estimated.values()):
        figures.append(tokens_figure(evaluation, estimated))
    return figures


def boundary_figures(verification: Verification, simulated: bool = False) -> list[Figure]:
    """The figures of a verified run: maps of boundaries, and how far the verdicts depend on draws and thresholds."""
    if not available():
        return []
    maps = heatmap_figure(verification)
    figures = [*([maps] if maps else []), *sensitivity_figures(verification)]
    return [replace(f, caption=f"{f.caption} Simulated models.") for f in figures] if simulated else figures


def breakdown_figures(breakdown: Breakdown | None) -> list[Figure]:
    """The figure of a breakdown, if there is one."""
    return [breakdown_figure(breakdown)] if available() and breakdown and len(breakdown.parts) > 1 else []


def evaluation_gaps(evaluation: Evaluation) -> dict[str, str]:
    """The figures that an evaluation has too little data for: name -> why, and what to do."""
    if not evaluation.shared.tasks:
        return {"arms": "there is no task yet that every arm has finished"}
    gaps = {}
    if not swept_arms(evaluation):
        gaps["by-budget"] = "it needs an arm under two budgets: recompact evaluate CONFIG --budget 1024,2048 ..."
    if not any(row.usage.keys() & set(TOTAL) for arm in evaluation.arms for row in arm.rows):
        gaps["reliability-tokens"] = "the records do not say how many tokens agent and compressor used"
    return gaps


def boundary_gaps(verification: Verification) -> dict[str, str]:
    """The figures of boundaries that a run has too few draws for: name -> why, and what to do."""
    if not verification.verdicts:
        return {"boundary-effects": f"{verification.failed.nothing_compacted}, so there are no boundaries"}
    if not verification.examined:
        return {"boundary-effects": "no boundary has draws in both arms: recompact verify RUN"}
    most, _ = verification.equal_draws
    more = "recompact verify RUN --allocation uniform:9"
    if most >= PAIRS:
        return {} if most > PAIRS else {"sensitivity-draws": f"it needs more than three draws in each arm: {more}"}
    why = f"it needs three draws or more in each arm of every boundary, and some have {most}: {more}"
    return {"sensitivity-draws": why, "sensitivity-thresholds": why}
