"""GEPA as a method: its own package searches, and everything it runs or asks is recorded, locked and resumed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acon_support import CONFIG, Killed, Killing, study_run
from commands import recompact

from recompact.adaptation import gepa_bridge
from recompact.adaptation.adapt import Adaptation, adapt, inputs_of
from recompact.adaptation.gepa_bridge import Bridge, Stopped
from recompact.adaptation.gepa_search import PHASE, REFLECTION
from recompact.adaptation.lock import broken_rules
from recompact.attribution.halving import rollouts
from recompact.engine.collection import collect
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import journaled_calls
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.failures import Overloaded
from recompact.values.candidate import ORIGINAL
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.progress import Silent
from recompact.values.template import default_template
from recompact.version import install_command

pytest.importorskip("gepa", reason="the package gepa is not installed")

TASKS = [f"pocket-train-{n:03d}" for n in (1, 2, 5, 7, 9, 11)]
TEXT = f"""
[suite]
tasks = {json.dumps(TASKS)}
[compressor]
budget = 2048
[adapt]
candidates = 2
fit_tasks = 3
redraws = 1
options = {{ metric_calls = 45 }}
"""


class Replaced:
    """The optimizer says something else."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked = 0

    def models(self, models: dict[str, object]) -> dict[str, object]:
        return {**models, "sim-optimizer": self}

    name = "sim-optimizer"

    async def reply(self, request: Request) -> Reply:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return Reply(assistant(f"{self.answer} {self.asked}"), Usage(1, 1, 0, 0, 1))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Adaptation]:
    path = tmp_path_factory.mktemp("gepa") / "run.db"
    return path, study_run(path, adapt, "gepa", TEXT)


@pytest.mark.slow
def test_its_progress_counts_runs_and_stays_within_what_was_planned(tmp_path: Path) -> None:
    stages: list[list[int]] = []

    class Watching(Silent):
        def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
            stages.append([total or 0, done] if name == "gepa" else [])

        def done(self) -> None:
            if stages[-1]:
                stages[-1][1] += 1

    def work(study: Study) -> Coroutine[Any, Any, Adaptation]:
        return adapt(replace(study, progress=Watching()))

    adaptation = study_run(tmp_path / "run.db", work, "gepa", TEXT)
    assert adaptation.evidence is not None
    (search,) = filter(None, stages)
    assert 0 < search[1] <= search[0] == 45


def test_candidates_keep_the_lock_and_name_their_origin(searched: tuple[Path, Adaptation]) -> None:
    path, adapted = searched
    assert adapted.candidates, adapted.statement
    assert adapted.evidence is not None
    for candidate in adapted.candidates:
        assert candidate.template is not None
        assert broken_rules(default_template(), candidate.template) == ()
        assert candidate.clauses
        assert all(set(clause.answers) <= set(TASKS) for clause in candidate.clauses)
    with Store.read(path) as store:
        (record,) = read_adaptations(store)
        runs = trajectories(store, phase=PHASE)
        assert len(store.finished(REFLECTION)) == adapted.evidence.pieces
    cited = {answer for c in adapted.candidates for clause in c.clauses for answer in clause.answers}
    assert cited
    assert cited <= record.reasons.keys()
    assert len(runs) <= 45
    assert f"Of {adapted.evidence.pieces} reflections, " in adapted.evidence.statement


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search_whatever_the_concurrency(
    searched: tuple[Path, Adaptation], tmp_path: Path
) -> None:
    path, adapted = searched
    again = study_run(tmp_path / "again.db", adapt, "gepa", TEXT + "[run]\nconcurrency = 1\n")
    assert again.candidates == adapted.candidates
    with Store.read(path) as store, Store.read(tmp_path / "again.db") as other:
        assert store.digest() == other.digest()
    calls = len(journaled(path))
    assert study_run(path, adapt, "gepa", TEXT).selection == adapted.selection
    assert len(journaled(path)) == calls  # nothing was done again


def test_a_search_that_was_killed_goes_on_where_it_was(searched: tuple[Path, Adaptation], tmp_path: Path) -> None:
    path, adapted = searched
    killing = Killing([("sim-optimizer", 1), ("sim-agent", 300), ("sim-compressor", 9)])
    for _ in range(4):
        try:
            resumed = study_run(tmp_path / "killed.db", adapt, "gepa", TEXT, killing.models)
        except (Killed, Stopped):
            continue
        break
    assert resumed.candidates == adapted.candidates
    with Store.read(path) as store, Store.read(tmp_path / "killed.db") as other:
        assert store.digest() == other.digest()


def journaled(path: Path) -> list[tuple[str, int]]:
    with Store.read(path) as store:
        return journaled_calls(store)


def test_a_failure_of_the_optimizer_ends_the_search_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    down = Replaced(Overloaded("too many requests"))
    with pytest.raises((Unfinished, Overloaded)):
        study_run(path, adapt, "gepa", TEXT, down.models)  # type: ignore[arg-type]
    assert down.asked == 1  # GEPA would have gone on
    assert study_run(path, adapt, "gepa", TEXT).candidates


@pytest.mark.slow
def test_an_optimizer_of_no_use_is_asked_again_next_time(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    useless = Replaced("The prompt is fine.")
    adapted = study_run(path, adapt, "gepa", TEXT, useless.models)  # type: ignore[arg-type]
    assert (adapted.winner, adapted.candidates, adapted.unusable) == (ORIGINAL, (), True)
    assert adapted.evidence is not None
    assert adapted.evidence.failed == adapted.evidence.pieces > 0
    again = study_run(path, adapt, "gepa", TEXT)
    assert again.candidates
    assert not again.unusable


def test_by_default_it_may_run_as_often_as_verification_would(tmp_path: Path) -> None:
    async def work(study: Study) -> tuple[int, int]:
        await collect(study)
        return (await inputs_of(study)).expected_draws(), len(boundary_rows(study.store))

    runs, boundaries = study_run(tmp_path / "run.db", work, "gepa", CONFIG)
    assert runs == rollouts(boundaries) > 0


def test_without_the_package_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    gepa_bridge.load_gepa.cache_clear()
    for name in ("gepa", "gepa.api"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "mine.toml").write_text(TEXT.replace("[adapt]", '[adapt]\nmethod = "gepa"'))
    ended = recompact("check", "mine.toml", cwd=tmp_path)
    gepa_bridge.load_gepa.cache_clear()
    assert ended.returncode == 2
    assert install_command("gepa") in ended.stdout + ended.stderr


def test_a_cancelled_search_lets_its_thread_go() -> None:
    async def work() -> None:
        bridge, begun = Bridge(), asyncio.Event()
        loop = asyncio.get_running_loop()

        async def forever() -> None:
            begun.set()
            await asyncio.sleep(3600)

        def search() -> None:
            for _ in range(3):
                try:
                    bridge.call(forever)
                except Stopped:
                    continue

        task = loop.create_task(bridge.run(search))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(work(), 10))
