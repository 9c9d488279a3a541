"""The effect of one compaction: success lost (H), steps added (B), their intervals, and whether it counts as harmful.

Nothing is random here. The posterior is worked out in `recompact.attribution.posterior`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import hypot
from statistics import fmean

from recompact.attribution.posterior import Lengths, clearly_helped, difference_of, probability_harmful
from recompact.attribution.prior import DISPERSION, Prior
from recompact.values.outcome import PAPER, BoundaryId, Channel, Effect, Outcome, Outcomes, Thresholds, exact
from recompact.values.stats import Estimate, newcombe, student, variance_of_mean, wilson


def effect_of(
    outcomes: Outcomes,
    thresholds: Thresholds = PAPER,
    *,
    remaining: int | None = None,
    prior: Prior | None = None,
) -> Effect | None:
    """The effect at one boundary, or None where an arm has no draw yet.

    `remaining` is the number of steps that could still be taken at the boundary; `prior` is the published one where
    none is given.
    """
    pre, post = outcomes.arms
    if not pre or not post:
        return None
    hazard, burden = hazard_and_burden(pre, post)
    return Effect(
        hazard_estimate=replace(hazard_estimate(pre, post), value=float(hazard)),
        burden_estimate=replace(
            burden_estimate(pre, post, prior.dispersion if prior else DISPERSION), value=float(burden)
        ),
        pre=len(pre),
        post=len(post),
        p_harmful=probability_harmful(outcomes, thresholds, remaining=remaining, prior=prior),
        score=float(harm_score(hazard, burden, thresholds)),
        channel=channel_by_draws(pre, post, thresholds),
        hazard_variance=_hazard_variance(pre, post),
    )


def _hazard_variance(pre: Sequence[Outcome], post: Sequence[Outcome]) -> float | None:
    arms = [variance_of_mean([o.value for o in arm]) for arm in (pre, post)]
    return sum(each for each in arms if each is not None) if None not in arms else None


def compaction_helped(pre: Sequence[Outcome], post: Sequence[Outcome]) -> bool:
    """Whether success rose with the compaction, by the interval of H: it is no evidence of harm, whatever B says."""
    return clearly_helped([o.value for o in pre], [o.value for o in post])


def effects_of(outcomes: Mapping[BoundaryId, Outcomes], thresholds: Thresholds = PAPER) -> dict[BoundaryId, Effect]:
    """The effects of all boundaries that have a draw in both arms."""
    effects = {boundary: effect_of(own, thresholds) for boundary, own in outcomes.items()}
    return {boundary: effect for boundary, effect in effects.items() if effect is not None}


def hazard_and_burden(pre: Sequence[Outcome], post: Sequence[Outcome]) -> tuple[Fraction, Fraction]:
    """H, the mean reward of PRE minus that of POST, and B, the mean steps of POST minus those of PRE.

    Exact: in floats, 61/3 - 46/3 is less than 5.
    """
    m, n = len(pre), len(post)
    lost = n * _total_value(pre) - m * _total_value(post)
    added = m * sum([o.steps for o in post]) - n * sum([o.steps for o in pre])
    return Fraction(lost, m * n), Fraction(added, m * n)


def _total_value(outcomes: Sequence[Outcome]) -> int | Fraction:
    """Most rewards are 0 or 1, and whole numbers are added much faster than fractions."""
    total = sum([o.value for o in outcomes if o.value in (0.0, 1.0)])
    return int(total) + sum([exact(o.value) for o in outcomes if o.value not in (0.0, 1.0)])


def harm_score(hazard: float | Fraction, burden: float | Fraction, thresholds: Thresholds = PAPER) -> Fraction:
    """The normalised harm score s_t = max(H / tau_H, B / tau_B): 1 or more is harmful.

    >>> harm_score(0.25, 4.0)
    Fraction(4, 5)
    """
    return max(_fraction(hazard) / exact(thresholds.hazard), _fraction(burden) / exact(thresholds.burden))


def _fraction(number: float | Fraction) -> Fraction:
    return number if isinstance(number, Fraction) else exact(number)


def channel_of(hazard: float | Fraction, burden: float | Fraction, thresholds: Thresholds = PAPER) -> Channel:
    """In which way a compaction did harm.

    >>> channel_of(2 / 3, 1.0), channel_of(1 / 3, 5.0), channel_of(1.0, 9.0), channel_of(1 / 3, 4.9)
    ('error', 'burden', 'both', 'none')
    """
    lost = _fraction(hazard) >= exact(thresholds.hazard)
    added = _fraction(burden) >= exact(thresholds.burden)
    if lost and added:
        return "both"
    return "error" if lost else "burden" if added else "none"


def channel_by_draws(pre: Sequence[Outcome], post: Sequence[Outcome], thresholds: Thresholds = PAPER) -> Channel:
    """In which way a compaction did harm by these draws: in none where it clearly helped."""
    if compaction_helped(pre, post):
        return "none"
    return channel_of(*hazard_and_burden(pre, post), thresholds)


def hazard_estimate(pre: Sequence[Outcome], post: Sequence[Outcome]) -> Estimate:
    """H with Newcombe's interval for a difference of proportions.

    Rewards between 0 and 1 are treated by the same formula, which is conservative for them (see `wilson`).
    """
    return newcombe(*(wilson(fmean(o.value for o in arm), len(arm)) for arm in (pre, post)))


def burden_estimate(pre: Sequence[Outcome], post: Sequence[Outcome], dispersion: float = DISPERSION) -> Estimate:
    """B with Welch's interval, each arm's variance steadied by what is known of other draws (`dispersion`).

    Without that, one draw would have no interval, and three equal lengths one of width zero. How long a draw that ran
    out of steps would have been is not known: such draws are an event of their own, and the interval covers the share
    of them that either arm may have.
    """
    ended = [[o.steps for o in arm if not o.ran_out] or [o.steps for o in arm] for arm in (pre, post)]
    value, error, freedom = difference_of(*(Lengths.of(steps, dispersion) for steps in ended))
    within = student(value, error, freedom)
    limit = max((o.steps for arm in (pre, post) for o in arm if o.ran_out), default=None)
    if limit is None:
        return within
    value = fmean(o.steps for o in post) - fmean(o.steps for o in pre)
    half = within.high - within.value
    before, after = (_running_out(arm, limit) for arm in (pre, post))
    return Estimate(value, value - hypot(half, after[0], before[1]), value + hypot(half, after[1], before[0]))


def _running_out(arm: Sequence[Outcome], limit: int) -> tuple[float, float]:
    """By how much an arm's mean length may lie below and above the observed one, if its draws run out of steps less or
    more often than these did."""
    ended = [o.steps for o in arm if not o.ran_out]
    share = wilson(1 - len(ended) / len(arm), len(arm))
    longer = limit - (fmean(ended) if ended else 1.0)
    return longer * (share.value - share.low), longer * (share.high - share.value)


def first_draws(outcomes: Outcomes, draws: int) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]] | None:
    """The outcomes of draws 0 … draws-1 in both arms, or None where one is missing."""
    pre, post = outcomes.pre, outcomes.post
    try:
        return tuple([pre[n] for n in range(draws)]), tuple([post[n] for n in range(draws)])
    except KeyError:
        return None


def equal_draws(outcomes: Mapping[BoundaryId, Outcomes]) -> tuple[int, dict[BoundaryId, Outcomes]]:
    """How many draws every boundary has in each arm, from the first one on, and those draws; nothing where it is none.

    Figures about all boundaries have to rest on these. Where outcomes decide who gets more draws (halving, racing), a
    mean over all draws is biased: what looked harmful by chance is drawn again and corrected, the opposite is not.
    """
    most = min((_in_a_row(arm) for own in outcomes.values() for arm in (own.pre, own.post)), default=0)
    if not most:
        return 0, {}
    return most, {id: Outcomes(_first(own.pre, most), _first(own.post, most)) for id, own in outcomes.items()}


def _in_a_row(draws: Mapping[int, Outcome]) -> int:
    """How many draws there are before the first one that is missing."""
    numbers = set(draws)
    return next(number for number in range(len(numbers) + 1) if number not in numbers)


def _first(draws: Mapping[int, Outcome], number: int) -> Mapping[int, Outcome]:
    return draws if len(draws) == number else {n: draws[n] for n in range(number)}


def most_harmful_first(scores: Mapping[BoundaryId, float | Fraction]) -> list[BoundaryId]:
    """By descending score; ties in the order of their names."""
    return sorted(scores, key=lambda boundary: (-scores[boundary], boundary))
