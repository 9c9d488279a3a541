"""How far the selection depends on the number of draws and on the thresholds: the paper's sensitivity analyses.

Both start from outcomes with equally many draws in each arm (the m = 9 diagnostic) and take what all draws together say
as the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from random import Random

from recompact.attribution.effects import channel_of, compaction_helped, first_draws, hazard_and_burden
from recompact.attribution.posterior import helped_by_means
from recompact.values.effect import PAPER, Thresholds
from recompact.values.outcome import BoundaryId, Outcome, Outcomes, exact
from recompact.values.stats import Estimate, jaccard, pearson, ranks, spread

_MOST_CHOICES = 500  # of draws of one arm; C(9, 4) is 126


@dataclass(frozen=True)
class DrawsPoint:
    """How close this many draws in each arm come to all of them: means over subsamples with their percentiles."""

    draws: int
    hazard: Estimate | None  # rank correlation with the reference; None where H never varies
    burden: Estimate | None
    jaccard: Estimate  # overlap of the selected boundaries with the reference's


def sensitivity_to_draws(
    outcomes: Mapping[BoundaryId, Outcomes],
    draws: Sequence[int] = (1, 3, 5, 9),
    *,
    subsamples: int = 1000,
    seed: int = 0,
    thresholds: Thresholds = PAPER,
) -> list[DrawsPoint]:
    """Subsample the draws of each arm without replacement and compare with all of them."""
    arms = [outcomes[boundary].arms for boundary in sorted(outcomes)]
    full = [_effect(pre, post) for pre, post in arms]
    reference = tuple(ranks([effect[n] for effect in full]) for n in (0, 1))
    selected = _select(full, thresholds)
    points = []
    for m in draws:
        random = Random(seed + m)
        # All draws of all boundaries leave nothing to chance.
        repeats = 1 if all(m >= max(len(pre), len(post)) for pre, post in arms) else subsamples
        repeated = list(_subsamples(arms, m, repeats, random))
        hazards, burdens = (
            [pearson(ranks([effect[n] for effect in effects]), reference[n]) for effects in repeated] for n in (0, 1)
        )
        overlap = spread(jaccard(_select(effects, thresholds), selected) for effects in repeated)
        points.append(DrawsPoint(m, _spread(hazards), _spread(burdens), overlap))
    return points


_Effect = tuple[float, float, bool]
"""H, B, and whether the compaction clearly helped."""


def _effect(pre: Sequence[Outcome], post: Sequence[Outcome]) -> _Effect:
    hazard, burden = hazard_and_burden(pre, post)
    return float(hazard), float(burden), hazard < 0 and compaction_helped(pre, post)


def _subsamples(
    arms: Sequence[tuple[Sequence[Outcome], Sequence[Outcome]]], m: int, repeats: int, random: Random
) -> Iterator[list[_Effect]]:
    """The effects of all boundaries, `repeats` times, each from m draws of either arm without replacement."""
    # Whole numbers, divided once: equal means are equal, and a threshold that is met is met.
    sizes_of = [(min(m, len(pre)), min(m, len(post))) for pre, post in arms]
    scales = [lcm(*sizes) for sizes in sizes_of]
    sums = [
        (_sums(pre, m, repeats, random, scale), _sums(post, m, repeats, random, scale), scale, sizes)
        for (pre, post), scale, sizes in zip(arms, scales, sizes_of, strict=True)
    ]
    for n in range(repeats):
        yield [_difference(pre[n], post[n], scale, *sizes) for pre, post, scale, sizes in sums]


def _difference(pre: _Sum, post: _Sum, scale: int, pre_draws: int, post_draws: int) -> _Effect:
    (won, steps), (kept, post_steps) = pre, post
    # The interval is asked for only where success rose at all: it takes longer than all the rest.
    helped = won < kept and helped_by_means(float(won / scale), pre_draws, float(kept / scale), post_draws)
    return float((won - kept) / scale), (post_steps - steps) / scale, helped


_Sum = tuple[int | Fraction, int]


def _sums(outcomes: Sequence[Outcome], m: int, repeats: int, random: Random, scale: int) -> list[_Sum]:
    """Mean value and mean steps of random choices of m draws, times `scale`.

    There are few choices from nine draws, so all of them are worked out once and then picked from.
    """
    size = min(m, len(outcomes))
    if comb(len(outcomes), size) > _MOST_CHOICES:
        return [_sum(random.sample(outcomes, size), scale // size) for _ in range(repeats)]
    return random.choices([_sum(chosen, scale // size) for chosen in combinations(outcomes, size)], k=repeats)


def _sum(outcomes: Sequence[Outcome], times: int) -> _Sum:
    value = times * sum([exact(o.value) for o in outcomes])
    return (int(value) if value == int(value) else value), times * sum([o.steps for o in outcomes])


def _spread(values: Sequence[float | None]) -> Estimate | None:
    defined = [value for value in values if value is not None]
    return spread(defined) if defined else None


def _select(effects: Sequence[_Effect], thresholds: Thresholds) -> set[int]:
    """What is retained by the rule of `Uniform`."""
    # Few draws have few different effects, however many boundaries there are.
    reach = {(h, b, helped) for h, b, helped in set(effects) if not helped and channel_of(h, b, thresholds) != "none"}
    return {n for n, effect in enumerate(effects) if effect in reach}


@dataclass(frozen=True)
class ThresholdPoint:
    """What another threshold would select."""

    threshold: str  # "hazard" or "burden"
    value: float
    selected: int
    jaccard: float  # with the selection of the default thresholds


def sensitivity_to_thresholds(
    outcomes: Mapping[BoundaryId, Outcomes],
    hazards: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7),
    burdens: Sequence[float] = (3, 4, 5, 6, 7),
    *,
    draws: int = 3,
    thresholds: Thresholds = PAPER,
) -> list[ThresholdPoint]:
    """Vary one threshold at a time at a fixed number of pairs (three in the paper)."""
    first = [arms for own in outcomes.values() if (arms := first_draws(own, draws)) is not None]
    effects = [_effect(pre, post) for pre, post in first]
    default = _select(effects, thresholds)
    variants = [("hazard", value, Thresholds(value, thresholds.burden)) for value in hazards]
    variants += [("burden", value, Thresholds(thresholds.hazard, value)) for value in burdens]
    points = []
    for name, value, variant in variants:
        selected = _select(effects, variant)
        points.append(ThresholdPoint(name, value, len(selected), jaccard(selected, default)))
    return points
