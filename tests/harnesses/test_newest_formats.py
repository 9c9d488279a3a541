"""The newest releases of other tools and we read each other's files: `make test-formats` fails when a format has moved.

Opt-in, since it downloads packages. RECOMPACT_FORMATS_PYTHON names a Python that has them already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shared_runs import verified_run

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Session
from recompact.engine.store.calls import usage_by_phase
from recompact.engine.store.runs import boundary_rows, continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.exchange.episodes import Step, read_episodes
from recompact.presentation.exchange.registry import export_run

pytestmark = pytest.mark.skipif(
    os.environ.get("RECOMPACT_TEST_FORMATS") != "1", reason="downloads packages; run by make test-formats"
)
SCRIPTS = Path(__file__).parent / "scripts"
PACKAGES = ("inspect-ai", "pydantic", "opentelemetry-proto")
PAGES = 12


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if there := os.environ.get("RECOMPACT_FORMATS_PYTHON"):
        return there
    folder = tmp_path_factory.mktemp("formats") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", *PACKAGES], check=True)
    # Of Harbor only the models of its trajectories are used; they run on older Pythons than the rest of it.
    alone = ("--no-deps", "--ignore-requires-python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", *alone, "harbor"], check=True)
    return python


def run_script(python: str, name: str, *arguments: Path) -> str:
    environment = {**os.environ, "HOME": str(arguments[0].parent)}
    command = [python, str(SCRIPTS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# -- read what they write --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logs(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    print(run_script(python, "write_inspect_logs.py", folder / "logs"))
    return folder / "logs"


def session_in(folder: Path) -> Session:
    findings = audit_transcripts(read_transcripts([folder]))
    assert findings.skipped == ()
    (session,) = findings.sessions
    assert (session.harness, session.calls, session.info.score) == ("inspect", PAGES, 1.0)
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


def test_a_trajectory_by_harbor_is_read(python: str, tmp_path: Path) -> None:
    print(run_script(python, "write_atif.py", tmp_path / "trajectory.json"))
    findings = audit_transcripts(read_transcripts([tmp_path]))
    session, compressor = findings.sessions
    assert (session.harness, session.calls, compressor.calls) == ("atif", PAGES, 0)
    assert not session.tally.unknown
    assert not session.tally.notes  # a newer version is noted
    (compaction,) = session.compactions
    assert (compaction.dropped_in_all, compaction.kept_in_all) == (7, 1)
    assert (compaction.scene.summary, compaction.scene.asked) == ("MARK-SUMMARY", "MARK-TASK")


# -- write what they read --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


@pytest.fixture(scope="module")
def reading(run: Path, python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("exports")
    with Store.read(run) as store:
        for form in ("inspect", "atif", "otlp"):
            export_run(store, form, root / form)
    reading: dict[str, Any] = json.loads(run_script(python, "read_exports.py", root))
    return reading


def test_inspect_reads_an_exported_run(run: Path, reading: dict[str, Any]) -> None:
    with Store.read(run) as store:
        rows, draws, boundaries = trajectories(store), continuation_rows(store), boundary_rows(store)
        paid = sum(usage.total for roles in usage_by_phase(store).values() for usage in roles.values())
        episodes = list(read_episodes(store))
    collect, drawn = reading["inspect"]["collect"], reading["inspect"]["continue"]
    assert {collect["status"], drawn["status"]} == {"success"}
    assert (
        (collect["samples"], drawn["samples"]) == (len(rows), len(draws)) == (collect["summaries"], drawn["summaries"])
    )
    assert sorted(collect["success"]) == sorted(float(row.success) for row in rows)
    assert collect["events"]["compaction"] == len(boundaries)
    assert collect["tokens"] + drawn["tokens"] == paid
    seen = [len(part.context.messages) for each in episodes for part in each.parts if isinstance(part, Step)]
    asked = [len(call.asked) for each in episodes for call in each.calls if call.asked is not None]
    assert collect["inputs"] + drawn["inputs"] == sum(seen) + sum(asked)


def test_harbor_accepts_exported_trajectories(run: Path, reading: dict[str, Any]) -> None:
    with Store.read(run) as store:
        number = len(trajectories(store)) + len(continuation_rows(store))
    assert reading["atif"] == {"files": number, "errors": {}}


def test_exported_traces_are_opentelemetrys(run: Path, reading: dict[str, Any]) -> None:
    with Store.read(run) as store:
        episodes, boundaries = len(trajectories(store)) + len(continuation_rows(store)), len(boundary_rows(store))
    assert reading["otlp"]["invoke_agent"] == episodes
    assert reading["otlp"]["compact_messages"] == boundaries
