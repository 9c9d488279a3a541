"""Which figures there are of which data, and why one that might be expected is not there.

Comes in: an evaluation, findings about boundaries, or a transfer. Goes out: a list of figures, each only where its data
is there; the gaps say in words what would have to be done for the others.
"""

from __future__ import annotations

from dataclasses import replace

from recompact.attribution.findings import Findings
from recompact.evaluation.intervals import Estimates, estimates
from recompact.evaluation.metrics import TOTAL
from recompact.evaluation.summary import Evaluation
from recompact.evaluation.sweep import sweep, sweep_keys, swept_arms
from recompact.evaluation.transfer import Transfer
from recompact.report.figures.budgets import sweep_figure
from recompact.report.figures.drawn import Figure, needed
from recompact.report.figures.evaluations import arm_looks, arms_figure, reliability, tokens_figure
from recompact.report.figures.heatmaps import heatmap_figure
from recompact.report.figures.sensitivity import PAIRS, equal_draws, sensitivity_figures
from recompact.report.figures.transfers import transfer_figure


def figure_estimates(shown: Evaluation) -> Estimates:
    """The estimates that the figures of an evaluation show. Resampling takes the time, so it is these and no others."""
    runs = shown.shared.runs
    return estimates(shown, (*(sweep_keys(runs) if swept_arms(shown) else ("acc", reliability(runs))), "tokens"))


def evaluation_figures(shown: Evaluation, known: Estimates | None = None) -> list[Figure]:
    """The figures of an evaluation: budget sweep, arms, reliability against tokens. `known` are `figure_estimates`."""
    needed()
    if not shown.shared.tasks:
        return []
    found = known if known is not None else figure_estimates(shown)
    figures = []
    if (swept := sweep(shown, found)) is not None:
        figures.append(sweep_figure(swept, arm_looks(shown), shown.simulated))
    figures.append(arms_figure(shown, found))
    if any("tokens" in figures_of for figures_of in found.values()):
        figures.append(tokens_figure(shown, found))
    return figures


def boundary_figures(found: Findings, simulated: bool = False) -> list[Figure]:
    """The figures of a verified run: maps of the boundaries, and how far the verdicts hang on draws and thresholds."""
    needed()
    maps = heatmap_figure(found)
    figures = [*([maps] if maps else []), *sensitivity_figures(found)]
    return [replace(f, caption=f"{f.caption} Simulated models.") for f in figures] if simulated else figures


def transfer_figures(found: Transfer) -> list[Figure]:
    """The figure of a transfer."""
    needed()
    return [transfer_figure(found)] if found.rows else []


def evaluation_gaps(shown: Evaluation) -> dict[str, str]:
    """The figures of an evaluation that its data is not enough for: name -> why, and what to do."""
    if not shown.shared.tasks:
        return {"arms": "there is no task yet that every arm has finished"}
    found = {}
    if not swept_arms(shown):
        found["budget-sweep"] = "it needs an arm under two budgets: recompact evaluate CONFIG --budget 1024,2048 ..."
    if not any(row.usage.keys() & set(TOTAL) for arm in shown.arms for row in arm.rows):
        found["reliability-tokens"] = "the records do not say how many tokens agent and compressor took"
    return found


def boundary_gaps(found: Findings) -> dict[str, str]:
    """The figures of boundaries that a run's draws are not enough for: name -> why, and what to do."""
    known = [finding for finding in found.boundaries if finding.effect is not None]
    if not found.boundaries:
        return {"boundary-effects": "nothing was compacted, so there are no boundaries"}
    if not known:
        return {"boundary-effects": "no boundary has draws in both arms: recompact verify RUN"}
    most, _ = equal_draws(found)
    more = "recompact verify RUN --allocation uniform:9"
    if most >= PAIRS:
        return {} if most > PAIRS else {"sensitivity-draws": f"it needs more than three draws in each arm: {more}"}
    why = f"it needs three draws or more in each arm of every boundary, and some have {most}: {more}"
    return {"sensitivity-draws": why, "sensitivity-thresholds": why}
