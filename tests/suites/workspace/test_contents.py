"""A run notices that the folder of a task is no longer what it began with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_support import agent_config, collected, verified, write_notes
from needs import needs
from workspace_support import ADDITION, write_task

from recompact.engine.store.store import Store, StoreError
from recompact.environments.loading import fingerprint
from recompact.suites.workspace.folder import contents


def rewritten(folder: Path) -> None:
    (folder / "files" / "calc.py").write_text("def add(a, b):\n    return a * b\n")


def made_a_link(folder: Path) -> None:
    (folder / "files" / "calc.py").unlink()
    (folder / "files" / "calc.py").symlink_to("other.py")


CHANGES: list[Callable[[Path], object]] = [
    rewritten,
    made_a_link,
    lambda folder: (folder / "files" / "calc.py").chmod(0o755),
    lambda folder: (folder / "files" / "calc.py").rename(folder / "files" / "sum.py"),
    lambda folder: (folder / "files" / "empty").mkdir(),
    lambda folder: (folder / "files" / "calc.py").unlink(),
    lambda folder: (folder / "check" / "check.py").write_text("raise SystemExit(0)\n"),
    lambda folder: (folder / "task.toml").write_text(ADDITION.replace("two arguments", "arguments")),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_folder_changes_its_hash_alone(tmp_path: Path, change: Callable[[Path], object]) -> None:
    folder, _ = write_task(tmp_path / "tasks"), write_task(tmp_path / "tasks", "other")
    before = contents({}, "train", tmp_path)
    assert list(before) == ["task addition", "task other"]
    os.utime(folder / "files" / "calc.py", (0, 0))
    (folder / "check" / "__pycache__").mkdir()
    (folder / "check" / "__pycache__" / "check.pyc").write_bytes(b"x")
    assert contents({}, "train", tmp_path) == before, "times and what Python leaves behind are no change"
    change(folder)
    after = contents({}, "train", tmp_path)
    assert after["task addition"] != before["task addition"]
    assert after["task other"] == before["task other"]


def test_only_the_tasks_of_the_split_count(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks")
    before = fingerprint("workspace", tmp_path, {}, "train")
    write_task(tmp_path / "tasks", "later", 'split = "test"\n' + ADDITION)
    assert fingerprint("workspace", tmp_path, {}, "train") == before
    write_task(tmp_path / "tasks", "new")
    assert fingerprint("workspace", tmp_path, {}, "train") != before


@needs("bubblewrap")
async def test_a_task_that_changed_between_collect_and_verify_is_noticed(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks", "one", "two")
    config, run = agent_config(tmp_path / "tasks"), tmp_path / "run.db"
    await collected(config, run)
    note = tmp_path / "tasks" / "two" / "files" / "notes" / "1.txt"
    text = note.read_text()
    note.write_text(text.replace("blue-42", "blue-43"))
    with pytest.raises(StoreError, match=r"has changed since .* \(task two\): undo the change"):
        await verified(config, run)
    note.write_text(text)
    verification, _ = await verified(config, run)
    assert verification.left_out == {}
    note.write_text(text.replace("blue-42", "blue-43"))
    await verified(config, run, accept_changes=True)
    with Store.read(run) as store:
        (change,) = store.metadata.suite_changes
    assert change["changed"] == ["task two"]
