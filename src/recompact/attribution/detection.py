"""What fewer draws find of the compactions that all draws together call harmful, and at what cost.

An allocation samples from a pool of recorded draws as if they were made one by one; the paper compares successive
halving with a fixed three pairs like this. Its sensitivity analyses subsample draws, and vary the thresholds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from random import Random
from statistics import fmean
from typing import Literal

from recompact.attribution.allocation import Allocation, play_through
from recompact.attribution.effects import (
    channel_by_draws,
    channel_of,
    compaction_helped,
    first_draws,
    hazard_and_burden,
)
from recompact.attribution.posterior import helped_by_means
from recompact.attribution.prior import LearnedPriors
from recompact.models.journal import seed_of
from recompact.values.outcome import (
    NO_COPIES,
    PAPER,
    BoundaryId,
    CopiedArms,
    Draw,
    Outcome,
    Outcomes,
    Thresholds,
    exact,
)
from recompact.values.stats import Estimate, jaccard, pearson, ranks, spread


class PoolExhausted(ValueError):
    """An allocation asked for a draw that the pool does not have."""


@dataclass(frozen=True)
class Sample:
    """What an allocation took from a pool, and what it retained."""

    outcomes: Mapping[BoundaryId, Outcomes]
    retained: tuple[BoundaryId, ...]
    continuations: int
    tokens: int


def sample(allocation: Allocation, pool: Mapping[BoundaryId, Outcomes]) -> Sample:
    """Give the allocation what it asks for until it asks for nothing."""

    def recorded(draw: Draw) -> Outcome:
        outcome = pool[draw.boundary].of(draw.arm).get(draw.number)
        if outcome is None:
            raise PoolExhausted(f"{allocation.name} asks for {draw}, which the pool does not have")
        return outcome

    outcomes, draws = play_through(allocation, {boundary: Outcomes() for boundary in pool}, recorded)
    tokens = sum(recorded(draw).tokens for draw in draws)
    return Sample(outcomes, tuple(allocation.retained(outcomes)), len(draws), tokens)


def shuffle_draws(pool: Mapping[BoundaryId, Outcomes], seed: int) -> dict[BoundaryId, Outcomes]:
    """The same pool with the draws of each boundary and arm in an order of their own, drawn from the seed."""
    return {
        boundary: Outcomes(
            _permute(outcomes.pre, seed_of(f"pool/{boundary}/PRE", 0, seed)),
            _permute(outcomes.post, seed_of(f"pool/{boundary}/POST", 0, seed)),
        )
        for boundary, outcomes in pool.items()
    }


def _permute(draws: Mapping[int, Outcome], seed: int) -> dict[int, Outcome]:
    outcomes = [draws[number] for number in sorted(draws)]
    Random(seed).shuffle(outcomes)
    return dict(enumerate(outcomes))


PartRule = Literal["first two boundaries", "first loss of success", "random half", "half of the trajectories"]
"""The simpler ways to save draws that the paper names beside halving."""


@dataclass(frozen=True)
class Part(Allocation):
    """A control: the fixed budget for some boundaries only, by a simpler rule than halving."""

    rule_name: PartRule
    inner: Allocation
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.inner.name}, {self.rule_name}"

    @property
    def thresholds(self) -> Thresholds:
        return self.inner.thresholds

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        chosen = {id: own for id, own in outcomes.items() if self._takes(id, outcomes)}
        return self.inner.due(chosen)

    def retained(
        self,
        outcomes: Mapping[BoundaryId, Outcomes],
        copied: CopiedArms = NO_COPIES,
        priors: LearnedPriors | None = None,
    ) -> Sequence[BoundaryId]:
        kept = self.inner.retained({id: own for id, own in outcomes.items() if own.pre and own.post}, copied, priors)
        return [id for id in kept if self.rule_name != "first loss of success" or self._loses(outcomes[id])]

    def _takes(self, id: BoundaryId, outcomes: Mapping[BoundaryId, Outcomes]) -> bool:
        match self.rule_name:
            case "first two boundaries":
                return id.index <= 2
            case "random half":
                return seed_of(f"half/{id}", 0, self.seed) % 2 == 0
            case "half of the trajectories":
                return seed_of(f"half/{id.unit}", 0, self.seed) % 2 == 0
        earlier = [own for other, own in outcomes.items() if other.unit == id.unit and other.index < id.index]
        number = self.inner.deciding_draws or 1
        return all(len(own.pre) >= number <= len(own.post) and not self._loses(own) for own in earlier)

    def _loses(self, own: Outcomes) -> bool:
        return channel_by_draws(*own.arms, self.thresholds) in ("error", "both")


@dataclass(frozen=True)
class Detection:
    """How one allocation did on one order of the draws, against the reference."""

    recall: float | None  # None where nothing is harmful
    precision: float | None  # None where nothing was retained
    f1: float | None
    continuations: float  # per boundary
    tokens: float  # per boundary
    support: float | None = None  # of the rules of an adapted prompt, the share with a boundary that was retained


@dataclass(frozen=True)
class AllocationScore:
    """How one allocation did over many orders of the draws: means with the percentiles of the orders."""

    allocation: str
    recall: Estimate | None  # None where no order has one
    precision: Estimate | None
    f1: Estimate | None
    continuations: Estimate
    tokens: Estimate
    support: Estimate | None = None


def selected_by_all(pool: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> set[BoundaryId]:
    """The boundaries that all draws together would retain, by the rule of `Uniform`: the reference."""
    return {boundary for boundary, own in pool.items() if channel_by_draws(*own.arms, thresholds) != "none"}


def compare_allocations(
    allocations: Iterable[Allocation],
    pool: Mapping[BoundaryId, Outcomes],
    *,
    seeds: Sequence[int] = range(20),
    thresholds: Thresholds = PAPER,
    rules: Sequence[Collection[BoundaryId]] = (),
) -> list[AllocationScore]:
    """Let each allocation sample from the same pool, in one order of the draws for each seed. `rules` are those of a
    prompt that was adapted from all draws: the boundaries that each of them cites."""
    reference = selected_by_all(pool, thresholds)
    orders = {seed: shuffle_draws(pool, seed) for seed in seeds}
    scores = []
    for allocation in allocations:
        detections = []
        for seed, order in orders.items():  # a part that is drawn by lot is another one in each
            own = replace(allocation, seed=seed) if isinstance(allocation, Part) else allocation
            detections.append(detection(sample(own, order), reference, pool, rules))
        means = {each.name: _spread(getattr(d, each.name) for d in detections) for each in fields(Detection)}
        scores.append(AllocationScore(allocation.name, **means))  # type: ignore[arg-type]
    return scores


def _spread(values: Iterable[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return spread(known) if known else None


def detection(
    sampled: Sample,
    reference: Collection[BoundaryId],
    judged: Collection[BoundaryId],
    rules: Sequence[Collection[BoundaryId]] = (),
) -> Detection:
    """Score the retained boundaries against the reference, among those to be judged; costs are of all."""
    retained = set(sampled.retained) & set(judged)
    harmful = set(reference) & set(judged)
    hits = len(retained & harmful)
    return Detection(
        recall=hits / len(harmful) if harmful else None,
        precision=hits / len(retained) if retained else None,
        f1=2 * hits / (len(retained) + len(harmful)) if retained or harmful else None,
        continuations=sampled.continuations / len(sampled.outcomes),
        tokens=sampled.tokens / len(sampled.outcomes),
        support=fmean(not retained.isdisjoint(rule) for rule in rules) if rules else None,
    )


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
