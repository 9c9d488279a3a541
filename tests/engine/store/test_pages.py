"""Lists of trajectories page by page: sorted by harm they follow the order of the verdicts, whatever the page."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, strategies as st
from made_up_runs import begin, collect

from recompact.engine.store.pages import TrajectoryQuery, trajectory_page
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
