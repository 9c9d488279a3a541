"""How well and at what cost an allocation finds the boundaries that all draws together call harmful.

The paper uses this to compare successive halving with a fixed three pairs; any two allocations can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from recompact.attribution.allocation import Allocation
from recompact.attribution.effects import channel_by_draws
from recompact.attribution.pool import Sample, sample, shuffle_draws
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.stats import Estimate, spread


@dataclass(frozen=True)
class Detection:
    """How one allocation did on one order of the draws, against the reference."""

    recall: float
    precision: float
    f1: float
    continuations: float  # per boundary
    tokens: float  # per boundary


@dataclass(frozen=True)
class AllocationScore:
    """How one allocation did over many orders of the draws: means with the percentiles of the orders."""

    allocation: str
    recall: Estimate
    precision: Estimate
    f1: Estimate
    continuations: Estimate
    tokens: Estimate


def selected_by_all(pool: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> set[BoundaryId]:
    """The boundaries that all draws together would retain, by the rule of `Uniform`: the reference."""
    return {
        boundary
        for boundary, outcomes in pool.items()
        if channel_by_draws(tuple(outcomes.pre.values()), tuple(outcomes.post.values()), thresholds) != "none"
    }


def compare_allocations(
    allocations: Iterable[Allocation],
    pool: Mapping[BoundaryId, Outcomes],
    *,
    seeds: Sequence[int] = range(20),
    thresholds: Thresholds = PAPER,
) -> list[AllocationScore]:
    """Let each allocation sample from the same pool, in one order of the draws for each seed."""
    reference = selected_by_all(pool, thresholds)
    orders = [shuffle_draws(pool, seed) for seed in seeds]
    return [
        _score(allocation.name, [detection(sample(allocation, order), reference, pool) for order in orders])
        for allocation in allocations
    ]


def _score(name: str, detections: Sequence[Detection]) -> AllocationScore:
    return AllocationScore(
        name,
        spread(d.recall for d in detections),
        spread(d.precision for d in detections),
        spread(d.f1 for d in detections),
        spread(d.continuations for d in detections),
        spread(d.tokens for d in detections),
    )


def detection(sampled: Sample, reference: Collection[BoundaryId], judged: Collection[BoundaryId]) -> Detection:
    """Score the retained boundaries against the reference, among those to be judged; costs are of all."""
    retained = set(sampled.retained) & set(judged)
    harmful = set(reference) & set(judged)
    hits = len(retained & harmful)
    return Detection(
        recall=hits / len(harmful) if harmful else 1.0,
        precision=hits / len(retained) if retained else 1.0,
        f1=2 * hits / (len(retained) + len(harmful)) if retained or harmful else 1.0,
        continuations=sampled.continuations / len(sampled.outcomes),
        tokens=sampled.tokens / len(sampled.outcomes),
    )
