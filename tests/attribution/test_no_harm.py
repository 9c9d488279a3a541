"""A run may turn out to have no harmful compaction, however many were retained."""

from __future__ import annotations

from random import Random

import pytest
from attribution_support import arm, boundary
from hypothesis import given, settings, strategies as st

from recompact.attribution.effects import effect_of
from recompact.attribution.posterior import NONE, probability_none
from recompact.attribution.prior import learn_priors
from recompact.values.outcome import BoundaryId, Outcomes, Thresholds
from recompact.values.stats import probable_count


def run(chance: Random, pre: float, post: float, added: float, harmful: int = 0) -> dict[BoundaryId, Outcomes]:
    """Forty boundaries with three draws; so many of them lose all their success."""

    def draws(rate: float, mean: float) -> list[tuple[float, int]]:
        return [(float(chance.random() < rate), max(1, round(chance.gauss(mean, 2)))) for _ in range(3)]

    known = {}
    for number in range(40):
        own = (0.98, 0.02, 0.0) if number < harmful else (pre, post, added)
        known[boundary(number)] = Outcomes(arm(*draws(own[0], 12)), arm(*draws(own[1], 12 + own[2])))
    return known


def test_where_nothing_is_harmful_the_count_includes_none() -> None:
    """H is 0.4 and B is 4 at every boundary: many look harmful, and none is."""
    for seed in range(8):
        known = run(Random(seed), 0.8, 0.4, 4.0)
        priors = learn_priors(known)
        every = [effect_of(own, prior=priors.of(id)) for id, own in known.items()]
        shares = [effect.p_harmful for effect in every if effect and effect.selected]
        assert probable_count(shares).low > 0
        assert probable_count(shares, none=probability_none(known)).low == 0


def test_harm_that_shows_leaves_no_doubt() -> None:
    known = run(Random(1), 0.95, 0.95, 0.0, harmful=8)
    assert probability_none(known) < 0.005
    assert probability_none(known, Thresholds(0.5, 5.0)) < probability_none(run(Random(1), 0.95, 0.95, 0.0))


def test_without_draws_only_what_was_published_is_known() -> None:
    assert probability_none({}) == NONE
    assert probability_none({boundary(1): Outcomes(arm((1.0, 5)))}) == NONE


@settings(max_examples=15)
@given(st.integers(0, 100), st.floats(0.01, 1.0), st.floats(0.01, 60.0))
def test_it_is_a_probability_and_the_order_of_boundaries_does_not_matter(
    seed: int, hazard: float, burden: float
) -> None:
    known = dict(list(run(Random(seed), 0.7, 0.5, 2.0).items())[:6])
    thresholds = Thresholds(hazard, burden)
    value = probability_none(known, thresholds)
    assert 0 <= value <= 1
    assert value == probability_none(dict(reversed(known.items())), thresholds)


def test_nothing_seen_to_matter_leaves_the_odds_as_they_were() -> None:
    """Thresholds that no cell reaches say nothing either way, so the published odds stand."""
    known = dict(list(run(Random(3), 0.9, 0.9, 0.0).items())[:5])
    assert probability_none(known, Thresholds(1.5, 10_000.0)) == pytest.approx(NONE)
