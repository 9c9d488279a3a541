"""Whether probes predict harm: the statistics of the benchmark, on values made by hand and on a verified run."""

from __future__ import annotations

import pytest
from shared_runs import verified_run

from probes import Observation, auc, observations, report
from recompact.engine.store.store import Store


@pytest.mark.parametrize(
    ("values", "harmful", "expected"),
    [([1, 2, 3], [False, False, True], 1.0), ([3, 2, 1], [False, False, True], 0.0), ([1, 1], [True, False], 0.5)],
)
def test_auc(values: list[float], harmful: list[bool], expected: float) -> None:
    assert auc(values, harmful) == expected
    assert auc(values, [True] * len(values)) is None


def test_a_predictor_that_is_the_truth_is_perfect() -> None:
    rows = [Observation(f"t{n % 4}", n / 10, 0.0, {"truth": n / 10, "silent": None}) for n in range(10)]
    first, second = report("made up", rows).splitlines()[4:6]
    assert "1.00" in first
    assert second == "| silent | 0 | 0 | - | - | - |"


def test_every_boundary_of_a_verified_run_is_observed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Store.read(verified_run(tmp_path_factory)) as store:
        rows = list(observations(store))
    assert rows
    loss = "probe loss, facts that PRE used"
    assert all(0 <= (row.predictors[loss] or 0) <= 1 for row in rows)
    assert {row.predictors["literals dropped"] is None for row in rows} == {False}
