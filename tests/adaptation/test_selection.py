"""Selection: what an environment breaks is no failure, and winners meet on fresh runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from acon_support import adapted, study_run
from sentences import numbers_in
from shared_runs import verified_run

from recompact.adaptation.selection import fit_tasks, select
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Episode, Episodes, Task
from recompact.values.candidate import ORIGINAL, Candidate, Clause, Fit, Selection, read_record
from recompact.values.template import default_template

ORIGINAL_TEMPLATE = default_template()
BETTER = replace(
    ORIGINAL_TEMPLATE,
    first=ORIGINAL_TEMPLATE.first.replace("## Goal\n", "## Goal\n- Keep every condition exactly.\n"),
    update=ORIGINAL_TEMPLATE.update.replace("## Goal\n", "## Goal\n- Keep every condition exactly.\n"),
)
CANDIDATE = Candidate("c", BETTER, (Clause("Keep every condition exactly.", "Goal", ()),))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


class Breaking:
    """Episodes of another suite, some of which fail to start: `breaks` is asked with the task and the attempt."""

    def __init__(self, inner: Episodes, breaks: Callable[[str, int], bool]) -> None:
        self._inner, self._breaks = inner, breaks
        self.attempts: dict[str, int] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def episode(self, task: Task, ask: object = None) -> Episode:
        self.attempts[task.id] = self.attempts.get(task.id, 0) + 1
        episode = self._inner.episode(task)
        if self._breaks(task.id, self.attempts[task.id]):

            async def start() -> None:
                raise EnvironmentFailed("the disk is full")

            episode.start = start  # type: ignore[method-assign,assignment]
        return episode


def selected(collected: Path, tmp_path: Path, breaks: Callable[[str, int], bool]) -> tuple[Selection, Path]:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)

    async def work(study: Study) -> Selection:
        broken = Breaking(study.episodes, breaks)
        return await select(replace(study, episodes=broken), [CANDIDATE])  # type: ignore[arg-type]

    return study_run(path, work, "pair"), path


def test_a_run_that_its_environment_broke_once_is_retried(collected: Path, tmp_path: Path) -> None:
    whole, _ = selected(collected, tmp_path, lambda task, attempt: False)
    again = tmp_path / "again"
    again.mkdir()
    retried, path = selected(collected, again, lambda task, attempt: attempt == 1)
    assert retried == whole
    with Store.read(path) as store:
        assert all(row.ending != "environment error" for row in trajectories(store, phase="select"))


def test_a_run_that_stays_broken_is_left_out_for_all_and_reported(collected: Path, tmp_path: Path) -> None:
    with Store.read(collected) as store:
        first, second = fit_tasks(store, 2, seed=0)
    selection, path = selected(collected, tmp_path, lambda task, attempt: task == first)
    assert [fit.runs for fit in selection.fits] == [1, 1]
    assert all(fit.steps > 1 for fit in selection.fits)  # not the zero steps of a broken run
    assert [fit.broken for fit in selection.fits] == [1, 1]
    assert selection.excluded == (f"{first}, run 0",)
    assert numbers_in(selection.statement)[-1] == "1"
    assert read_record(Selection, asdict(selection)) == selection
    assert second in selection.tasks
    mended, _ = _again(path)
    assert mended.excluded == ()  # the next command tries them again


def _again(path: Path) -> tuple[Selection, Path]:
    async def work(study: Study) -> Selection:
        return await select(study, [CANDIDATE])

    return study_run(path, work, "pair"), path


def test_where_everything_breaks_the_original_stays(collected: Path, tmp_path: Path) -> None:
    selection, _ = selected(collected, tmp_path, lambda task, attempt: True)
    assert selection.winner == ORIGINAL
    assert numbers_in(selection.statement) == ["2"]  # runs that were left out, and no pass rate


def test_the_winner_of_ut_meets_the_candidates_of_utco_on_fresh_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    utco = adapted(path, "acon-utco")
    assert utco.selection is not None
    winner = utco.candidates[0].template
    assert winner is not None
    with Store.read(path) as store:
        units = {row.unit for row in trajectories(store, phase="select")}
    for template in (winner, ORIGINAL_TEMPLATE):
        for under in ("", "acon-utco/"):
            for task in utco.selection.tasks:
                assert f"select/{under}{template.hash[:16]}/{task}/0" in units
    for candidate in utco.candidates[1:]:
        assert candidate.template is not None
        assert not any(unit.startswith(f"select/{candidate.template.hash[:16]}") for unit in units)


def test_a_rate_is_a_share_so_that_unequal_numbers_of_runs_compare() -> None:
    assert Fit("a", 4, 3, 10.0).rate == 0.75
    assert Fit("a", 4, 3, 10.0).rate > Fit("b", 10, 5, 10.0).rate
    assert Fit("c", 0, 0, 0.0).rate == 0.0
