"""Intervals by drawing tasks with replacement: the bootstrap that everything in an evaluation shares.

Comes in: vectors with one value per task. Goes out: their means, or quotients of two, with percentile intervals; or the
resamples, for whoever makes something else of them. The generator is seeded: the same records give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from random import Random

from recompact.attribution.controls import percentiles

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval over tasks."""

    value: float
    low: float
    high: float


def bootstrap(vectors: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> list[Estimate]:
    """The mean of each vector with its interval, when its places (the tasks) are drawn with replacement.

    All vectors see the same draws: what belongs to one task stays together.
    """
    made = resampled(vectors, resamples, seed)
    return [estimate(sum(vector) / len(vector), draws) for vector, draws in zip(vectors, made, strict=True)]


def ratios(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], resamples: int = RESAMPLES, seed: int = 0
) -> list[Estimate | None]:
    """The quotient of the sums of two vectors, both resampled together; None where there is nothing to divide by.

    Resamples in which there is nothing to divide by have no part in the interval.
    """
    made = resampled([vector for pair in pairs for vector in pair], resamples, seed)
    found: list[Estimate | None] = []
    for (above, below), x, y in zip(pairs, made[::2], made[1::2], strict=True):
        drawn = [a / b for a, b in zip(x, y, strict=True) if b]
        found.append(estimate(sum(above) / sum(below), drawn) if sum(below) and drawn else None)
    return found


def estimate(value: float, draws: Sequence[float]) -> Estimate:
    """A value with its percentile interval."""
    ends = percentiles(draws, CONFIDENCE)
    # Rounded, so that a sum of thirds which cancels out is zero and not nearly zero.
    return Estimate(value, round(ends.low, 10), round(ends.high, 10))


def resampled(vectors: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> list[list[float]]:
    """The means of each vector over resamples of its places, in the order of the resamples: those of two vectors belong
    together, so what is made of both (a ratio) has its resamples too."""
    if not vectors:
        return []
    n = len(vectors[0])
    if n == 1:
        return [[vector[0]] for vector in vectors]
    means: list[list[float]] = [[] for _ in vectors]
    for pick in _picks(n, resamples, seed):
        for vector, kept in zip(vectors, means, strict=True):
            kept.append(sum(pick(vector)) / n)
    return means


@lru_cache(maxsize=2)
def _picks(n: int, resamples: int, seed: int) -> list[itemgetter[tuple[float, ...]]]:
    """Which places each resample takes. Tables, words and figures about the same tasks ask for the same ones."""
    chance = Random(f"bootstrap/{seed}")
    places = range(n)
    return [itemgetter(*chance.choices(places, k=n)) for _ in range(resamples)]
