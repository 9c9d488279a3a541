"""The directory of a process for those of its hosts: nobody else removes it, and what a killed process left goes."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from recompact.environments import own_directory as module
from recompact.environments.own_directory import own_directory, remove_unused

ROUNDS, TOGETHER = 40, 5


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory in which no other test has a directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(module, "_own", {})
    return tmp_path


def test_it_is_the_same_as_long_as_it_is_there(temporary: Path) -> None:
    first = own_directory()
    assert first.parent == temporary
    assert own_directory() == first
    module.remove_tree(first)  # as by who clears the temporary directory of a machine
    second = own_directory()
    assert second.is_dir()
    assert second != first


def test_there_is_one_for_each_place(temporary: Path) -> None:
    (temporary / "short").mkdir()
    first, second = own_directory(), own_directory(str(temporary / "short"))
    assert (first.parent, second.parent) == (temporary, temporary / "short")
    assert own_directory(str(temporary)) == first
    assert own_directory(str(temporary / "short")) == second


def test_only_what_is_unused_is_removed(temporary: Path) -> None:
    (temporary / "short").mkdir()
    unused, used = own_directory(), own_directory(str(temporary / "short"))
    (used / "host").mkdir()
    foreign = temporary / "recompact-hosts-foreign"
    foreign.mkdir()
    module._own[os.getpid() + 1, str(temporary)] = foreign
    remove_unused()
    assert [unused.exists(), used.exists(), foreign.exists()] == [False, True, True]
    assert own_directory(str(temporary / "short")) == used
    again = own_directory()
    assert again.is_dir()
    module.remove_tree(again)  # by somebody else
    remove_unused()
    assert own_directory().is_dir()


def in_another_process(code: str) -> str:
    head = "from recompact.environments.own_directory import own_directory; import os, signal; "
    command = [sys.executable, "-c", head + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays() -> None:
    living = own_directory()
    (living / "host").mkdir()
    left = Path(in_another_process("print(own_directory(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"))
    assert left.is_dir()
    ended = Path(in_another_process("print(own_directory(), flush=True)"))
    assert not ended.exists()
    assert not left.exists()
    assert (living / "host").is_dir()


def test_one_that_is_taken_for_abandoned_before_it_is_locked_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, taken = fcntl.flock, list[int]()

    def another_process_is_faster(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and len(taken) < 3:
            taken.append(file)
            module._remove_abandoned(tempfile.gettempdir())
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", another_process_is_faster)
    own = own_directory()
    assert len(taken) == 3
    assert own.is_dir()
    module._remove_abandoned(tempfile.gettempdir())
    assert own.is_dir()
    assert [place for place in own.parent.iterdir() if place.name.startswith("recompact-hosts-")] == [own]


def test_one_that_is_gone_before_it_has_a_lock_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = tempfile.mkdtemp, list[str]()

    def removed_at_once(prefix: str, dir: str) -> str:
        place = make(prefix=prefix, dir=dir)
        made.append(place)
        if len(made) == 1:
            os.rmdir(place)
        return place

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_once)
    assert str(own_directory()) == made[1]


def _start_again_and_again(barrier: Barrier, missing: Queue[int]) -> None:
    gone = 0
    for _ in range(ROUNDS):
        barrier.wait()
        module._own.clear()
        place = own_directory()
        barrier.wait()
        gone += not place.is_dir()
    missing.put(gone)


def test_processes_that_start_in_the_same_moment_leave_each_other_theirs() -> None:
    context = multiprocessing.get_context("fork")
    barrier, missing = context.Barrier(TOGETHER), context.Queue()
    processes = [context.Process(target=_start_again_and_again, args=(barrier, missing)) for _ in range(TOGETHER)]
    for process in processes:
        process.start()
    assert [missing.get(timeout=60) for _ in processes] == [0] * TOGETHER
    for process in processes:
        process.join()


@pytest.mark.parametrize("name", ["notes.txt", "recompact-other-x", "recompact-hosts-without-a-lock"])
def test_what_is_not_known_to_be_abandoned_stays(temporary: Path, name: str) -> None:
    place = temporary / name
    place.mkdir()
    (place / "kept").write_text("")
    own_directory()
    assert (place / "kept").exists()


def test_what_is_not_ours_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").write_text("")
    (temporary / "recompact-hosts-link").symlink_to(elsewhere)
    own_directory()
    assert (elsewhere / "lock").exists()
    assert (temporary / "recompact-hosts-link").is_symlink()
    theirs = temporary / "recompact-hosts-theirs"
    theirs.mkdir()
    (theirs / "lock").write_text("")
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    module._remove_abandoned(str(temporary))
    assert theirs.is_dir()
    monkeypatch.undo()
    module._remove_abandoned(str(temporary))
    assert not theirs.exists()
