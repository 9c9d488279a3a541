"""The posterior: how probable it is that a compaction was harmful, given a few draws.

It is integrated numerically, so that it is the same everywhere. The prior is not fitted to any run: it is read off
figures that the paper prints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import fmean

from recompact.outcome import ContinuationArm, Outcomes
from recompact.stats import beta_cdf, t_cdf, t_quantile

PUBLISHED = 608  # boundaries of the m = 9 diagnostics: AppWorld 197, OfficeBench 211, tau2 retail 200
SEVERE_HAZARD = 22 / PUBLISHED  # H >= 0.5: 11 + 4 + 7
SEVERE_BURDEN = 21 / PUBLISHED  # B >= 5: 12 + 7 + 2
ANY_BURDEN = 355 / PUBLISHED  # B > 0: 151 + 109 + 95
BASE_RATE = 1 - (1 - SEVERE_HAZARD) * (1 - SEVERE_BURDEN)  # of harmful compactions: 7 %
SUCCESS_PRIOR = (0.39, 0.076)  # of a beta distribution: see `success_prior`
BURDEN_FREEDOM = 3.0  # tails: 3 of 197 boundaries lie beyond ten steps
DISPERSION = 0.42  # variance over mean length, as within a task in the published three-seed runs on tau2 retail
DISPERSION_DRAWS = 2.0  # what the dispersion counts for: the draws themselves soon outweigh it
_CELLS = 50
_NODES = 200


@dataclass(frozen=True)
class Thresholds:
    """From where on an effect counts as harmful (tau_H, tau_B)."""

    hazard: float = 0.5
    burden: float = 5.0


PAPER = Thresholds()


@dataclass(frozen=True)
class Lengths:
    """The steps of one arm's draws, summarised: number, mean and sum of squared deviations."""

    draws: int
    mean: float
    squares: float  # sum of squared deviations

    @staticmethod
    def of(steps: Sequence[int]) -> Lengths:
        mean = fmean(steps)
        return Lengths(len(steps), mean, sum((s - mean) ** 2 for s in steps))

    @property
    def freedom(self) -> float:
        return DISPERSION_DRAWS + self.draws - 1

    @property
    def variance(self) -> float:
        """Of one draw, steadied by the prior."""
        return (DISPERSION_DRAWS * DISPERSION * max(1.0, self.mean) + self.squares) / self.freedom


def difference_of(pre: Lengths, post: Lengths) -> tuple[float, float, float]:
    """B with its standard error and Welch's degrees of freedom."""
    a, b = pre.variance / pre.draws, post.variance / post.draws
    freedom = (a + b) ** 2 / (a * a / pre.freedom + b * b / post.freedom)
    return post.mean - pre.mean, math.sqrt(a + b), freedom


def probability_harmful(outcomes: Outcomes, thresholds: Thresholds = PAPER, *, remaining: int | None = None) -> float:
    """P(H >= tau_H or B >= tau_B | outcomes); the arms may have any number of draws, also none.

    H and B are taken as independent: they are hardly correlated in the published diagnostics (Spearman 0.004, 0.102,
    -0.054).

    `remaining` is the number of steps that can still be taken at the boundary.
    """
    hazard = probability_hazard(
        [o.value for o in outcomes.pre.values()], [o.value for o in outcomes.post.values()], thresholds.hazard
    )
    burden = probability_burden(
        [o.steps for o in outcomes.pre.values()],
        [o.steps for o in outcomes.post.values()],
        thresholds.burden,
        remaining,
    )
    return 1 - (1 - hazard) * (1 - burden)


def probability_hazard(pre: Sequence[float], post: Sequence[float], threshold: float) -> float:
    """P(H >= tau_H | rewards). A reward between 0 and 1 counts as that share of a success."""
    return _hazard(sum(pre), len(pre) - sum(pre), sum(post), len(post) - sum(post), threshold)


@lru_cache(maxsize=65536)
def _hazard(pre_won: float, pre_lost: float, post_won: float, post_lost: float, threshold: float) -> float:
    state = _Rates.after(pre_won, pre_lost, post_won, post_lost)
    return changed_share() * _apart(state.pre, state.post, threshold) / (state.same + state.changed)


@dataclass(frozen=True)
class _Rates:
    """Unnormalised posterior weights of the success rates: of each arm by itself, and of both being one."""

    pre: tuple[float, ...]
    post: tuple[float, ...]
    both: tuple[float, ...]

    @staticmethod
    def after(pre_won: float, pre_lost: float, post_won: float, post_lost: float) -> _Rates:
        prior = success_prior()
        pre = tuple(weight * rate**pre_won * (1 - rate) ** pre_lost for rate, weight in prior)
        likelihood = tuple(rate**post_won * (1 - rate) ** post_lost for rate, _ in prior)
        post = tuple(weight * value for (_, weight), value in zip(prior, likelihood, strict=True))
        return _Rates(pre, post, tuple(a * b for a, b in zip(pre, likelihood, strict=True)))

    @property
    def same(self) -> float:
        return (1 - changed_share()) * sum(self.both)

    @property
    def changed(self) -> float:
        return changed_share() * sum(self.pre) * sum(self.post)

    def success(self, arm: ContinuationArm) -> float:
        """The probability that the next draw of an arm succeeds."""
        same = (1 - changed_share()) * _first_moment(self.both)
        own, other = (self.pre, self.post) if arm == "PRE" else (self.post, self.pre)
        return (same + changed_share() * _first_moment(own) * sum(other)) / (self.same + self.changed)


def _first_moment(weights: Sequence[float]) -> float:
    return sum(weight * rate for weight, (rate, _) in zip(weights, success_prior(), strict=True))


def doubt_after(pre: Sequence[float], post: Sequence[float], threshold: float, arm: ContinuationArm) -> float:
    """E[P (1 - P)] with P = P(H >= tau_H), once one more draw of the arm has come back."""
    return _doubt_after(sum(pre), len(pre) - sum(pre), sum(post), len(post) - sum(post), threshold, arm)


@lru_cache(maxsize=65536)
def _doubt_after(
    pre_won: float, pre_lost: float, post_won: float, post_lost: float, threshold: float, arm: ContinuationArm
) -> float:
    success = _Rates.after(pre_won, pre_lost, post_won, post_lost).success(arm)
    in_pre, in_post = (1, 0) if arm == "PRE" else (0, 1)
    won = _hazard(pre_won + in_pre, pre_lost, post_won + in_post, post_lost, threshold)
    lost = _hazard(pre_won, pre_lost + in_pre, post_won, post_lost + in_post, threshold)
    return success * won * (1 - won) + (1 - success) * lost * (1 - lost)


@cache
def success_prior() -> tuple[tuple[float, float], ...]:
    """Success rates with their prior weights, in cells of 2 %: no agent is taken to be surer than 99 %.

    The success rate from one state is mostly near 0 or near 1. Accuracy and Pass³ without compaction (0.841 and 0.786
    on 168 tasks, 0.821 and 0.758 on 95, 0.858 and 0.725 on 40) are the first and third moments of such rates, and give
    Beta(0.39, 0.076).
    """
    edges = [n / _CELLS for n in range(_CELLS + 1)]
    below = [beta_cdf(edge, *SUCCESS_PRIOR) for edge in edges]
    return tuple(((edges[n] + edges[n + 1]) / 2, below[n + 1] - below[n]) for n in range(_CELLS))


@cache
def changed_share() -> float:
    """The share of compactions that change the success rate.

    The others leave it as it is; these replace it by another one from the same prior, so often that H >= 0.5 has its
    published share.
    """
    weights = [weight for _, weight in success_prior()]
    return SEVERE_HAZARD / _apart(weights, weights, 0.5)


def _apart(pre: Sequence[float], post: Sequence[float], threshold: float) -> float:
    """The mass where PRE's cell lies at least the threshold above POST's; a cell just on it counts half."""
    cells = threshold * _CELLS
    whole = math.floor(cells + 1e-9)
    total = 0.0
    below = 0.0
    for n in range(whole, len(pre)):
        # Cells 0 … n-whole lie far enough below cell n; the nearest of them only in part.
        nearest = post[n - whole]
        total += pre[n] * (below + nearest * max(0.0, min(1.0, 0.5 - (cells - whole))))
        below += nearest
    return total


def probability_burden(
    pre: Sequence[int], post: Sequence[int], threshold: float, remaining: int | None = None
) -> float:
    """P(B >= tau_B | steps)."""
    if pre and remaining is not None and remaining - fmean(pre) < threshold:
        return 0.0
    if not pre or not post:
        return _prior_burden(threshold)
    return _burden(Lengths.of(pre), Lengths.of(post), threshold)


@lru_cache(maxsize=65536)
def _burden(pre: Lengths, post: Lengths, threshold: float) -> float:
    """Prior times likelihood, integrated over B = b + e sinh(u): fine around the estimate, yet reaching far."""
    estimate, error, freedom = difference_of(pre, post)
    location, scale = burden_prior()
    reach = math.asinh((abs(estimate) + 60) / error)
    step = 2 * reach / _NODES
    prior_power, power = -(BURDEN_FREEDOM + 1) / 2, -(freedom + 1) / 2
    total = above = 0.0
    for n in range(_NODES + 1):
        u = -reach + n * step
        away = math.sinh(u)
        b = estimate + error * away
        prior = (1 + ((b - location) / scale) ** 2 / BURDEN_FREEDOM) ** prior_power
        mass = prior * (1 + away * away / freedom) ** power * math.cosh(u)
        half = error * math.cosh(u) * step / 2
        total += mass
        above += mass * max(0.0, min(1.0, (b + half - threshold) / (2 * half)))
    return above / total


@cache
def burden_prior() -> tuple[float, float]:
    """Location and scale of the prior of B: a Student t through the published shares of B > 0 and B >= 5."""
    at_zero = t_quantile(1 - ANY_BURDEN, BURDEN_FREEDOM)
    at_five = t_quantile(1 - SEVERE_BURDEN, BURDEN_FREEDOM)
    scale = 5 / (at_five - at_zero)
    return -at_zero * scale, scale


def _prior_burden(threshold: float) -> float:
    location, scale = burden_prior()
    return 1 - t_cdf((threshold - location) / scale, BURDEN_FREEDOM)
