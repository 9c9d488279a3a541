"""Every command that writes is killed again and again, at moments drawn from a seed, and comes to the same result."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recompact.engine.store.store import Store

SEED = os.environ.get("RECOMPACT_ATTACK_SEED", "1")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CONFIG = """
[suite]
tasks = ["pocket-train-005", "pocket-train-019", "pocket-train-031"]
[compressor]
budget = 1024
[run]
concurrency = 2
"""
COMMANDS = {
    "collect": [["collect", "c.toml"]],
    "verify": [["collect", "c.toml"], ["verify", "c.toml", "--draws", "3"]],
    "evaluate": [["evaluate", "c.toml", "--arm", "none", "--arm", "fifo", "--limit", "24"]],
    "adapt": [["adapt", "c.toml"]],
}


def start(place: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "recompact", *arguments]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def play(place: Path, steps: list[list[str]], chance: random.Random | None) -> tuple[str, int]:
    """The digest of the run after these commands, and how often they were interrupted on the way."""
    place.mkdir()
    (place / "c.toml").write_text(CONFIG)
    interrupted = 0
    for arguments in steps:
        for _ in range(chance.randint(2, 4) if chance else 0):
            assert chance is not None
            process = start(place, arguments)
            try:
                process.communicate(timeout=chance.uniform(0.3, 4.0))
            except subprocess.TimeoutExpired:
                process.send_signal(chance.choice(SIGNALS))
                _, complaint = process.communicate(timeout=60)
                interrupted += 1
                assert b"Traceback" not in complaint or b"recompact/" not in complaint, complaint.decode()
        ended = start(place, arguments)
        _, complaint = ended.communicate(timeout=240)
        assert ended.returncode == 0, complaint.decode()
    (run,) = (place / "runs").glob("*.db")
    with Store.read(run) as store:
        return store.digest(), interrupted


@pytest.mark.attack
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_comes_to_the_same_result(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    whole, _ = play(tmp_path / "whole", COMMANDS[name], None)
    digest, interrupted = play(tmp_path / "killed", COMMANDS[name], random.Random(f"{SEED}/{name}"))
    record_property("tried", f"{interrupted} interruptions of {name}")
    assert digest == whole
