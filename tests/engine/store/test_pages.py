"""Lists by harm: what the file keeps up to date says the same as all draws together."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given, settings, strategies as st
from report_support import claim

from recompact.attribution.continuations import continuation_unit
from recompact.engine.store.pages import _EFFECTS, TrajectoryQuery, trajectory_page
from recompact.engine.store.records import write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.values.chat import system, user
from recompact.values.context import Context
from recompact.values.outcome import ARMS
from recompact.values.trajectory import Boundary, Score, Trajectory

PREFIX = Context((system("You are an agent."), user("Do it.")))
THRESHOLDS = (0.5, 5.0)


def make_run(path: Path, seed: int, tasks: int = 6) -> Store:
    """Trajectories with up to three boundaries, and some of the draws of each."""
    chance, store = Random(seed), Store.open(path)
    claim(store, "verify")
    for n in range(tasks):
        task, unit = f"task-{n}", f"collect/task-{n}"
        boundaries = tuple(Boundary(i, i, PREFIX, PREFIX, None, ()) for i in range(1, chance.randrange(1, 4)))
        whole = Trajectory(task, (), boundaries, "finished", Score.of(True), PREFIX)
        write_trajectory(store, unit, whole, phase="collect", run=0, groups={}, seconds=0.0)
        for boundary in boundaries:
            for arm in ARMS:
                for draw in range(chance.randrange(3)):
                    name = continuation_unit(task, boundary.index, arm, draw)
                    score = Score(True, chance.choice((0.0, 0.5, 1.0)))
                    made = Trajectory(task, (), (), "finished", score, PREFIX)
                    write_continuation(store, name, unit, boundary.index, arm, draw, made, seconds=0.0)
    return store


def harms(store: Store) -> list[tuple[object, ...]]:
    return [tuple(row) for row in store._rows("SELECT * FROM harms WHERE hazard IS NOT NULL ORDER BY unit")]


def from_all_draws(store: Store) -> list[tuple[object, ...]]:
    query = f"SELECT unit, max(hazard) AS h, max(burden) FROM ({_EFFECTS}) GROUP BY unit HAVING h IS NOT NULL"
    return [tuple(row) for row in store._rows(f"{query} ORDER BY unit")]


def order(store: Store) -> list[str]:
    rows, _ = trajectory_page(store, TrajectoryQuery(order="harm"), THRESHOLDS)
    return [each.row.unit for each in rows]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_the_largest_effects_follow_every_draw_that_comes_or_goes(tmp_path_factory, seed: int) -> None:  # type: ignore[no-untyped-def]
    with make_run(tmp_path_factory.mktemp("run") / "run.db", seed) as store:
        assert harms(store) == from_all_draws(store)
        kept = order(store)
        with store.transaction():
            store._db.execute("ALTER TABLE harms RENAME TO gone")  # as a file of an older version has it
        assert order(store) == kept
        with store.transaction():
            store._db.execute("ALTER TABLE gone RENAME TO harms")
        names = [row["name"] for row in store._rows("SELECT name FROM continuations ORDER BY name")]
        for name in Random(seed).sample(names, len(names) // 2):
            store.reopen(name)
        assert harms(store) == from_all_draws(store)
        store.forget_units(["continue/"])
        assert harms(store) == []
