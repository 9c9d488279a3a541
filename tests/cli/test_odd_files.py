"""Files that are not what their names promise: one message and exit code 2, and no waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import recompact

from recompact.engine.store.connection import StoreError
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.template import read


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "deep", "bytes"])
def test_a_config_that_is_none(kind: str, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    if kind == "pipe":
        os.mkfifo(config)
    elif kind == "device":
        config.symlink_to("/dev/zero")
    elif kind == "directory":
        config.mkdir()
    elif kind == "deep":
        config.write_text("a = " + "[" * 900 + "]" * 900)
    else:
        config.write_bytes(b"\xff\xfe\x00")
    ended = recompact("check", config)
    assert ended.returncode == 2, ended.stderr
    assert str(config) in ended.stderr + ended.stdout


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_part_of_a_template_that_is_none(kind: str, tmp_path: Path) -> None:
    part = tmp_path / "first.md"
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "directory":
        part.mkdir()
    else:
        part.symlink_to("/dev/zero")
    with pytest.raises(InputError):
        read(tmp_path)


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        with Store.open(tmp_path / f"{name}.db") as store, store.transaction():
            if name == "bad":
                store._db.execute("INSERT INTO meta VALUES ('identity', '3'), ('skipped', '7'), ('arms', 'nonsense')")
    ended = recompact("runs", "--dir", tmp_path, "--json")
    assert ended.returncode == 0, ended.stderr
    assert "good" in ended.stdout
    assert "bad.db" in ended.stderr


def test_a_run_with_several_names_has_one_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db"):
        pass
    os.link(tmp_path / "run.db", tmp_path / "other.db")
    for name in ("run.db", "other.db"):
        with pytest.raises(StoreError, match="hard links"):
            Store.open(tmp_path / name)
