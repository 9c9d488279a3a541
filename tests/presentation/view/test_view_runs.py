"""Whether the list of runs knows that one is being written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from commands import recompact
from needs import needs
from report_support import make_verified

from recompact.engine.store.store import Store
from recompact.presentation.view.runs import LIVE, Place, RunLine, line_of

QUIET = 10 * LIVE  # seconds for which a slow model may well leave a run


def quiet_line(path: Path) -> RunLine:
    """What the list shows of a run that has an open driver and has not changed for a while."""
    make_verified(path)
    with Store.open(path):
        then = time.time() - QUIET
        for file in (path, Path(f"{path}-wal")):
            os.utime(file, (then, then))
        return line_of(Place("mine", path))


@needs("linux")
def test_a_run_whose_models_are_slow_is_being_written(tmp_path: Path) -> None:
    assert quiet_line(tmp_path / "mine.db").live


def test_a_number_that_may_be_another_s_by_now_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.engine.store.connection._status_of", lambda process: [])
    line = quiet_line(tmp_path / "mine.db")
    assert not line.live
    assert line.age == f"{int(QUIET // 60)} min ago"


def test_a_run_that_nobody_writes_is_not(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    make_verified(path)
    assert not line_of(Place("mine", path)).live


def test_a_named_folder_without_runs_is_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = recompact("view", "mine", "--no-open", "--for", "0", cwd=tmp_path)
    assert done.returncode == 0
    assert "There are no runs in mine yet" in done.stderr
