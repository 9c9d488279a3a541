from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from attribution_support import boundary, outcomes, random_pool

from recompact.attribution.detection import sensitivity_to_draws, sensitivity_to_thresholds


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


def test_what_clearly_helped_is_selected_neither_by_all_draws_nor_by_some() -> None:
    rescued = [(0, 5, 1, 20)] * 9
    known = {boundary(1): outcomes(*rescued), boundary(2): outcomes(*[(1, 5, 0, 5)] * 9)}
    three, nine = sensitivity_to_draws(known, (3, 9), subsamples=5)
    assert (three.jaccard.value, nine.jaccard.value) == (1.0, 1.0)
    (one,) = sensitivity_to_draws(known, (1,), subsamples=5)  # from which it is not clear
    assert one.jaccard.value == 0.5


def test_thresholds_select_fewer_as_they_rise() -> None:
    points = sensitivity_to_thresholds(random_pool(60, 9, seed=4))
    for name in ("hazard", "burden"):
        selected = [p.selected for p in points if p.threshold == name]
        assert selected == sorted(selected, reverse=True)
        assert selected[0] > selected[-1]
    # With three pairs H moves in thirds: 0.4, 0.5 and 0.6 are the same threshold.
    assert [p.jaccard for p in points if p.threshold == "hazard"][1:4] == [1.0, 1.0, 1.0]


def test_results_go_to_json() -> None:
    points = sensitivity_to_draws(random_pool(5, 3, seed=9), (1, 3), subsamples=3)
    again = json.loads(json.dumps([asdict(point) for point in points]))
    assert [point["draws"] for point in again] == [1, 3]
    assert again[0]["jaccard"] == asdict(points[0].jaccard)
