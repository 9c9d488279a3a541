"""A mean over worlds that are draws of one prior, with an interval for the prior and not only for these worlds."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, variance

from recompact.values.stats import Estimate, student


def random_effects(means: Sequence[float], variances: Sequence[float]) -> tuple[Estimate, float]:
    """The mean over worlds with Student's interval, and the standard deviation of the true values between worlds.

    Every world has as many tasks and adaptations, so every world counts the same: weights by estimated variances would
    favour a world whose few adaptations happened to agree. `variances` are those of the worlds' own means, and only
    serve to tell differences between worlds from noise.
    """
    if len(means) < 2:
        raise ValueError("an interval over worlds needs two worlds")
    spread = variance(means)
    between = sqrt(max(0.0, spread - fmean(variances)))
    return student(fmean(means), sqrt(spread / len(means)), len(means) - 1), between
