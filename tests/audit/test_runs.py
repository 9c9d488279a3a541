"""A run of Recompact is audited like a transcript, and what the score is worth is on record."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest
from commands import recompact

from recompact.audit.auditing import audit_run
from recompact.audit.measures import RUN_SCHEMES
from recompact.audit.worth import worth_of_score
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId

CONFIG = '[suite]\nsplit = "test"\nlimit = 14\n[compressor]\nbudget = 2048\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("audited")
    (home / "c.toml").write_text(CONFIG)
    done = recompact("collect", home / "c.toml")
    assert done.returncode == 0, done.stderr
    return home / "runs" / "c.db"


def test_every_boundary_of_a_run_is_a_compaction_of_the_audit(run: Path) -> None:
    with Store.read(run) as store:
        audit = audit_run(store)
        rows = boundary_rows(store)
        assert len(audit.sessions) == len(trajectories(store))
    found = {
        BoundaryId(session.member, each.ordinal): each for session in audit.sessions for each in session.compactions
    }
    assert {id: (each.before, each.after, each.line) for id, each in found.items()} == {
        BoundaryId(row.unit, row.index): (row.pre_tokens, row.post_tokens, row.step) for row in rows
    }
    # One turn stays verbatim; everything else since the last compaction is gone.
    assert {each.kept_calls for each in found.values()} == {1}
    assert all(each.readable for each in found.values())
    assert len({session.scheme for session in audit.sessions}) == 1
    assert audit.sessions[0].scheme in {scheme.name for scheme in RUN_SCHEMES}


def test_the_command_takes_a_run(run: Path, tmp_path: Path) -> None:
    done = recompact("audit", run, "--json", "--out", tmp_path / "audit.html")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {each["harness"] for each in told["compactions"]} == {"recompact"}
    assert any(each["score"] is not None for each in told["compactions"])
    assert told["worth_of_the_score"] == list(worth_of_score())
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert escape(worth_of_score()[0]) in page


def test_the_documentation_has_the_recorded_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    block = page.partition("<!-- worth -->")[2].partition("<!-- /worth -->")[0]
    assert " ".join(block.replace("`", "").split()) == " ".join(worth_of_score())


def test_a_file_that_is_no_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"\x1b[31m no database at all" * 50)
    for name in ("bad.db", "nowhere.db"):
        done = recompact("audit", tmp_path / name, "--no-page", cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr
