"""Lists of trajectories page by page: sorted by harm they follow the order of the verdicts, whatever the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, strategies as st
from made_up_runs import begin, collect

from recompact.engine.store.pages import TrajectoryQuery, run_counts, trajectory_page
from recompact.engine.store.records import read_trajectory, write_trajectory
from recompact.engine.store.runs import overview
from recompact.engine.store.store import Store


@examples(15)
@given(st.permutations([f"collect/t{n}" for n in range(7)]), st.integers(0, 7), st.integers(1, 4))
def test_pages_by_harm_together_are_the_order_of_the_verdicts(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], judged: int, limit: int
) -> None:
    ranks = {unit: place for place, unit in enumerate(order[:judged])}
    with Store.open(tmp_path_factory.mktemp("run") / "run.db") as store:
        begin(store)
        for n in range(7):
            collect(store, f"t{n}")
        listed: list[str] = []
        for offset in range(0, 7, limit):
            rows, total = trajectory_page(store, TrajectoryQuery(order="harm", offset=offset, limit=limit), ranks)
            assert total == 7
            listed += [row.unit for row in rows]
    assert listed == [*order[:judged], *sorted(order[judged:])]


def test_the_compactions_of_a_run_are_those_of_the_trajectories_beside_them(tmp_path: Path) -> None:
    """A selection plays the tasks again: its compactions are no part of what was collected."""
    with Store.open(tmp_path / "run.db") as store:
        begin(store)
        collect(store, "t", boundaries=(5, 9))
        again = read_trajectory(store, "collect/t")
        write_trajectory(store, "select/t", again, phase="select", run=0, groups={}, seconds=1.0)
        counts = run_counts(store, "collect")
        assert (counts.trajectories, counts.boundaries) == (1, overview(store).compactions) == (1, 2)
