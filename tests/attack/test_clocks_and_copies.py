"""A clock that jumps while a command works, and copies of a run that are taken meanwhile: the result is the same."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_kill_schedules import CONFIG, SEED, start

from recompact.engine.store.store import Store

pytestmark = pytest.mark.attack
JUMPING = """
import random, time
_real, _chance = time.time, random.Random({seed!r})
time.time = lambda: _real() + _chance.choice((-86_400.0, -1.0, 0.0, 3_600.0, 40 * 365 * 86_400.0))
"""


def begin(place: Path) -> Path:
    place.mkdir()
    (place / "c.toml").write_text(CONFIG)
    return place


def digest(place: Path) -> str:
    (run,) = (place / "runs").glob("*.db")
    with Store.read(run) as store:
        return store.digest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What comes out where nothing happens."""
    place = begin(tmp_path_factory.mktemp("whole") / "place")
    assert start(place, ["collect", "c.toml"]).wait(240) == 0
    return digest(place)


@pytest.mark.parametrize("commands", [["collect", "runs", "boundaries"]], ids=" ".join)
def test_a_clock_that_jumps_changes_nothing(commands: list[str], whole: str, tmp_path: Path) -> None:
    place = begin(tmp_path / "place")
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(JUMPING.format(seed=SEED))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "clock")}
    operands = {"collect": ["c.toml"], "boundaries": ["runs/c.db"]}
    for command in commands:
        words = [sys.executable, "-m", "recompact", command, *operands.get(command, [])]
        ended = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=240)
        assert ended.returncode == 0, ended.stderr
    assert digest(place) == whole


@pytest.mark.parametrize("with_log", [True, False], ids=["with its log", "without its log"])
def test_a_copy_that_was_taken_meanwhile_is_finished_or_refused(with_log: bool, whole: str, tmp_path: Path) -> None:
    """A file that is copied while it is written may be damaged: then every command says so, and none goes on."""
    source, copy = begin(tmp_path / "source"), begin(tmp_path / "copy")
    process = start(source, ["collect", "c.toml"])
    run = source / "runs" / "c.db"
    deadline = time.monotonic() + 60
    while not run.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(random.Random(f"{SEED}/{with_log}").uniform(0.5, 3.0))
    (copy / "runs").mkdir()
    for suffix in ("", "-wal") if with_log else ("",):
        if Path(f"{run}{suffix}").exists():
            shutil.copy(f"{run}{suffix}", f"{copy / 'runs' / 'c.db'}{suffix}")
    assert process.wait(240) == 0  # whoever copies does not disturb
    assert digest(source) == whole
    ended = start(copy, ["collect", "c.toml"])
    _, complaint = ended.communicate(timeout=240)
    assert ended.returncode in (0, 2), complaint.decode()
    assert b"Traceback" not in complaint
    if ended.returncode == 0:
        assert digest(copy) == whole
    else:
        assert b"damaged" in complaint or b"not a run" in complaint
