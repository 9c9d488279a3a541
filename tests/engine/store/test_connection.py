"""Readers leave a run as it is, also one whose driver was killed, and know whether a process still writes to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import needs

from recompact.engine.store.connection import start_of_process, writer_of
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.store import Store

LONG_AGO = 1_600_000_000


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run as a killed driver leaves it: what it wrote last is still in the log beside the file."""
    path, copy = tmp_path / "mine.db", tmp_path / "killed #1?.db"
    with Store.open(path) as store:
        store.set_metadata(RunMetadata(suite="office"))
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
            os.utime(f"{copy}{suffix}", (LONG_AGO, LONG_AGO))
    return copy


def state(path: Path) -> list[tuple[bytes, float]]:
    files = (path, Path(f"{path}-wal"))
    return [(file.read_bytes(), file.stat().st_mtime) for file in files if file.exists()]


def test_a_look_at_a_killed_run_changes_nothing(killed: Path) -> None:
    before = state(killed)
    assert len(before[1][0]) > 0
    for _ in range(2):
        with Store.read(killed) as store, store.snapshot():
            assert store.metadata.suite == "office"
        assert state(killed) == before
    with Store.open(killed) as store:  # the same command goes on from there
        store.set_metadata(RunMetadata(suite="pages"))
    with Store.read(killed) as store:
        assert store.metadata.suite == "pages"


def test_a_look_through_a_link_changes_nothing(killed: Path) -> None:
    before = state(killed)
    (killed.parent / "links").mkdir()
    link = killed.parent / "links" / "run.db"
    link.symlink_to(killed)
    with Store.read(link) as store:
        assert store.metadata.suite == "office"
    assert state(killed) == before


def test_a_look_at_a_closed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    Store.open(path).close()
    os.utime(path, (LONG_AGO, LONG_AGO))
    before = state(path)
    Store.read(path).close()
    assert state(path) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.db", "mine.db.lock"]


def test_a_reader_that_outlasts_the_driver_closes_the_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    with Store.open(path) as store:
        store.set_metadata(RunMetadata(suite="office"))
        reader = Store.read(path)
        assert reader.metadata.suite == "office"
    reader.close()
    assert not Path(f"{path}-wal").exists()


# --- who writes


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.communicate()


def lock(path: Path, holder: int, age: float) -> None:
    """As a driver with this number wrote it so many seconds ago."""
    Path(f"{path}.lock").write_text(f"{holder}")
    os.utime(f"{path}.lock", (time.time() - age, time.time() - age))


@needs("linux")
def test_another_process_with_the_number_of_the_writer_is_not_the_writer(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "mine.db"
    began = start_of_process(process.pid)
    assert began is not None
    assert abs(began - time.time()) < 60
    lock(path, process.pid, age=0)
    assert writer_of(path) == process.pid
    lock(path, process.pid, age=3600)
    assert writer_of(path) is None


@needs("linux")
def test_a_killed_writer_that_nobody_waited_for_writes_no_more(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "mine.db"
    lock(path, process.pid, age=0)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is still in use
    assert writer_of(path) is None


def test_where_the_system_does_not_say_when_a_process_began_its_number_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recompact.engine.store.connection._status_of", lambda process: [])
    path = tmp_path / "mine.db"
    lock(path, os.getpid(), age=1e6)
    assert start_of_process(os.getpid()) is None
    assert writer_of(path) == os.getpid()


@pytest.mark.parametrize("written", ["", "0", "-1", "9" * 40, "me", "\x00"])
def test_a_lock_that_names_no_process_has_no_writer(written: str, tmp_path: Path) -> None:
    (tmp_path / "mine.db.lock").write_text(written)
    assert writer_of(tmp_path / "mine.db") is None
