"""The metrics of arms with their 95 % intervals, by the bootstrap over tasks that paired comparisons use."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from recompact.evaluation.metrics import per_task
from recompact.evaluation.summary import Evaluation
from recompact.values.stats import RESAMPLES, Estimate, bootstrap

Estimates = Mapping[str, Mapping[str, Estimate]]
"""By an arm's label and a metric's key. Units are those of `Metrics.means`."""


def estimates(evaluation: Evaluation, keys: Collection[str], *, resamples: int = RESAMPLES, seed: int = 0) -> Estimates:
    """These metrics of all arms."""
    shared, by_arm = evaluation.shared, {arm.label: dict[str, Estimate]() for arm in evaluation.arms}
    if not shared.tasks:
        return by_arm
    values = {arm.label: per_task(arm, shared.tasks, shared.runs, evaluation.source) for arm in evaluation.arms}
    places = [(label, key) for label, metrics in values.items() for key in metrics if key in keys]
    resampled = bootstrap([values[label][key] for label, key in places], resamples, seed)
    for (label, key), estimate in zip(places, resampled, strict=True):
        by_arm[label][key] = estimate
    return by_arm
