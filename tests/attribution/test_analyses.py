from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from attribution_support import arm, boundary, outcomes, random_pool

from recompact.attribution.counts import counts, coupling
from recompact.attribution.detection import compare_allocations, detection, selected_by_all
from recompact.attribution.effects import effects_of
from recompact.attribution.halving import Halving
from recompact.attribution.pool import sample
from recompact.attribution.racing import Racing
from recompact.attribution.savings import token_report
from recompact.attribution.sensitivity import sensitivity_to_draws, sensitivity_to_thresholds
from recompact.attribution.uniform import Uniform
from recompact.outcome import BoundaryId, Outcomes


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
    assert (failed.trajectories_with_reduced, failed.trajectories_with_one_or_two_reduced) == (1, 1)
    assert (successful.unchanged, successful.longer, successful.harmful) == (2, 1, 1)
    assert (successful.trajectories_with_reduced, successful.trajectories_with_harmful) == (0, 1)
    assert everything.harmful == failed.harmful + successful.harmful


def test_coupling_beside_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    effects = list(effects_of(random_pool(80, 3, seed=6)).values())
    theirs = stats.spearmanr([e.hazard for e in effects], [e.burden for e in effects]).statistic
    assert coupling(effects) == pytest.approx(float(theirs))


def test_more_draws_are_closer_to_all_draws() -> None:
    points = sensitivity_to_draws(random_pool(40, 9, seed=3), subsamples=60)
    assert [p.draws for p in points] == [1, 3, 5, 9]
    for name in ("hazard", "burden", "jaccard"):
        means = [getattr(p, name).value for p in points]
        assert means == sorted(means)
        assert means[-1] == pytest.approx(1)
        assert all(getattr(p, name).low <= getattr(p, name).value <= getattr(p, name).high for p in points)
    assert points == sensitivity_to_draws(random_pool(40, 9, seed=3), subsamples=60)


def test_no_rank_correlation_where_nothing_varies() -> None:
    known = {boundary(n): outcomes(*[(1, 5, 1, 5)] * 3) for n in range(4)}
    point = sensitivity_to_draws(known, (1,), subsamples=5)[0]
    assert point.hazard is None
    assert point.jaccard.value == 1


def test_thresholds_select_fewer_as_they_rise() -> None:
    points = sensitivity_to_thresholds(random_pool(60, 9, seed=4))
    for name in ("hazard", "burden"):
        selected = [p.selected for p in points if p.threshold == name]
        assert selected == sorted(selected, reverse=True)
    # With three pairs H moves in thirds: 0.4, 0.5 and 0.6 are the same threshold.
    assert [p.jaccard for p in points if p.threshold == "hazard"][1:4] == [1.0, 1.0, 1.0]


def test_halving_against_fixed_pairs() -> None:
    pool = random_pool(60, 9, seed=5)
    all_nine, three, halving, racing = compare_allocations(
        [Uniform(9), Uniform(3), Halving(), Racing()], pool, seeds=range(4)
    )
    assert (all_nine.recall.value, all_nine.precision.value, all_nine.continuations.value) == (1, 1, 18)
    assert three.continuations.value == 6
    assert halving.continuations.value == 3.5
    assert 0 < racing.f1.value <= 1
    assert halving.tokens.value < three.tokens.value


def test_detection_counts_only_what_is_judged() -> None:
    pool = {boundary(n): outcomes(*[(1, 5, 0, 5)] * 3) for n in range(4)}
    sampled = sample(Uniform(3), pool)
    result = detection(sampled, {boundary(0), boundary(1)}, {boundary(0), boundary(2)})
    assert (result.recall, result.precision, result.continuations) == (1.0, 0.5, 6.0)
    assert selected_by_all(pool) == set(pool)


def test_tokens_by_phase_and_the_saving() -> None:
    known = {
        boundary(1): Outcomes(arm((1, 10), (1, 10), (1, 10)), arm((1, 10), (1, 10), (1, 10))),
        boundary(2): Outcomes(arm((1, 20))),  # settled without POST
    }
    report = token_report(known, {"collect": 1000})
    assert report.by_phase == {"collect": 1000, "verify": 6 * 100 + 200}
    assert (report.continuations, report.uniform_continuations) == (7, 12)
    # Boundary 2 has no POST draw: it is counted with the mean POST draw of the others.
    assert report.uniform_tokens == 6 * 100 + 3 * 200 + 3 * 100
    assert report.saved_continuations == pytest.approx(5 / 12)
    assert report.saved_verification == pytest.approx(1 - 800 / 1500)
    assert report.saved_total == pytest.approx(1 - 1800 / 2500)


def test_results_go_to_json() -> None:
    json.dumps([asdict(point) for point in sensitivity_to_draws(random_pool(5, 3, seed=9), (1, 3), subsamples=3)])
