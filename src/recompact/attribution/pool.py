"""Pools of recorded draws: an allocation samples from one as if its draws were made one by one.

This tells what an allocation would have asked for, what that would have cost and what it would have retained, without
a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from recompact.attribution.allocation import Allocation
from recompact.models.journal import seed_of
from recompact.values.outcome import BoundaryId, Outcome, Outcomes


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
