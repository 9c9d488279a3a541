"""An error that nobody foresaw ends with one line and a log; no traceback reaches a user."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from commands import recompact

from recompact.cli import runs
from recompact.errors import RecompactError


def test_a_command_that_raises_ends_with_one_line_and_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(directory: Path, as_json: bool) -> None:
        raise ZeroDivisionError("nobody\x1b[2J foresaw this")

    monkeypatch.setattr(runs.command, "callback", fail)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = recompact("runs")
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert "ZeroDivisionError: nobody␛[2J foresaw this" in line
    path = Path(re.findall(r"the details are in (\S+)\.log", line)[0] + ".log")
    assert "Traceback" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_of_our_own_is_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(directory: Path, as_json: bool) -> None:
        raise RecompactError("the host is gone")

    monkeypatch.setattr(runs.command, "callback", fail)
    done = recompact("runs")
    assert (done.returncode, done.stderr) == (2, "recompact: the host is gone\n")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "recompact", "prompts", "show"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
