"""The identity control: does the paper's theorem hold on this run?

Runs with and without compaction give the reward that compaction costs; continuations give the hazards. The theorem says
that the one is the expected sum of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from recompact.values.stats import CONFIDENCE, FEWEST, Estimate, percentile_estimate


@dataclass(frozen=True)
class TaskRuns:
    """The runs of one task: rewards with compaction, the sum of the estimated hazards of each, rewards without.

    A few draws in each arm are enough for the hazards, but as many for every boundary: then their estimates are
    unbiased. Where outcomes decided which boundary was drawn again, they are not (`effects.equal_draws`).
    """

    task: str
    compacted: tuple[float, ...]
    hazards: tuple[float, ...]
    uncompacted: tuple[float, ...]


@dataclass(frozen=True)
class IdentityCheck:
    """J(C) - J(none) beside -E[sum H]."""

    tasks: int
    trajectories: int
    compacted: Estimate  # J(C)
    uncompacted: Estimate  # J(none)
    difference: Estimate
    predicted: Estimate  # -E[sum H]
    gap: Estimate  # difference - predicted: 0 if the theorem holds

    @property
    def agrees(self) -> bool | None:
        """Whether the theorem holds; None where there are too few tasks to tell."""
        return None if self.tasks < FEWEST else self.gap.low <= 0 <= self.gap.high

    @property
    def verdict(self) -> str:
        if self.agrees is None:
            return f"with fewer than {FEWEST} tasks an interval over tasks tells nothing"
        return "they agree" if self.agrees else "they do not agree"


def check_identity(
    runs: Sequence[TaskRuns], *, resamples: int = 2000, seed: int = 0, confidence: float = CONFIDENCE
) -> IdentityCheck:
    """Each task counts the same; the intervals are percentiles of a bootstrap over tasks."""
    means = [(fmean(r.compacted), fmean(r.uncompacted), -fmean(r.hazards)) for r in runs]
    random = Random(seed)
    resampled = [_figures(random.choices(means, k=len(means))) for _ in range(resamples)]
    estimates = [
        percentile_estimate(value, [figures[n] for figures in resampled], confidence)
        for n, value in enumerate(_figures(means))
    ]
    return IdentityCheck(len(runs), sum(len(r.compacted) for r in runs), *estimates)


def _figures(means: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
    compacted, uncompacted, predicted = (fmean(column) for column in zip(*means, strict=True))
    difference = compacted - uncompacted
    return compacted, uncompacted, difference, predicted, difference - predicted
