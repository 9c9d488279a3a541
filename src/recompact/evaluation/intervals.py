"""The metrics of arms with their 95 % intervals, by the bootstrap over tasks that paired comparisons use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.metrics import per_task
from recompact.evaluation.summary import Evaluation
from recompact.values.stats import RESAMPLES, Estimate, bootstrap_estimate, resampled_means

RELATIVE = "relative_steps"
"""Steps relative to those of `none`: 0.1 is a tenth more."""

Estimates = Mapping[str, Mapping[str, Estimate]]
"""By an arm's label and a metric's key. Units are those of `Metrics.means`."""


def estimates(evaluation: Evaluation, keys: Collection[str], *, resamples: int = RESAMPLES, seed: int = 0) -> Estimates:
    """These metrics of all arms, plus `RELATIVE` if `steps` is among them and there is an arm `none`."""
    shared = evaluation.shared
    if not shared.tasks:
        return {arm.label: {} for arm in evaluation.arms}
    values = [per_task(arm, shared.tasks, shared.runs, evaluation.source) for arm in evaluation.arms]
    places = [(n, key) for n, metrics in enumerate(values) for key in metrics if key in keys]
    vectors = [values[n][key] for n, key in places]
    means = {place: fmean(vector) for place, vector in zip(places, vectors, strict=True)}
    resampled = dict(zip(places, resampled_means(vectors, resamples, seed), strict=True))
    by_arm: list[dict[str, Estimate]] = [{} for _ in evaluation.arms]
    for n, key in places:
        by_arm[n][key] = bootstrap_estimate(means[n, key], resampled[n, key])
    base = next(((n, "steps") for n, arm in enumerate(evaluation.arms) if not arm.compresses), None)
    if base in means and means[base] and all(resampled[base]):
        for n in range(len(by_arm)):
            relative = [a / b - 1 for a, b in zip(resampled[n, "steps"], resampled[base], strict=True)]
            by_arm[n][RELATIVE] = bootstrap_estimate(means[n, "steps"] / means[base] - 1, relative)
    return {arm.label: figures for arm, figures in zip(evaluation.arms, by_arm, strict=True)}


def none_of(evaluation: Evaluation) -> ArmRuns | None:
    """The arm that does not compress."""
    return next((arm for arm in evaluation.arms if not arm.compresses), None)
