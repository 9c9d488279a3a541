"""The statistics of the project, without a numerical library: intervals, distributions, ranks, tests, the bootstrap.

Everything is a function of plain numbers. Whatever is random draws from a generator seeded by the caller, so the same
records give the same figures everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from random import Random
from statistics import NormalDist, fmean, variance

CONFIDENCE = 0.95
RESAMPLES = 10_000
FEWEST = 6  # tasks; with fewer, intervals are not to be read: even if all differ, a sign test stays above 0.05


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval; 95 % unless stated otherwise."""

    value: float
    low: float
    high: float


# Intervals of proportions and means


def wilson(mean: float, draws: int, confidence: float = CONFIDENCE) -> Estimate:
    """A mean of values in [0, 1] with Wilson's score interval.

    Exact in form for 0/1 values. For other values in [0, 1] it is conservative, since their variance is at most that of
    0/1 values with the same mean.
    """
    if draws == 0:
        return Estimate(mean, 0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    denominator = 1 + z * z / draws
    centre = (mean + z * z / (2 * draws)) / denominator
    half = z * math.sqrt(max(0.0, mean * (1 - mean)) / draws + z * z / (4 * draws * draws)) / denominator
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
        half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(math.fsum(known)) / n
        below, above = max(below, half), max(above, half)
    return Estimate(value, value - below, value + above)


def variance_of_mean(values: Sequence[float]) -> float | None:
    """Of the mean of independent draws, estimated from them; None where there are fewer than two.

    >>> variance_of_mean([1.0, 0.0, 1.0, 0.0, 1.0]), variance_of_mean([1.0])
    (0.06, None)
    """
    return variance(values) / len(values) if len(values) > 1 else None


def student(value: float, error: float, freedom: float, confidence: float = CONFIDENCE) -> Estimate:
    """A value with Student's interval, from its standard error and degrees of freedom."""
    # Rounded, so that the quantile is mostly cached.
    half = t_quantile((1 + confidence) / 2, round(freedom, 1)) * error
    return Estimate(value, value - half, value + half)


def percentile_estimate(value: float, sample: Iterable[float], confidence: float = CONFIDENCE) -> Estimate:
    """A value with the middle part of a sample as its interval.

    >>> percentile_estimate(2.0, [3.0, 1.0, 2.0], 0.5)
    Estimate(value=2.0, low=1.5, high=2.5)
    """
    ordered = sorted(sample)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    tail = (1 - confidence) / 2
    return Estimate(value, at(tail), at(1 - tail))


def spread(values: Iterable[float]) -> Estimate:
    """The mean of a sample with the 2.5 and 97.5 percentiles of the sample itself."""
    sample = list(values)
    return percentile_estimate(fmean(sample), sample)


_IMPOSSIBLE = 1e-30


def probable_count(probabilities: Iterable[float], confidence: float = CONFIDENCE) -> Estimate:
    """How many of several independent events happen: their expected number with the interval of that number.

    >>> probable_count([1.0, 1.0, 0.0])
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    shares = list(probabilities)
    least, counts = 0, [1.0]  # P(least), P(least + 1), …: numbers that are all but impossible are left out
    for share in shares:
        counts = [a * (1 - share) + b * share for a, b in zip([*counts, 0.0], [0.0, *counts], strict=True)]
        while counts[0] < _IMPOSSIBLE:
            del counts[0]
            least += 1
        while counts[-1] < _IMPOSSIBLE:
            del counts[-1]

    def quantile(at: float) -> float:
        below = 0.0
        for number, mass in enumerate(counts, least):
            below += mass
            if below >= at - 1e-12:
                return float(number)
        return float(len(shares))

    tail = (1 - confidence) / 2
    return Estimate(math.fsum(shares), quantile(tail), quantile(1 - tail))


# Distributions


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's method for the continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-13:
            break
    return value


def t_cdf(x: float, df: float) -> float:
    """P(T <= x) for Student's t."""
    tail = beta_cdf(df / (df + x * x), df / 2, 0.5) / 2
    return 1 - tail if x > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """The inverse of `t_cdf`, by bisection."""
    if probability < 0.5:
        return -t_quantile(1 - probability, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < probability else (low, middle)
    return (low + high) / 2


# Ranks, correlation, overlap, the sign test


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Rank correlation with tied values at their mean rank; None where one side never varies.

    >>> spearman([1, 2, 3, 4], [10, 20, 20, 50])
    0.9486832980505138
    """
    return pearson(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, tied values at their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            out[order[place]] = (first + last) / 2 + 1
        first = last + 1
    return out


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's correlation; None where one side never varies."""
    if len(xs) < 2:
        return None
    mean_x, mean_y = fmean(xs), fmean(ys)
    spread_x, spread_y = sum((x - mean_x) ** 2 for x in xs), sum((y - mean_y) ** 2 for y in ys)
    if spread_x == 0 or spread_y == 0:
        return None
    return float(sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / (spread_x * spread_y) ** 0.5)


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
        quotients = [a / b for a, b in zip(x, y, strict=True) if b]
        usable = sum(below) and quotients
        estimates.append(bootstrap_estimate(sum(above) / sum(below), quotients) if usable else None)
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
    if not matrices:
        return []
    rows, places = len(matrices[0]), len(matrices[0][0])
    chance = Random(f"crossed/{seed}")
    means: list[list[float]] = [[] for _ in matrices]
    for _ in range(resamples):
        chosen = chance.choices(range(rows), k=rows)
        picked = chance.choices(range(places), k=places)
        for matrix, kept in zip(matrices, means, strict=True):
            total = sum(sum(map(matrix[row].__getitem__, picked)) for row in chosen)
            kept.append(total / (rows * places))
    return [
        bootstrap_estimate(fmean(fmean(row) for row in matrix), kept)
        for matrix, kept in zip(matrices, means, strict=True)
    ]


def bootstrap_estimate(value: float, resamples: Sequence[float]) -> Estimate:
    """A value with the percentile interval of its resamples."""
    exact = percentile_estimate(value, resamples)
    # Rounded, so that a sum of thirds which cancels out is zero and not nearly zero.
    return Estimate(value, round(exact.low, 10), round(exact.high, 10))


def resampled_means(vectors: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> list[list[float]]:
    """The means of each vector over resamples of its places, in the order of the resamples.

    Those of two vectors belong together, so whatever is computed from both (a ratio) has its resamples too.
    """
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
