"""What a run is busy with: written by the driver when a stage does something, and read by anybody."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recompact.attribution.verify import verify
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config_parser import parse_config
from recompact.engine.store.plan import RecordedProgress, StagePlan, count_units, plan_of
from recompact.engine.store.store import Store
from recompact.values.progress import SILENT

CONFIG = '[suite]\nuse = "pocket"\nlimit = 2\n[compressor]\nbudget = 1024\n[verify]\nallocation = "{allocation}"\n'


def play(path: Path, allocation: str = "uniform:1") -> None:
    config = parse_config(CONFIG.format(allocation=allocation), path.parent / "mine.toml")

    async def run() -> None:
        async with open_study(config, path) as study:
            await collect(study)
            first = plan_of(study.store)
            assert first is None or first.stage in ("collect", "verify")
            await verify(study)

    asyncio.run(run())


@pytest.mark.parametrize("allocation", ["uniform:1", "halving", "racing", "chained:halving"])
def test_a_driver_writes_down_what_it_plans(tmp_path: Path, allocation: str) -> None:
    path = tmp_path / "run.db"
    play(path, allocation)
    with Store.read(path) as store:
        plan = plan_of(store)
        draws = len(store.finished("continuation"))
        assert plan is not None
        assert (plan.stage, plan.done, plan.units, plan.at_most) == ("verify", 0, 2, True)
        assert plan.total is not None
        assert draws <= plan.total
        if allocation in ("uniform:1", "halving"):
            assert draws == plan.total
        assert count_units(store) == 2 + draws


def test_nothing_is_written_where_nothing_is_done(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    play(path)
    with Store.read(path) as store:
        before = store.metadata
    play(path)
    with Store.read(path) as store:
        assert store.metadata == before


def test_a_plan_is_written_at_the_first_sign_of_work(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        progress = RecordedProgress(SILENT, store)
        progress.stage("collect", 7, 2)
        assert plan_of(store) is None
        progress.step()
        plan = plan_of(store)
        assert plan is not None
        assert (plan.stage, plan.total, plan.done, plan.at_most) == ("collect", 7, 2, False)
        progress.stage("diagnose", None, 1)
        progress.bound(None)
        progress.done()
        plan = plan_of(store)
        assert plan is not None
        assert (plan.stage, plan.total, plan.at_most) == ("diagnose", None, False)


@pytest.mark.parametrize(
    "values",
    [
        {"stage": "collect"},
        {"stage": 7, "total": 1, "done": 0, "units": 0, "began": 0.0},
        {"stage": "x", "total": "many", "done": 0, "units": 0, "began": 0.0},
        {"stage": "x", "total": -1, "done": 0, "units": 0, "began": 0.0},
        {"stage": "x", "total": 1, "done": True, "units": 0, "began": 0.0},
        {"stage": "x", "total": 1, "done": 0, "units": 10**30, "began": 0.0},
        {"stage": "x", "total": 1, "done": 0, "units": 0, "began": float("inf")},
        {"stage": "x", "total": 1, "done": 0, "units": 0, "began": 0.0, "more": 1},
    ],
)
def test_a_plan_that_makes_no_sense_is_none(tmp_path: Path, values: dict[str, Any]) -> None:
    with Store.open(tmp_path / "run.db") as store:
        store.set_metadata(replace(store.metadata, planned=values))
        assert plan_of(store) is None
        store.set_metadata(
            replace(store.metadata, planned={"stage": "x", "total": 1, "done": 0, "units": 0, "began": 1})
        )
        assert plan_of(store) == StagePlan("x", 1, 0, 0, 1)
