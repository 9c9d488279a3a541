"""The posterior: how probable it is that a compaction was harmful, given a few draws, and that a run has none at all.

It is summed over cells, so that it is the same everywhere. More harm in a draw (more steps after the compaction, a
failure instead of a success) never makes harm less probable, and no single draw makes it impossible. Whether a run is
without harm, two priors learned from it tell, one with harmful compactions and one without: each predicts the
boundaries of trajectories that it has not seen, and the better prediction is the more probable.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

from recompact.attribution.prior import (
    BOUNDARIES,
    DISPERSION,
    DISPERSION_DRAWS,
    FOLDS,
    Prior,
    added_steps,
    apart,
    burden_likelihood,
    cells,
    fit_cells,
    fold_of,
    likelihood,
    pooled_variance,
    published_prior,
    won_and_lost,
)
from recompact.values.outcome import PAPER, BoundaryId, ContinuationArm, Outcomes, Thresholds
from recompact.values.stats import newcombe, wilson

if TYPE_CHECKING:
    from recompact.values.stats import Array

    Number = float | Array


@dataclass(frozen=True)
class Lengths:
    """The steps of one arm's draws, summarised: number, mean and sum of squared deviations."""

    draws: int
    mean: float
    squares: float  # sum of squared deviations
    dispersion: float = DISPERSION  # variance over mean, before any of these draws

    @staticmethod
    def of(steps: Sequence[int], dispersion: float = DISPERSION) -> Lengths:
        mean = fmean(steps)
        return Lengths(len(steps), mean, sum((s - mean) ** 2 for s in steps), dispersion)

    @property
    def freedom(self) -> float:
        return DISPERSION_DRAWS + self.draws - 1

    @property
    def variance(self) -> float:
        """Of one draw, steadied by the prior."""
        return (DISPERSION_DRAWS * self.dispersion * max(1.0, self.mean) + self.squares) / self.freedom


def difference_of(pre: Lengths, post: Lengths) -> tuple[float, float, float]:
    """B with its standard error and Welch's degrees of freedom."""
    a, b = pre.variance / pre.draws, post.variance / post.draws
    freedom = (a + b) ** 2 / (a * a / pre.freedom + b * b / post.freedom)
    return post.mean - pre.mean, math.sqrt(a + b), freedom


def clearly_helped(pre: Sequence[float], post: Sequence[float]) -> bool:
    """Whether success rose with the compaction, by the interval of H. Steps that it added are then no harm."""
    return bool(pre and post) and helped_by_means(fmean(pre), len(pre), fmean(post), len(post))


@lru_cache(maxsize=65536)
def helped_by_means(pre: float, pre_draws: int, post: float, post_draws: int) -> bool:
    """`clearly_helped`, from the mean reward and the number of draws of each arm."""
    return newcombe(wilson(pre, pre_draws), wilson(post, post_draws)).high < 0


def probability_harmful(
    outcomes: Outcomes,
    thresholds: Thresholds = PAPER,
    *,
    remaining: int | None = None,
    prior: Prior | None = None,
) -> float:
    """P(H >= tau_H or B >= tau_B | outcomes); the arms may have any number of draws, including none.

    H and B are taken as independent: they are hardly correlated in the published diagnostics (Spearman 0.004, 0.102,
    -0.054). `remaining` is the number of steps that can still be taken at the boundary.
    """
    pre, post = ([o.value for o in arm] for arm in outcomes.arms)
    steps, post_steps = ([o.steps for o in arm] for arm in outcomes.arms)
    hazard = probability_hazard(pre, post, thresholds.hazard, prior)
    if clearly_helped(pre, post):
        return hazard
    burden = probability_burden(steps, post_steps, thresholds.burden, remaining, prior)
    return 1 - (1 - hazard) * (1 - burden)


def probability_hazard(
    pre: Sequence[float], post: Sequence[float], threshold: float, prior: Prior | None = None
) -> float:
    """P(H >= tau_H | rewards). A reward between 0 and 1 counts as that share of a success."""
    return _between(prior or published_prior(), sum(pre), len(pre), sum(post), len(post), threshold)


def _between(prior: Prior, pre_won: float, pre: int, post_won: float, post: int, threshold: float) -> float:
    """The posterior at whole successes, and proportionally in between."""
    low_pre, low_post = min(int(pre_won), pre), min(int(post_won), post)
    share_pre, share_post = pre_won - low_pre, post_won - low_post
    total = 0.0
    for won, weight in ((low_pre, 1 - share_pre), (low_pre + 1, share_pre)):
        for kept, other in ((low_post, 1 - share_post), (low_post + 1, share_post)):
            if weight * other > 0:
                total += weight * other * _hazard(prior, won, pre - won, kept, post - kept, threshold)
    return total


@lru_cache(maxsize=65536)
def _hazard(prior: Prior, pre_won: int, pre_lost: int, post_won: int, post_lost: int, threshold: float) -> float:
    """At least as probable as with less harm in the same draws.

    Without this, a failure after the compaction could be so much better evidence for an agent that fails anyway
    than for a loss that the latter became less probable.
    """
    import numpy as np

    won, lost = np.arange(pre_won + 1.0)[:, None, None], np.arange(post_lost + 1.0)[:, None]
    state = _Rates.after(prior, won, pre_won + pre_lost - won, post_won + post_lost - lost, lost)
    return float((prior.changed * apart(state.pre, state.post, threshold) / state.total).max())


@dataclass(frozen=True)
class _Rates:
    """Unnormalised posterior weights of the success rates: of each arm by itself, and of both being one."""

    prior: Prior
    pre: Array
    post: Array
    both: Array

    @staticmethod
    def after(prior: Prior, pre_won: Number, pre_lost: Number, post_won: Number, post_lost: Number) -> _Rates:
        after = likelihood(post_won, post_lost)
        pre = prior.rates * likelihood(pre_won, pre_lost)
        return _Rates(prior, pre, prior.rates * after, pre * after)

    @property
    def total(self) -> Array:
        changed = self.prior.changed
        mass: Array = (1 - changed) * self.both.sum(-1) + changed * self.pre.sum(-1) * self.post.sum(-1)
        return mass

    def success(self, arm: ContinuationArm) -> float:
        """The probability that the next draw of an arm succeeds."""
        rates, changed = cells().rates, self.prior.changed
        own, other = (self.pre, self.post) if arm == "PRE" else (self.post, self.pre)
        won = (1 - changed) * (self.both * rates).sum(-1) + changed * (own * rates).sum(-1) * other.sum(-1)
        return float(won / self.total)


def doubt_after(pre: Sequence[float], post: Sequence[float], threshold: float, arm: ContinuationArm) -> float:
    """E[P (1 - P)] with P = P(H >= tau_H), once one more draw of the arm has come back."""
    return _doubt_after(published_prior(), sum(pre), len(pre), sum(post), len(post), threshold, arm)


@lru_cache(maxsize=65536)
def _doubt_after(
    prior: Prior, pre_won: float, pre: int, post_won: float, post: int, threshold: float, arm: ContinuationArm
) -> float:
    success = _Rates.after(prior, pre_won, pre - pre_won, post_won, post - post_won).success(arm)
    in_pre, in_post = (1, 0) if arm == "PRE" else (0, 1)
    won = _between(prior, pre_won + in_pre, pre + in_pre, post_won + in_post, post + in_post, threshold)
    lost = _between(prior, pre_won, pre + in_pre, post_won, post + in_post, threshold)
    return success * won * (1 - won) + (1 - success) * lost * (1 - lost)


def probability_burden(
    pre: Sequence[int], post: Sequence[int], threshold: float, remaining: int | None = None, prior: Prior | None = None
) -> float:
    """P(B >= tau_B | steps).

    Where few steps remain, B can only reach the threshold if PRE's mean length leaves room for it; how probable that is
    depends on PRE's draws.
    """
    prior = prior or published_prior()
    room = 1.0
    if pre and remaining is not None:
        error = math.sqrt(prior.variance / len(pre))
        room = NormalDist(fmean(pre), error).cdf(remaining - threshold)
    if not pre or not post:
        return room * _above(prior.burdens, threshold)
    m, n = len(pre), len(post)
    return room * _burden(prior, (m * sum(post) - n * sum(pre)) / (m * n), m, n, threshold)


@lru_cache(maxsize=65536)
def _burden(prior: Prior, estimate: float, pre: int, post: int, threshold: float) -> float:
    after = burden_likelihood(estimate, pre, post, prior.variance)
    return _above(prior.burdens * after, threshold)


def _above(weights: Array, threshold: float) -> float:
    """The share of the weights at or above a number of steps; a cell that it divides counts in part."""
    low, high = cells().edges[:-1], cells().edges[1:]
    return float((weights * ((high - threshold) / (high - low)).clip(0.0, 1.0)).sum() / weights.sum())


NONE = 1 / (len(BOUNDARIES) + 2)  # before any draw: of the published benchmarks none was without harm (Laplace's rule)
WORTH = 10.0  # boundaries that the published figures count for here: a run unlike them must be able to say so
ROUNDS = 30  # of EM


def probability_none(outcomes: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> float:
    """P(no compaction reaches a threshold | draws)."""
    import numpy as np

    drawn = [id for id, own in outcomes.items() if own.pre and own.post]
    known = {id: outcomes[id] for id in sorted(drawn, key=lambda id: (id.unit, id.index))}
    if not known:
        return NONE
    start, rates = published_prior(), cells().rates
    folds = [fold_of(id) for id in known]

    successes = [won_and_lost(own) for own in known.values()]
    pre_won, pre_lost, post_won, post_lost = np.array(sorted(set(successes))).T[..., None]
    pairs = likelihood(pre_won, pre_lost)[:, :, None] * likelihood(post_won, post_lost)[:, None, :]
    both = (1 - start.changed) * np.diag(start.rates) + start.changed * np.outer(start.rates, start.rates)
    lost = (rates[:, None] - rates[None, :] >= thresholds.hazard - 1e-9).astype(float)
    gain = _gain(folds, successes, pairs.reshape(len(pairs), -1), both.ravel(), lost.ravel())

    added = [added_steps(own) for own in known.values()]
    estimates, pre, post = np.array(sorted(set(added))).T[..., None]
    variance = pooled_variance(start.variance, [arm.values() for own in known.values() for arm in (own.pre, own.post)])
    lengths = burden_likelihood(estimates, pre, post, variance)
    gain += _gain(folds, added, lengths, start.burdens, (cells().burdens >= thresholds.burden).astype(float))

    return 1 / (1 + (1 - NONE) / NONE * math.exp(min(700.0, -gain)))


def _gain(folds: Sequence[int], seen: Sequence[Hashable], likelihoods: Array, start: Array, harmful: Array) -> float:
    """By how much a prior without harm predicts better than one with it, as a difference of log-likelihoods.

    `likelihoods` has a row for each different thing that is seen, in ascending order.
    """
    import numpy as np

    places = {each: n for n, each in enumerate(sorted(set(seen)))}  # type: ignore[type-var]
    times = np.zeros((FOLDS, len(places)))
    for fold, each in zip(folds, seen, strict=True):
        times[fold, places[each]] += 1
    without = start * (1 - harmful)
    if not without.sum():
        return -math.inf
    difference = 0.0
    for own in times:
        predicted = [
            likelihoods @ fit_cells(likelihoods, times.sum(0) - own, each / each.sum(), WORTH, ROUNDS)
            for each in (without, start)
        ]
        difference += float(own @ (np.log(predicted[0]) - np.log(predicted[1])))
    return difference
