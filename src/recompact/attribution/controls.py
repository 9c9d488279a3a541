"""Two controls that need no trust: how often a boundary is retained by chance, and whether the theorem holds here.

The A/A control takes PRE draws alone, deals them out to two arms that differ in nothing, and lets an allocation look
for harm: whatever it retains is false. The identity control takes runs with and without compaction and compares the
difference in reward, J(C) - J(none), with minus the expected sum of the hazards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import CHAINED, Chained
from recompact.attribution.distributions import wilson
from recompact.attribution.effects import Interval
from recompact.attribution.sampling import sample
from recompact.models.journal import seed_of
from recompact.outcome import BoundaryId, Outcome, Outcomes


@dataclass(frozen=True)
class FalseRetention:
    """The A/A control of one allocation."""

    allocation: str
    boundaries: int
    splits: int
    rate: float  # retained boundaries as a share of all, on average over the splits
    interval: Interval  # as if there had been one split: the boundaries are the sample


def false_retention(
    allocation: Allocation, pre: Mapping[BoundaryId, Mapping[int, Outcome]], *, splits: int = 1, seed: int = 0
) -> FalseRetention:
    """How often the allocation retains a boundary whose two arms are both PRE.

    A chained allocation gets its first POST draw for nothing here too: it is one of the PRE draws.
    """
    retained = [len(sample(*_alike(allocation, pre, seed + n)).retained) for n in range(splits)]
    rate = fmean(retained) / len(pre)
    return FalseRetention(allocation.name, len(pre), splits, rate, Interval(*wilson(rate, len(pre))))


def _alike(
    allocation: Allocation, pre: Mapping[BoundaryId, Mapping[int, Outcome]], seed: int
) -> tuple[Allocation, dict[BoundaryId, Outcomes]]:
    pool = split_in_two(pre, seed)
    if isinstance(allocation, Chained):
        links = {b: pool[b].post[CHAINED] for b in allocation.links if b in pool and CHAINED in pool[b].post}
        return replace(allocation, links=links), pool
    return allocation, pool


def split_in_two(pre: Mapping[BoundaryId, Mapping[int, Outcome]], seed: int = 0) -> dict[BoundaryId, Outcomes]:
    """Deal the PRE draws of each boundary out to two arms, at random. An odd one is left over."""
    pool = {}
    for boundary, draws in pre.items():
        outcomes = [draws[number] for number in sorted(draws)]
        Random(seed_of(f"split/{boundary.unit}", boundary.index, seed)).shuffle(outcomes)
        half = len(outcomes) // 2
        pool[boundary] = Outcomes(dict(enumerate(outcomes[:half])), dict(enumerate(outcomes[half : 2 * half])))
    return pool


@dataclass(frozen=True)
class TaskRuns:
    """The runs of one task: rewards with compaction, the sum of the estimated hazards of each, rewards without.

    A few draws in each arm are enough for the hazards: their estimates are unbiased.
    """

    task: str
    compacted: tuple[float, ...]
    hazards: tuple[float, ...]
    uncompacted: tuple[float, ...]


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class IdentityCheck:
    """J(C) - J(none) against -E[sum H]."""

    tasks: int
    trajectories: int
    compacted: Estimate  # J(C)
    uncompacted: Estimate  # J(none)
    difference: Estimate
    predicted: Estimate  # -E[sum H]
    gap: Estimate  # difference - predicted: 0 if the theorem holds

    @property
    def agrees(self) -> bool:
        return self.gap.interval.low <= 0 <= self.gap.interval.high


def check_identity(
    runs: Sequence[TaskRuns], *, resamples: int = 2000, seed: int = 0, confidence: float = 0.95
) -> IdentityCheck:
    """Each task counts the same; the intervals are percentiles of a bootstrap over tasks."""
    means = [(fmean(r.compacted), fmean(r.uncompacted), -fmean(r.hazards)) for r in runs]
    random = Random(seed)
    drawn = [_figures(random.choices(means, k=len(means))) for _ in range(resamples)]
    columns = [
        Estimate(value, percentiles([figures[n] for figures in drawn], confidence))
        for n, value in enumerate(_figures(means))
    ]
    return IdentityCheck(len(runs), sum(len(r.compacted) for r in runs), *columns)


def _figures(means: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
    compacted, uncompacted, predicted = (fmean(column) for column in zip(*means, strict=True))
    difference = compacted - uncompacted
    return compacted, uncompacted, difference, predicted, difference - predicted


def percentiles(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The middle part of a sample.

    >>> percentiles([3.0, 1.0, 2.0], 0.5)
    Interval(low=1.5, high=2.5)
    """
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    tail = (1 - confidence) / 2
    return Interval(at(tail), at(1 - tail))
