"""How sure the figures of arms are: each mean with a 95 % interval over tasks.

Comes in: arms side by side. Goes out: for every arm and metric an estimate, by the bootstrap that paired comparisons
use, and the steps of an arm relative to those of `none`, resampled together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.metrics import per_task
from recompact.evaluation.summary import Evaluation
from recompact.stats import RESAMPLES, Estimate, bootstrap_estimate, resampled_means

RELATIVE = "relative_steps"
"""Steps beside those of `none`: 0.1 is a tenth more."""

Estimates = Mapping[str, Mapping[str, Estimate]]
"""By an arm's label and a metric's key. Units are those of `Metrics.means`."""


def estimates(shown: Evaluation, keys: Collection[str], *, resamples: int = RESAMPLES, seed: int = 0) -> Estimates:
    """These metrics of all arms, and with `steps` among them also `RELATIVE`, where there is an arm `none`."""
    shared = shown.shared
    if not shared.tasks:
        return {arm.label: {} for arm in shown.arms}
    values = [per_task(arm, shared.tasks, shared.runs, shown.source) for arm in shown.arms]
    places = [(n, key) for n, found in enumerate(values) for key in found if key in keys]
    vectors = [values[n][key] for n, key in places]
    means = {place: fmean(vector) for place, vector in zip(places, vectors, strict=True)}
    draws = dict(zip(places, resampled_means(vectors, resamples, seed), strict=True))
    found: list[dict[str, Estimate]] = [{} for _ in shown.arms]
    for n, key in places:
        found[n][key] = bootstrap_estimate(means[n, key], draws[n, key])
    base = next(((n, "steps") for n, arm in enumerate(shown.arms) if not arm.compresses), None)
    if base in means and means[base] and all(draws[base]):
        for n in range(len(found)):
            more = [a / b - 1 for a, b in zip(draws[n, "steps"], draws[base], strict=True)]
            found[n][RELATIVE] = bootstrap_estimate(means[n, "steps"] / means[base] - 1, more)
    return {arm.label: got for arm, got in zip(shown.arms, found, strict=True)}


def none_of(shown: Evaluation) -> ArmRuns | None:
    """The arm that does not compress."""
    return next((arm for arm in shown.arms if not arm.compresses), None)
