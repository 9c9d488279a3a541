"""The statistics of the project: intervals, distributions, ranks, tests, the bootstrap.

Everything is a function of plain numbers. Whatever is random draws from a generator seeded by the caller, so the same
records give the same figures everywhere. numpy and scipy are imported by what needs them: commands start without them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
RESAMPLES = 10_000
_BLOCK = 1 << 21  # random numbers at once
FEWEST = 6  # tasks; with fewer, intervals are not to be read: even if all differ, a sign test stays above 0.05


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval; 95 % unless stated otherwise."""

    value: float
    low: float
    high: float


# Intervals of proportions and means


def wilson(mean: float, draws: int) -> Estimate:
    """A mean of values in [0, 1] with Wilson's score interval.

    Exact in form for 0/1 values. For other values in [0, 1] it is conservative, since their variance is at most that of
    0/1 values with the same mean.
    """
    if draws == 0:
        return Estimate(mean, 0.0, 1.0)
    denominator = 1 + _Z * _Z / draws
    centre = (mean + _Z * _Z / (2 * draws)) / denominator
    half = _Z * math.sqrt(max(0.0, mean * (1 - mean)) / draws + _Z * _Z / (4 * draws * draws)) / denominator
    # Rounding must not push the interval past the mean itself at 0 and 1.
    return Estimate(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))


def newcombe(first: Estimate, second: Estimate) -> Estimate:
    """The difference of two proportions with Newcombe's hybrid score interval, from the `wilson` of each."""
    p, q = first.value, second.value
    return Estimate(
        p - q,
        p - q - math.hypot(p - first.low, second.high - q),
        p - q + math.hypot(first.high - p, q - second.low),
    )


def mean_of(estimates: Sequence[Estimate], variances: Sequence[float | None] = ()) -> Estimate:
    """The mean of independent estimates, with the interval that follows from theirs (as in `newcombe`).

    The interval of a proportion leans towards the middle, and those of many proportions all lean the same way, so that
    their mean would be missed too often. Where the variance of every estimate is known, the interval reaches at least
    as far as these say. They alone would not do: few draws that happen to be alike have none.

    >>> mean_of([Estimate(1.0, 0.0, 1.5), Estimate(0.0, 0.0, 0.0)])
    Estimate(value=0.5, low=0.0, high=0.75)
    """
    n = len(estimates)
    value = fmean(each.value for each in estimates)
    below = math.hypot(*(each.value - each.low for each in estimates)) / n
    above = math.hypot(*(each.high - each.value for each in estimates)) / n
    known = [each for each in variances if each is not None]
    if n > 1 and len(known) == n:
        half = _Z * math.sqrt(math.fsum(known)) / n
        below, above = max(below, half), max(above, half)
    return Estimate(value, value - below, value + above)


def variance_of_mean(values: Sequence[float]) -> float | None:
    """Of the mean of independent draws, estimated from them; None where there are fewer than two.

    >>> variance_of_mean([1.0, 0.0, 1.0, 0.0, 1.0]), variance_of_mean([1.0])
    (0.06, None)
    """
    return variance(values) / len(values) if len(values) > 1 else None


def student(value: float, error: float, freedom: float) -> Estimate:
    """A value with Student's interval, from its standard error and degrees of freedom."""
    # Rounded, so that the quantile is mostly cached.
    half = t_quantile((1 + CONFIDENCE) / 2, round(freedom, 1)) * error
    return Estimate(value, value - half, value + half)


def percentile_estimate(value: float, sample: Sequence[float] | Array, confidence: float = CONFIDENCE) -> Estimate:
    """A value with the middle part of a sample as its interval.

    >>> percentile_estimate(2.0, [3.0, 1.0, 2.0], 0.5)
    Estimate(value=2.0, low=1.5, high=2.5)
    """
    import numpy as np

    low, high = np.quantile(sample, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, float(low), float(high))


def spread(values: Iterable[float]) -> Estimate:
    """The mean of a sample with the 2.5 and 97.5 percentiles of the sample itself."""
    sample = list(values)
    return percentile_estimate(fmean(sample), sample)


def probable_count(probabilities: Iterable[float], confidence: float = CONFIDENCE, *, none: float = 0.0) -> Estimate:
    """How many of several independent events happen: their expected number with the interval of that number. With a
    probability of `none`, nothing of the kind can happen at all.

    >>> probable_count([1.0, 1.0, 0.0]), probable_count([1.0, 1.0], none=0.25)
    (Estimate(value=2.0, low=2.0, high=2.0), Estimate(value=1.5, low=0.0, high=2.0))
    """
    import numpy as np

    shares = list(probabilities)
    counts = np.ones(1)  # P(0), P(1), …
    for share in shares:
        counts = np.convolve(counts, [1 - share, share])
    counts = (1 - none) * counts
    counts[0] += none
    tail = (1 - confidence) / 2
    low, high = np.searchsorted(counts.cumsum(), [tail - 1e-12, 1 - tail - 1e-12])
    return Estimate((1 - none) * math.fsum(shares), float(low), float(min(high, len(shares))))


# Distributions


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


# Ranks, correlation, overlap, the sign test


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Rank correlation with tied values at their mean rank; None where one side never varies.

    >>> spearman([1, 2, 3, 4], [10, 20, 20, 50])
    0.9486832980505138
    """
    return pearson(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, tied values at their mean rank."""
    import numpy as np

    _, place, ties = np.unique(values, return_inverse=True, return_counts=True)
    means: list[float] = (ties.cumsum() - (ties - 1) / 2)[place].tolist()
    return means


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's correlation; None where one side never varies."""
    import numpy as np

    if len(xs) < 2:
        return None
    x, y = np.asarray(xs) - fmean(xs), np.asarray(ys) - fmean(ys)
    spreads = float(x @ x) * float(y @ y)
    return float(x @ y) / spreads**0.5 if spreads else None


def jaccard(one: Collection[object], other: Collection[object]) -> float:
    """The overlap of two sets; two empty ones are the same."""
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) if a | b else 1.0


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of these wins and losses if both were equally likely; ties do not count.

    >>> round(sign_test(22, 7), 3), round(sign_test(7, 6), 3), sign_test(0, 0)
    (0.008, 1.0, 1.0)
    """
    n = wins + losses
    tail = sum(math.comb(n, i) for i in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / (1 << n))


# The bootstrap over tasks: vectors have one value per task, and tasks are drawn with replacement


def bootstrap(vectors: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> list[Estimate]:
    """The mean of each vector with its interval, when its places (the tasks) are drawn with replacement.

    All vectors see the same draws: what belongs to one task stays together.
    """
    means = resampled_means(vectors, resamples, seed)
    return [bootstrap_estimate(sum(vector) / len(vector), each) for vector, each in zip(vectors, means, strict=True)]


def bootstrap_ratios(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], resamples: int = RESAMPLES, seed: int = 0
) -> list[Estimate | None]:
    """The quotient of the sums of two vectors, both resampled together; None where there is nothing to divide by.

    Resamples in which there is nothing to divide by are left out of the interval.
    """
    means = resampled_means([vector for pair in pairs for vector in pair], resamples, seed)
    estimates: list[Estimate | None] = []
    for (above, below), x, y in zip(pairs, means[::2], means[1::2], strict=True):
        usable = y != 0
        possible = sum(below) and usable.any()
        estimates.append(bootstrap_estimate(sum(above) / sum(below), x[usable] / y[usable]) if possible else None)
    return estimates


def bootstrap_crossed(
    matrices: Sequence[Sequence[Sequence[float]]], resamples: int = RESAMPLES, seed: int = 0
) -> list[Estimate]:
    """The mean of each matrix with its interval, when its rows and its columns are both drawn with replacement.

    Rows are repetitions of a whole procedure (an adaptation), columns are tasks, the same for every row; so the
    interval covers the randomness of both. All matrices see the same draws.

    >>> bootstrap_crossed([[[1.0, 0.0], [1.0, 0.0]]])[0].value
    0.5
    """
    import numpy as np

    if not matrices:
        return []
    values = np.array(matrices)
    _, rows, places = values.shape
    means = [
        ((_times_drawn(chance[:, :rows]) @ values) * _times_drawn(chance[:, rows:])).sum(axis=-1) / (rows * places)
        for chance in _chances(f"crossed/{seed}", resamples, rows + places)
    ]
    return [
        bootstrap_estimate(fmean(map(fmean, matrix)), each)
        for matrix, each in zip(matrices, np.concatenate(means, axis=1), strict=True)
    ]


def bootstrap_estimate(value: float, resamples: Array) -> Estimate:
    """A value with the percentile interval of its resamples."""
    exact = percentile_estimate(value, resamples)
    # Rounded, so that a sum of thirds which cancels out is zero and not nearly zero.
    return Estimate(value, round(exact.low, 10), round(exact.high, 10))


def resampled_means(vectors: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """A row for each vector: its means over resamples of its places, in the order of the resamples.

    Those of two vectors belong together, so whatever is computed from both (a ratio) has its resamples too.
    """
    import numpy as np

    if not vectors:
        return np.empty((0, resamples))
    places = len(vectors[0])
    chances = _chances(f"bootstrap/{seed}", resamples, places)
    return np.concatenate([np.array(vectors) @ _times_drawn(chance).T / places for chance in chances], axis=1)


def _chances(seed: str, resamples: int, size: int) -> Iterator[Array]:
    """For each resample a row of numbers below 1, in blocks that memory has room for. They are those that Python's own
    generator with this seed returns one by one: both are the Mersenne Twister."""
    from numpy.random import RandomState

    _, (*words, position), _ = Random(seed).getstate()
    generator = RandomState()
    generator.set_state({"bit_generator": "MT19937", "state": {"key": words, "pos": position}})
    block = max(1, _BLOCK // size)
    for first in range(0, resamples, block):
        yield generator.random_sample((min(block, resamples - first), size))


def _times_drawn(chance: Array) -> Array:
    """How often each resample, a row, draws each of as many places as it has numbers."""
    import numpy as np

    resamples, places = chance.shape
    drawn = (chance * places).astype(np.intp) + places * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=chance.size).reshape(chance.shape).astype(float)
