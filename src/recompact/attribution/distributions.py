"""The few distributions that effects need, without a numerical library: Wilson's interval, Student's t, the beta.

Numbers in, numbers out; everything is deterministic.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist


def wilson(mean: float, draws: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a mean of values in [0, 1].

    Exact in form for 0/1 values. For other values in [0, 1] it is conservative, since their variance is at most that of
    0/1 values with the same mean.
    """
    if draws == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    denominator = 1 + z * z / draws
    centre = (mean + z * z / (2 * draws)) / denominator
    half = z * math.sqrt(max(0.0, mean * (1 - mean)) / draws + z * z / (4 * draws * draws)) / denominator
    # Rounding must not push the interval past the mean itself at 0 and 1.
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


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
