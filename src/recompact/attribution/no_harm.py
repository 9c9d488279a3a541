"""How probable it is that a run has no harmful compaction at all, although draws make some look harmful.

Two priors are learned from the run, one with harmful compactions and one without; each predicts the boundaries of
trajectories that it has not seen, and the better prediction is the more probable.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from recompact.attribution.prior import (
    BOUNDARIES,
    FOLDS,
    added_steps,
    burden_likelihood,
    cells,
    fold_of,
    likelihood,
    pooled_variance,
    published_prior,
    won_and_lost,
)
from recompact.values.effect import PAPER, Thresholds
from recompact.values.outcome import BoundaryId, Outcomes

if TYPE_CHECKING:
    from recompact.values.stats import Array

NONE = 1 / (len(BOUNDARIES) + 2)  # before any draw: of the published benchmarks none was without harm (Laplace's rule)
WORTH = 10.0  # boundaries that the published figures count for here: a run unlike them must be able to say so
ROUNDS = 30  # of EM


def probability_none(outcomes: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> float:
    """P(no compaction reaches a threshold | draws)."""
    import numpy as np

    known = {id: outcomes[id] for id in sorted(outcomes) if outcomes[id].pre and outcomes[id].post}
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
            likelihoods @ _fit(likelihoods, times.sum(0) - own, each / each.sum()) for each in (without, start)
        ]
        difference += float(own @ (np.log(predicted[0]) - np.log(predicted[1])))
    return difference


def _fit(likelihoods: Array, times: Array, start: Array) -> Array:
    """The weights of cells that EM learns from what was seen so many times."""
    weights = start
    for _ in range(ROUNDS):
        joint = likelihoods * weights
        learned = WORTH * start + (joint * (times / joint.sum(1))[:, None]).sum(0)
        weights = learned / learned.sum()
    return weights
