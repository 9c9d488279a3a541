"""Means with intervals over sessions: whole sessions are resampled, since their compactions are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from recompact.values.stats import bootstrap

RESAMPLES = 4_000
LEAST = 5  # sessions below which an interval would be a pretence


@dataclass(frozen=True)
class SessionMean:
    """A mean over sessions; the ends of its 95 % interval are None where there are too few sessions for one."""

    value: float
    low: float | None
    high: float | None
    sessions: int

    @property
    def positive(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low is not None and self.low > 0


def mean_of_sessions(values: Sequence[float]) -> SessionMean | None:
    """The mean of one value per session, with its interval when sessions are drawn with replacement."""
    if not values:
        return None
    if len(values) < LEAST:
        return SessionMean(fmean(values), None, None, len(values))
    (estimate,) = bootstrap([values], RESAMPLES)
    return SessionMean(estimate.value, estimate.low, estimate.high, len(values))
