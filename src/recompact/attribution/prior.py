"""What is assumed about compactions before any draw, and what a run itself teaches about them.

It starts from figures that the paper prints. The run's own boundaries then move it (empirical Bayes, by EM): each
boundary is judged by what other trajectories teach, so that no draw counts twice. Nothing is random.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from recompact.models.journal import seed_of
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

if TYPE_CHECKING:
    from recompact.values.stats import Array

BOUNDARIES = (197, 211, 200)  # of the m = 9 diagnostics: AppWorld, OfficeBench, tau2 retail
PUBLISHED = sum(BOUNDARIES)
SEVERE_HAZARDS = (11, 4, 7)  # H >= 0.5
SEVERE_BURDENS = (12, 7, 2)  # B >= 5
SEVERE_HAZARD = sum(SEVERE_HAZARDS) / PUBLISHED
SEVERE_BURDEN = sum(SEVERE_BURDENS) / PUBLISHED
ANY_BURDEN = 355 / PUBLISHED  # B > 0: 151 + 109 + 95
SUCCESS_PRIOR = (0.39, 0.076)  # of a beta distribution: see `published_prior`
TASKS = (168, 95, 40)  # that it was read off
BURDEN_FREEDOM = 3.0  # tails: 3 of 197 boundaries lie beyond ten steps
DISPERSION = 0.42  # variance over mean length, as within a task in the published three-seed runs on tau2 retail
DISPERSION_DRAWS = 2.0  # how many the dispersion counts for: the draws themselves soon outweigh it
LENGTH = 17.0  # mean steps with the initial prompt on AppWorld

FOLDS = 5
ROUNDS = 10  # of EM; from a start that is worth a benchmark there is not far to go
_CELLS = 50  # of success rates, 2 % each
_WIDENING = 42  # cells of added steps on either side of zero
_SEVERE = 12  # of those on the upper side lie below 5


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that weights are summed over."""

    rates: Array  # success rates, at the middle of each cell: no agent is taken to be surer than 99 %
    edges: Array  # of added steps, widening on both sides, up to 70; 0 and 5 are among them

    @property
    def burdens(self) -> Array:
        """Added steps at the middle of each cell."""
        return (self.edges[:-1] + self.edges[1:]) / 2


@cache
def cells() -> Cells:
    import numpy as np

    edges = np.sinh(np.arange(-_WIDENING, _WIDENING + 1) / _SEVERE)
    return Cells(np.arange(1, 2 * _CELLS, 2) / (2 * _CELLS), 5 * edges / edges[_WIDENING + _SEVERE])


@dataclass(frozen=True, eq=False)
class Prior:
    """Weights of success rates and of added steps, the share of compactions that change the success rate (to another
    one with the same weights), and how much the lengths of continuations vary: the variance of one, and the variance
    over the mean within an arm."""

    rates: Array
    changed: float
    burdens: Array
    variance: float
    dispersion: float = DISPERSION


@cache
def published_prior() -> Prior:
    """The prior before any boundary of a run is known.

    The success rate from one state is mostly near 0 or near 1. Accuracy and Pass³ without compaction (0.841 and 0.786
    on 168 tasks, 0.821 and 0.758 on 95, 0.858 and 0.725 on 40) are the first and third moments of such rates, and give
    Beta(0.39, 0.076). The share of compactions that change the rate is such that H >= 0.5 has its published
    share. B is a Student t through the published shares of B > 0 and B >= 5.
    """
    import numpy as np
    from scipy.special import betainc, stdtr, stdtrit

    rates = np.diff(betainc(*SUCCESS_PRIOR, np.arange(_CELLS + 1) / _CELLS))
    at_zero, at_five = stdtrit(BURDEN_FREEDOM, [1 - ANY_BURDEN, 1 - SEVERE_BURDEN])
    scale = 5 / (at_five - at_zero)
    inner = stdtr(BURDEN_FREEDOM, cells().edges[1:-1] / scale + at_zero)
    burdens = np.diff(inner, prepend=0.0, append=1.0)
    return Prior(rates, SEVERE_HAZARD / float(apart(rates, rates, 0.5)), burdens, DISPERSION * LENGTH)


def apart(pre: Array, post: Array, threshold: float) -> Array:
    """The mass where PRE's rate lies at least the threshold above POST's; a cell just on it counts half."""
    steps = threshold * _CELLS
    whole = math.floor(steps + 1e-9)
    # Cells 0 … n-whole lie far enough below cell n; the nearest of them only in part.
    nearest = post[..., : max(0, _CELLS - whole)]
    below = nearest.cumsum(-1) - nearest
    mass: Array = (pre[..., whole:] * (below + nearest * max(0.0, min(1.0, 0.5 - (steps - whole))))).sum(-1)
    return mass


@dataclass(frozen=True)
class LearnedPriors:
    """For each fifth of the trajectories, the prior that the others teach."""

    folds: tuple[Prior, ...]

    def of(self, boundary: BoundaryId) -> Prior:
        return self.folds[fold_of(boundary)]


def learn_priors(outcomes: Mapping[BoundaryId, Outcomes]) -> LearnedPriors:
    """What the boundaries of a run teach, the published figures counting as much as one benchmark of the paper.

    How much that is follows from how far the three published benchmarks lie apart: some 200 boundaries for H, 70 for B.
    """
    drawn = {boundary: own for boundary, own in outcomes.items() if own.pre or own.post}
    folds: list[list[Outcomes]] = [[] for _ in range(FOLDS)]
    for boundary in sorted(drawn):
        folds[fold_of(boundary)].append(drawn[boundary])
    return LearnedPriors(
        tuple(_fit_prior([own for m, fold in enumerate(folds) if m != n for own in fold]) for n in range(FOLDS))
    )


def fold_of(boundary: BoundaryId) -> int:
    """By trajectory: its boundaries have draws in common where they are chained."""
    return seed_of(f"prior/{boundary.unit}") % FOLDS


def _fit_prior(known: Sequence[Outcomes]) -> Prior:
    start = published_prior()
    if not known:
        return start
    rates, changed = _fitted_rates(start, Counter(won_and_lost(own) for own in known))
    variance = pooled_variance(start.variance, [arm for own in known for arm in (own.pre.values(), own.post.values())])
    pairs = Counter(added_steps(own) for own in known if own.pre and own.post)
    return Prior(rates, changed, _fitted_burdens(start, pairs, variance), variance, pooled_dispersion(known))


def won_and_lost(outcomes: Outcomes) -> tuple[float, float, float, float]:
    """Successes and failures of PRE, then of POST. A reward between 0 and 1 counts as that share of a success."""
    pre, post = (sum(o.value for o in arm.values()) for arm in (outcomes.pre, outcomes.post))
    return pre, len(outcomes.pre) - pre, post, len(outcomes.post) - post


def added_steps(outcomes: Outcomes) -> tuple[float, int, int]:
    """B with the draws of each arm."""
    (pre, m), (post, n) = ((sum(o.steps for o in arm.values()), len(arm)) for arm in (outcomes.pre, outcomes.post))
    return (m * post - n * pre) / (m * n), m, n


def _fitted_rates(start: Prior, known: Mapping[tuple[float, float, float, float], int]) -> tuple[Array, float]:
    """EM over success rates and the share of changes."""
    import numpy as np

    pre_won, pre_lost, post_won, post_lost = np.array(list(known)).T[..., None]  # a row for each boundary
    before, after = likelihood(pre_won, pre_lost), likelihood(post_won, post_lost)
    times = np.array(list(known.values()))[:, None]
    of_rates, of_changes = sum(TASKS) / len(TASKS), _worth(SEVERE_HAZARDS)
    rates, changed = start.rates, start.changed
    for _ in range(ROUNDS):
        pre, post = rates * before, rates * after
        both = (1 - changed) * pre * after
        mass_pre, mass_post = pre.sum(1, keepdims=True), post.sum(1, keepdims=True)
        other = changed * mass_pre * mass_post
        share = times / (both.sum(1, keepdims=True) + other)
        weights = of_rates * start.rates
        weights += (share * (both + changed * (pre * mass_post + post * mass_pre))).sum(0)
        rates = weights / weights.sum()
        changed = (of_changes * start.changed + float((share * other).sum())) / (of_changes + int(times.sum()))
    return rates, changed


def _fitted_burdens(start: Prior, known: Mapping[tuple[float, int, int], int], variance: float) -> Array:
    """EM over added steps."""
    import numpy as np

    if not known:
        return start.burdens
    estimates, pre, post = np.array(list(known)).T[..., None]
    likelihoods = burden_likelihood(estimates, pre, post, variance)
    return fit_cells(likelihoods, np.array(list(known.values())), start.burdens, _worth(SEVERE_BURDENS), ROUNDS)


def fit_cells(likelihoods: Array, times: Array, start: Array, worth: float, rounds: int) -> Array:
    """The weights of cells that EM learns from what was seen so many times, where the start counts as much as `worth`
    of it."""
    weights = start
    for _ in range(rounds):
        joint = weights * likelihoods
        learned = worth * start + (joint * times[:, None] / joint.sum(1, keepdims=True)).sum(0)
        weights = learned / learned.sum()
    return weights


def likelihood(won: float | Array, lost: float | Array) -> Array:
    """Of these successes and failures at each success rate."""
    rates = cells().rates
    product: Array = rates**won * (1 - rates) ** lost
    return product


def burden_likelihood(estimate: float | Array, pre: float | Array, post: float | Array, variance: float) -> Array:
    """Of an estimate of B at each number of added steps, the highest being 1.

    The variance is not the boundary's own: otherwise one very long draw would count as noise, and speak against harm.
    """
    import numpy as np

    exponents = -((estimate - cells().burdens) ** 2) / (2 * variance * (1 / pre + 1 / post))
    likelihoods: Array = np.exp(exponents - exponents.max(-1, keepdims=True))
    return likelihoods


def pooled_variance(start: float, arms: Iterable[Iterable[Outcome]]) -> float:
    """Of the length of one draw, within an arm."""
    squares, freedom = DISPERSION_DRAWS * start, DISPERSION_DRAWS
    for arm in arms:
        steps = [o.steps for o in arm]
        if len(steps) > 1:
            mean = sum(steps) / len(steps)
            squares += sum((s - mean) ** 2 for s in steps)
            freedom += len(steps) - 1
    return squares / freedom


def pooled_dispersion(known: Sequence[Outcomes]) -> float:
    """Of the lengths within an arm, of draws that did not run out of steps.

    Where no arm has two of them, the two arms of a boundary stand in: what a compaction adds makes that too large.
    """
    ended = [[[o.steps for o in arm.values() if not o.ran_out] for arm in (own.pre, own.post)] for own in known]
    arms = [steps for both in ended for steps in both if len(steps) > 1]
    arms = arms or [pre + post for pre, post in ended if pre and post]
    squares, freedom = DISPERSION_DRAWS * DISPERSION, DISPERSION_DRAWS
    for steps in arms:
        mean = sum(steps) / len(steps)
        squares += sum((s - mean) ** 2 for s in steps) / max(1.0, mean)
        freedom += len(steps) - 1
    return squares / freedom


def _worth(severe: Sequence[int]) -> float:
    """How many boundaries a published share is worth for another run, by the method of moments.

    >>> round(_worth(SEVERE_HAZARDS)), round(_worth(SEVERE_BURDENS))
    (204, 68)
    """
    shares = [count / size for count, size in zip(severe, BOUNDARIES, strict=True)]
    mean = sum(severe) / PUBLISHED
    variance = sum((share - mean) ** 2 for share in shares) / (len(shares) - 1)
    by_chance = mean * (1 - mean) * sum(1 / size for size in BOUNDARIES) / len(BOUNDARIES)
    return mean * (1 - mean) / (variance - by_chance) - 1
