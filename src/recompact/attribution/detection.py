"""How well and at what cost an allocation finds the boundaries that all draws together call harmful.

An allocation samples from a pool of recorded draws as if they were made one by one. The paper compares successive
halving with a fixed three pairs like this; any two allocations can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Literal

from recompact.attribution.allocation import Allocation
from recompact.attribution.effects import channel_by_draws
from recompact.attribution.prior import LearnedPriors
from recompact.models.journal import seed_of
from recompact.values.effect import PAPER, Thresholds
from recompact.values.outcome import NO_COPIES, BoundaryId, CopiedArms, Draw, Outcome, Outcomes
from recompact.values.stats import Estimate, spread


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
    pre: dict[BoundaryId, dict[int, Outcome]] = {boundary: {} for boundary in pool}
    post: dict[BoundaryId, dict[int, Outcome]] = {boundary: {} for boundary in pool}
    outcomes = {boundary: Outcomes(pre[boundary], post[boundary]) for boundary in pool}
    continuations = tokens = 0
    while due := allocation.due(outcomes):
        for draw in due:
            outcome = pool[draw.boundary].of(draw.arm).get(draw.number)
            if outcome is None:
                raise PoolExhausted(f"{allocation.name} asks for {draw}, which the pool does not have")
            (pre if draw.arm == "PRE" else post)[draw.boundary][draw.number] = outcome
            continuations += 1
            tokens += outcome.tokens
    return Sample(outcomes, tuple(allocation.retained(outcomes)), continuations, tokens)


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
    return [
        _score(
            allocation.name,
            [
                detection(sample(_with_seed(allocation, seed), order), reference, pool, rules)
                for seed, order in orders.items()
            ],
        )
        for allocation in allocations
    ]


def _with_seed(allocation: Allocation, seed: int) -> Allocation:
    """A part that is drawn by lot is another one in each order."""
    return replace(allocation, seed=seed) if isinstance(allocation, Part) else allocation


def _score(name: str, detections: Sequence[Detection]) -> AllocationScore:
    return AllocationScore(
        name,
        _spread(d.recall for d in detections),
        _spread(d.precision for d in detections),
        _spread(d.f1 for d in detections),
        spread(d.continuations for d in detections),
        spread(d.tokens for d in detections),
        _spread(d.support for d in detections),
    )


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
