"""Means with intervals over sessions: a session is what is drawn again, since its compactions are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

RESAMPLES = 4_000
CONFIDENCE = 0.95
LEAST = 5  # sessions below which an interval would be a pretence


@dataclass(frozen=True)
class Estimate:
    """A mean over sessions; the ends of its 95 % interval are None where there are too few sessions for one."""

    value: float
    low: float | None
    high: float | None
    sessions: int

    @property
    def positive(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low is not None and self.low > 0


def estimate(values: Sequence[float], seed: int = 0) -> Estimate | None:
    """The mean of one value per session, with its percentile bootstrap interval."""
    if not values:
        return None
    n = len(values)
    if n < LEAST:
        return Estimate(fmean(values), None, None, n)
    rng = Random(seed)
    draws = sorted(sum(rng.choices(values, k=n)) / n for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    return Estimate(fmean(values), draws[int(tail * RESAMPLES)], draws[int((1 - tail) * RESAMPLES) - 1], n)
