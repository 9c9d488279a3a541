"""`recompact controls`: what its lines rest on, and what they leave out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up_runs import begin, collect, pair
from sentences import numbers_in

from recompact.cli.controls import command
from recompact.engine.config import VerifyConfig
from recompact.engine.store.store import Store


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run in which one task was drawn again, with another that has no compaction; one trajectory broke."""
    with Store.open(tmp_path / "run.db") as store, Store.open(tmp_path / "plain.db") as plain:
        begin(store, verified=VerifyConfig(allocation="uniform:1"))
        begin(plain)
        for n in range(7):
            collect(store, str(n))
            pair(store, str(n), 1, 0, (1.0, 5), (n / 10, 5 + n))
            collect(plain, str(n), (), ending="environment error" if n == 6 else "finished")
        pair(store, "0", 1, 1, (1.0, 5), (1.0, 5))
    with Store.open(tmp_path / "broken.db") as broken:
        begin(broken)
        collect(broken, "0", (), ending="environment error")
    return tmp_path


def controls(runs: Path, *more: str) -> str:
    done = CliRunner().invoke(command, ["run", "--dir", str(runs), *more], catch_exceptions=False)
    assert done.exit_code == 0
    return " ".join(done.output.split())


def test_it_says_how_many_draws_and_which_tasks_the_identity_rests_on(runs: Path) -> None:
    words = controls(runs, "--without", "plain")
    assert "Identity, 6 tasks" in words
    assert "Left out: 1 task" in words
    assert "Correlation of H and B: needs" in words
    told = json.loads(controls(runs, "--without", "plain", "--json"))
    assert told["draws"] == 1
    assert told["left_out_of_identity"] == {"broken": 1, "without_verdict": 0}


def test_where_no_task_is_left_for_the_identity_it_says_why(runs: Path) -> None:
    assert json.loads(controls(runs, "--without", "broken", "--json"))["identity"] is None
    (line,) = re.findall(r"Identity: [^.]*", controls(runs, "--without", "broken"))
    assert numbers_in(line) == ["1"]  # the broken task
    assert "--without" in controls(runs)
