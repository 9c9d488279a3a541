"""Logs that the newest releases write are read in full: `make test-formats` fails when a format has moved.

Opt-in, since it downloads packages. RECOMPACT_FORMATS_PYTHON names a Python that has them already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Session
from recompact.harnesses.transcripts.registry import read_transcripts

pytestmark = pytest.mark.skipif(
    os.environ.get("RECOMPACT_TEST_FORMATS") != "1", reason="downloads packages; run by make test-formats"
)
SCRIPT = Path(__file__).parent / "scripts" / "write_inspect_logs.py"
PAGES = 12


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    python = os.environ.get("RECOMPACT_FORMATS_PYTHON")
    if not python:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = str(folder / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "inspect-ai"], check=True)
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run([python, SCRIPT, folder / "logs"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    return folder / "logs"


def session_in(folder: Path) -> Session:
    findings = audit_transcripts(read_transcripts([folder]))
    assert findings.skipped == ()
    (session,) = findings.sessions
    assert (session.harness, session.calls, session.score) == ("inspect", PAGES, 1.0)
    assert not session.tally.unknown
    assert not session.tally.notes
    assert session.compactions
    assert all("MARK-TASK" in each.scene.asked for each in session.compactions)
    return session


@pytest.mark.parametrize("form", ["archive", "json", "chunked"])
def test_a_summary_is_read(form: str, logs: Path) -> None:
    session = session_in(logs / form)
    for each in session.compactions:
        assert each.kind == "summary"
        assert "MARK-SUMMARY" in each.scene.summary
        assert each.dropped_calls > 0
        assert each.kept_calls == 0
        assert each.before
        assert each.after
        assert each.before > each.after


def test_cleared_results_are_dropped_and_the_others_kept(logs: Path) -> None:
    for each in session_in(logs / "edit").compactions:
        assert (each.kind, each.kept_calls) == ("clearing", 1)
        assert each.dropped_calls > 0
