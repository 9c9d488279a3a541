"""How far the answers hang on the number of draws, on the thresholds and on the allocation.

Comes in: the outcomes of all boundaries with equally many draws in each arm (the m = 9 diagnostic). Goes out: the
points of the paper's sensitivity figures and the comparison of allocations, as dataclasses. What all draws say together
serves as the reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean

from recompact.attribution.allocation import Allocation
from recompact.attribution.analyses import correlation, ranks
from recompact.attribution.controls import percentiles
from recompact.attribution.effects import channel_of, estimate
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.attribution.sampling import Sampled, sample, shuffled
from recompact.attribution.uniform import Uniform
from recompact.outcome import BoundaryId, Outcome, Outcomes

_MOST_CHOICES = 500  # of draws of one arm; C(9, 4) is 126


@dataclass(frozen=True)
class Spread:
    """A mean with the 2.5 and 97.5 percentiles of what it is the mean of."""

    mean: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        found = list(values)
        middle = percentiles(found)
        return Spread(fmean(found), middle.low, middle.high)


@dataclass(frozen=True)
class DrawsPoint:
    """How close so many draws in each arm come to all of them."""

    draws: int
    hazard: Spread | None  # rank correlation with the reference; None where H never varies
    burden: Spread | None
    jaccard: Spread  # overlap of the selected boundaries with the reference's


def sensitivity_to_draws(
    known: Mapping[BoundaryId, Outcomes],
    draws: Sequence[int] = (1, 3, 5, 9),
    *,
    subsamples: int = 1000,
    seed: int = 0,
    thresholds: Thresholds = PAPER,
) -> list[DrawsPoint]:
    """Subsample the draws of each arm without replacement and compare with all of them."""
    arms = [(tuple(known[b].pre.values()), tuple(known[b].post.values())) for b in sorted(known)]
    full = [estimate(*pair) for pair in arms]
    reference = tuple(ranks([effect[n] for effect in full]) for n in (0, 1))
    selected = _selected(full, thresholds)
    points = []
    for m in draws:
        random = Random(seed + m)
        # All draws of all boundaries leave nothing to chance.
        repeats = 1 if all(m >= max(len(pre), len(post)) for pre, post in arms) else subsamples
        found = list(_subsamples(arms, m, repeats, random))
        hazards, burdens = (
            [correlation(ranks([effect[n] for effect in effects]), reference[n]) for effects in found] for n in (0, 1)
        )
        overlap = Spread.of(jaccard(_selected(effects, thresholds), selected) for effects in found)
        points.append(DrawsPoint(m, _spread(hazards), _spread(burdens), overlap))
    return points


def _subsamples(
    arms: Sequence[tuple[Sequence[Outcome], Sequence[Outcome]]], m: int, repeats: int, random: Random
) -> Iterator[list[tuple[float, float]]]:
    """So many times the effects of all boundaries, each from m draws of either arm without replacement."""
    drawn = [(_means(pre, m, repeats, random), _means(post, m, repeats, random)) for pre, post in arms]
    for n in range(repeats):
        yield [(pre[n][0] - post[n][0], post[n][1] - pre[n][1]) for pre, post in drawn]


def _means(outcomes: Sequence[Outcome], m: int, repeats: int, random: Random) -> list[tuple[float, float]]:
    """Mean value and mean steps of random choices of m draws.

    Of nine draws there are few choices, so all of them are worked out once and then picked from.
    """
    size = min(m, len(outcomes))
    if comb(len(outcomes), size) > _MOST_CHOICES:
        return [_mean(random.sample(outcomes, size)) for _ in range(repeats)]
    return random.choices([_mean(chosen) for chosen in combinations(outcomes, size)], k=repeats)


def _mean(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    return sum([o.value for o in outcomes]) / len(outcomes), sum([o.steps for o in outcomes]) / len(outcomes)


def _spread(values: Sequence[float | None]) -> Spread | None:
    found = [value for value in values if value is not None]
    return Spread.of(found) if found else None


def _selected(effects: Sequence[tuple[float, float]], thresholds: Thresholds) -> set[int]:
    return {n for n, effect in enumerate(effects) if channel_of(*effect, thresholds) != "none"}


def jaccard(one: Collection[object], other: Collection[object]) -> float:
    """Overlap of two sets; two empty ones are the same."""
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) if a | b else 1.0


@dataclass(frozen=True)
class ThresholdPoint:
    """What another threshold would select."""

    threshold: str  # "hazard" or "burden"
    value: float
    selected: int
    jaccard: float  # with the selection of the default thresholds


def sensitivity_to_thresholds(
    known: Mapping[BoundaryId, Outcomes],
    hazards: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7),
    burdens: Sequence[float] = (3, 4, 5, 6, 7),
    *,
    draws: int = 3,
    thresholds: Thresholds = PAPER,
) -> list[ThresholdPoint]:
    """Vary one threshold at a time at a fixed number of pairs (three in the paper)."""
    default = Uniform(draws, thresholds).retained(known)
    varied = [("hazard", value, Thresholds(value, thresholds.burden)) for value in hazards]
    varied += [("burden", value, Thresholds(thresholds.hazard, value)) for value in burdens]
    points = []
    for name, value, changed in varied:
        selected = Uniform(draws, changed).retained(known)
        points.append(ThresholdPoint(name, value, len(selected), jaccard(selected, default)))
    return points


@dataclass(frozen=True)
class Found:
    """How one allocation did on one order of the draws, against the reference."""

    recall: float
    precision: float
    f1: float
    continuations: float  # per boundary
    tokens: float  # per boundary


@dataclass(frozen=True)
class Comparison:
    """How one allocation did over many orders of the draws."""

    allocation: str
    recall: Spread
    precision: Spread
    f1: Spread
    continuations: Spread
    tokens: Spread


def selected_by_all(pool: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> set[BoundaryId]:
    """The boundaries that are harmful by all draws together: the reference."""
    return {
        boundary
        for boundary, outcomes in pool.items()
        if channel_of(*estimate(tuple(outcomes.pre.values()), tuple(outcomes.post.values())), thresholds) != "none"
    }


def compare(
    allocations: Iterable[Allocation],
    pool: Mapping[BoundaryId, Outcomes],
    *,
    seeds: Sequence[int] = range(20),
    thresholds: Thresholds = PAPER,
) -> list[Comparison]:
    """Let each allocation sample from the same pool: the paper's halving against fixed three pairs, or any others."""
    reference = selected_by_all(pool, thresholds)
    orders = [shuffled(pool, seed) for seed in seeds]
    return [
        compared(allocation.name, [found(sample(allocation, order), reference, pool) for order in orders])
        for allocation in allocations
    ]


def compared(name: str, results: Sequence[Found]) -> Comparison:
    return Comparison(
        name,
        Spread.of(r.recall for r in results),
        Spread.of(r.precision for r in results),
        Spread.of(r.f1 for r in results),
        Spread.of(r.continuations for r in results),
        Spread.of(r.tokens for r in results),
    )


def found(sampled: Sampled, reference: Collection[BoundaryId], judged: Collection[BoundaryId]) -> Found:
    """Score what was retained against the reference, on the boundaries that are to be judged; costs are of all."""
    retained = set(sampled.retained) & set(judged)
    harmful = set(reference) & set(judged)
    hits = len(retained & harmful)
    return Found(
        recall=hits / len(harmful) if harmful else 1.0,
        precision=hits / len(retained) if retained else 1.0,
        f1=2 * hits / (len(retained) + len(harmful)) if retained or harmful else 1.0,
        continuations=sampled.continuations / len(sampled.known),
        tokens=sampled.tokens / len(sampled.known),
    )
