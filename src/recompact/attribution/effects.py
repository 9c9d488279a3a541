"""What one compaction did: success lost (H), steps added (B), how sure that is, and whether it counts as harmful.

Comes in: the outcomes of a boundary's continuations in both arms. Goes out: an `Effect`. Nothing is random here; the
posterior is worked out in `recompact.attribution.posterior`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from recompact.attribution.distributions import t_quantile, wilson
from recompact.attribution.posterior import PAPER, Lengths, Thresholds, difference_of, probability_harmful
from recompact.outcome import BoundaryId, Outcome, Outcomes

Channel = Literal["error", "burden", "both", "none"]


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Effect:
    """The effect of one compaction, estimated.

    `hazard` (H) is the mean reward of PRE minus that of POST, `burden` (B) the mean steps of POST minus those of PRE,
    each over all draws of its arm, as in the paper; the arms need not have equally many.
    """

    hazard: float
    burden: float
    pre: int  # draws in that arm
    post: int
    hazard_interval: Interval
    burden_interval: Interval
    harmful: float  # P(H >= tau_H or B >= tau_B | outcomes)
    score: float
    channel: Channel

    @property
    def selected(self) -> bool:
        """Whether the estimates meet a threshold: the paper's criterion."""
        return self.channel != "none"


def effect_of(
    outcomes: Outcomes, thresholds: Thresholds = PAPER, *, remaining: int | None = None, confidence: float = 0.95
) -> Effect | None:
    """The effect at one boundary, or None where an arm has no draw yet. `remaining`: steps left at the boundary."""
    pre, post = tuple(outcomes.pre.values()), tuple(outcomes.post.values())
    if not pre or not post:
        return None
    hazard, burden = estimate(pre, post)
    return Effect(
        hazard=hazard,
        burden=burden,
        pre=len(pre),
        post=len(post),
        hazard_interval=hazard_interval(pre, post, confidence),
        burden_interval=burden_interval(pre, post, confidence),
        harmful=probability_harmful(outcomes, thresholds, remaining=remaining),
        score=harm_score(hazard, burden, thresholds),
        channel=channel_of(hazard, burden, thresholds),
    )


def effects_of(known: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> dict[BoundaryId, Effect]:
    """The effects of all boundaries that have a draw in both arms."""
    found = {boundary: effect_of(outcomes, thresholds) for boundary, outcomes in known.items()}
    return {boundary: effect for boundary, effect in found.items() if effect is not None}


def estimate(pre: Sequence[Outcome], post: Sequence[Outcome]) -> tuple[float, float]:
    """H and B from the draws of the two arms."""
    # Plain sums: allocations ask for this very often.
    hazard = sum([o.value for o in pre]) / len(pre) - sum([o.value for o in post]) / len(post)
    burden = sum([o.steps for o in post]) / len(post) - sum([o.steps for o in pre]) / len(pre)
    return hazard, burden


def harm_score(hazard: float, burden: float, thresholds: Thresholds = PAPER) -> float:
    """The normalised harm score s_t = max(H / tau_H, B / tau_B): 1 or more is harmful.

    >>> harm_score(0.25, 4.0)
    0.8
    """
    return max(hazard / thresholds.hazard, burden / thresholds.burden)


def channel_of(hazard: float, burden: float, thresholds: Thresholds = PAPER) -> Channel:
    """In which way a compaction did harm.

    >>> channel_of(2 / 3, 1.0), channel_of(1 / 3, 5.0), channel_of(1.0, 9.0), channel_of(1 / 3, 4.9)
    ('error', 'burden', 'both', 'none')
    """
    lost, added = hazard >= thresholds.hazard, burden >= thresholds.burden
    if lost and added:
        return "both"
    return "error" if lost else "burden" if added else "none"


def hazard_interval(pre: Sequence[Outcome], post: Sequence[Outcome], confidence: float = 0.95) -> Interval:
    """Newcombe's hybrid score interval for a difference of proportions.

    Rewards between 0 and 1 are treated by the same formula, which is conservative for them (see `wilson`).
    """
    p, q = fmean(o.value for o in pre), fmean(o.value for o in post)
    low_p, high_p = wilson(p, len(pre), confidence)
    low_q, high_q = wilson(q, len(post), confidence)
    return Interval(p - q - math.hypot(p - low_p, high_q - q), p - q + math.hypot(high_p - p, q - low_q))


def burden_interval(pre: Sequence[Outcome], post: Sequence[Outcome], confidence: float = 0.95) -> Interval:
    """Welch's interval, with each arm's variance steadied by the prior of `recompact.attribution.posterior`.

    Without that, one draw would have no interval, and three equal lengths one of width zero.
    """
    difference, error, freedom = difference_of(lengths(pre), lengths(post))
    half = t_quantile((1 + confidence) / 2, round(freedom, 1)) * error
    return Interval(difference - half, difference + half)


def lengths(outcomes: Iterable[Outcome]) -> Lengths:
    """What the steps of one arm come to."""
    return Lengths.of([o.steps for o in outcomes])


def first_draws(outcomes: Outcomes, draws: int) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]] | None:
    """The outcomes of draws 0 … draws-1 in both arms, or None where one is missing."""
    pre, post = outcomes.pre, outcomes.post
    try:
        return tuple([pre[n] for n in range(draws)]), tuple([post[n] for n in range(draws)])
    except KeyError:
        return None


def most_harmful_first(
    scores: Mapping[BoundaryId, float],
) -> list[BoundaryId]:
    """In falling order of harm; equal ones in order of their names."""
    return sorted(scores, key=lambda boundary: (-scores[boundary], boundary))
