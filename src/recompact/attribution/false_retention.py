"""The A/A control: how often does an allocation retain a boundary by chance?

PRE draws alone are dealt out to two arms that differ in nothing. Whatever is retained then is retained falsely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import CHAINED, Chained
from recompact.attribution.pool import sample
from recompact.models.journal import seed_of
from recompact.values.outcome import BoundaryId, Outcome, Outcomes
from recompact.values.stats import Estimate, wilson


@dataclass(frozen=True)
class FalseRetention:
    """The A/A control of one allocation.

    `rate` is the share of boundaries that were retained, on average over the splits. Its interval is that of a
    single split: the boundaries are the sample.
    """

    allocation: str
    boundaries: int
    splits: int
    rate: Estimate


def false_retention(
    allocation: Allocation, pre: Mapping[BoundaryId, Mapping[int, Outcome]], *, splits: int = 1, seed: int = 0
) -> FalseRetention:
    """How often the allocation retains a boundary whose two arms are both PRE.

    The free POST draw of a chained allocation is one of the PRE draws here too.
    """
    retained = [len(sample(*_alike(allocation, pre, seed + n)).retained) for n in range(splits)]
    rate = fmean(retained) / len(pre)
    return FalseRetention(allocation.name, len(pre), splits, wilson(rate, len(pre)))


def _alike(
    allocation: Allocation, pre: Mapping[BoundaryId, Mapping[int, Outcome]], seed: int
) -> tuple[Allocation, dict[BoundaryId, Outcomes]]:
    pool = split_in_two(pre, seed)
    if isinstance(allocation, Chained):
        links = {b: pool[b].post[CHAINED] for b in allocation.links if b in pool and CHAINED in pool[b].post}
        return replace(allocation, links=links), pool
    return allocation, pool


def split_in_two(pre: Mapping[BoundaryId, Mapping[int, Outcome]], seed: int = 0) -> dict[BoundaryId, Outcomes]:
    """Deal the PRE draws of each boundary out to two arms, at random. An odd one is not used."""
    pool = {}
    for boundary, draws in pre.items():
        outcomes = [draws[number] for number in sorted(draws)]
        Random(seed_of(f"split/{boundary.unit}", boundary.index, seed)).shuffle(outcomes)
        half = len(outcomes) // 2
        pool[boundary] = Outcomes(dict(enumerate(outcomes[:half])), dict(enumerate(outcomes[half : 2 * half])))
    return pool
