from __future__ import annotations

import pytest
from attribution_support import outcomes, random_pool
from scipy import stats
from sentences import numbers_in

from recompact.attribution.effects import effects_of
from recompact.attribution.means import counts, coupling, unequal_note
from recompact.values.outcome import BoundaryId, Thresholds


def test_counts_by_outcome_of_the_trajectory() -> None:
    def at(unit: str, index: int) -> BoundaryId:
        return BoundaryId(unit, index)

    known = {
        at("failed", 1): outcomes((1, 5, 0, 5)),  # H = 1
        at("failed", 2): outcomes((0, 5, 1, 16)),  # H = -1, B = 11
        at("failed", 3): outcomes((1, 5, 0, 4)),  # H = 1
        at("passed", 1): outcomes((1, 5, 1, 5)),  # nothing
        at("passed", 2): outcomes((1, 5, 1, 10)),  # B = 5
    }
    everything, failed, successful = counts(effects_of(known), {"failed": False, "passed": True, "without": True})
    assert (everything.group, everything.trajectories, everything.boundaries) == ("all", 3, 5)
    assert (failed.trajectories, successful.trajectories) == (1, 2)
    assert (failed.unchanged, failed.reduced, failed.improved) == (0, 2, 1)
    assert (failed.severe_hazard, failed.severe_burden, failed.twice_severe_burden, failed.harmful) == (2, 1, 1, 3)
    assert failed.trajectories_with_reduced == 1
    assert (successful.unchanged, successful.longer, successful.harmful) == (2, 1, 1)
    assert (successful.trajectories_with_reduced, successful.trajectories_with_harmful) == (0, 1)
    assert everything.harmful == failed.harmful + successful.harmful


def test_a_compaction_that_clearly_helped_is_longer_and_not_harmful() -> None:
    known = {BoundaryId("t", 1): outcomes(*[(0, 5, 1, 20)] * 3), BoundaryId("t", 2): outcomes((0, 5, 1, 20))}
    effects = effects_of(known)
    everything, _, _ = counts(effects, {"t": True})
    assert (everything.severe_burden, everything.harmful) == (2, 1)  # one draw is not clear
    assert everything.harmful == sum(effect.selected for effect in effects.values())


def test_coupling_beside_scipy() -> None:
    effects = list(effects_of(random_pool(80, 3, seed=6)).values())
    theirs = stats.spearmanr([e.hazard for e in effects], [e.burden for e in effects]).statistic
    assert coupling(effects) == pytest.approx(float(theirs))


def test_effects_count_from_their_thresholds_on() -> None:
    known = {
        BoundaryId("t", 1): outcomes((1, 5, 0.5, 5)),  # H = 0.5
        BoundaryId("t", 2): outcomes((1, 5, 0.6, 9)),  # H = 0.4, B = 4
        BoundaryId("t", 3): outcomes((1, 5, 1, 10)),  # B = 5
        BoundaryId("t", 4): outcomes((1, 5, 1, 14)),  # B = 9
        BoundaryId("t", 5): outcomes((1, 5, 1, 15)),  # B = 10
        BoundaryId("t", 6): outcomes((1, 5, 1, 4)),  # B = -1
        BoundaryId("u", 1): outcomes((1, 5, 0.9, 5)),
        BoundaryId("u", 2): outcomes((1, 5, 0.9, 5)),
        BoundaryId("u", 3): outcomes((1, 5, 0.9, 5)),
        BoundaryId("other", 1): outcomes((1, 5, 0, 5)),  # of a trajectory that is not asked about
    }
    everything, _, _ = counts(effects_of(known), {"t": True, "u": True})
    assert (everything.boundaries, everything.unchanged, everything.reduced, everything.improved) == (9, 4, 5, 0)
    assert (everything.severe_hazard, everything.harmful) == (1, 4)
    assert (everything.longer, everything.severe_burden, everything.twice_severe_burden) == (4, 3, 1)
    assert everything.trajectories_with_reduced == 2
    assert everything.trajectories_with_harmful == 1
    strict, _, _ = counts(effects_of(known), {"t": True}, Thresholds(0.4, 4.0))
    assert (strict.severe_hazard, strict.severe_burden, strict.twice_severe_burden) == (2, 4, 2)


def test_counts_of_unequal_draws_are_said_to_be_biased() -> None:
    one, three = outcomes((1, 5, 0, 5)), outcomes(*[(1, 5, 0, 5)] * 3)
    effects = effects_of({BoundaryId("t", 1): one, BoundaryId("t", 2): three})
    assert numbers_in(unequal_note(effects.values()))[:2] == ["1", "3"]
    assert unequal_note([effects[BoundaryId("t", 2)]] * 2) == ""
    assert unequal_note([]) == ""
