"""The reference actions of all 114 tasks: hashes and rewards are those that were computed beforehand."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from needs import ROOT, TAU2_REFERENCE, needs
from tau2_support import expected

from recompact.suites.tau2.installation import interpreter

pytestmark = needs("tau2-bench", "tau2 reference")

FILES = {"a969a0c": "tasks_a969a0c.json", "head": "tasks.json"}


@pytest.fixture(params=FILES, scope="module")
def figures(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """What comes of them here, with either version of the tasks."""
    support = ROOT / "tests" / "support"
    file = TAU2_REFERENCE / "tau2" / "domains" / "retail" / FILES[request.param]
    variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{support}"}
    done = subprocess.run(
        [interpreter(), str(support / "tau2_gold.py"), str(TAU2_REFERENCE.resolve()), str(file.resolve())],
        capture_output=True,
        text=True,
        env=variables,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    return request.param, {figure["id"]: figure for figure in figures}


def _installed_version() -> str:
    code = "from importlib.metadata import version; print(version('tau2'))"
    asked = subprocess.run([interpreter(), "-c", code], capture_output=True, text=True, check=True)
    return "a969a0c" if asked.stdout.startswith("0.") else "head"


def test_gold_actions_pass_and_leave_the_expected_database(figures: tuple[str, dict[str, Any]]) -> None:
    version, played = figures
    reference = expected()[version]["tasks"]
    assert played.keys() == reference.keys()
    assert len(played) == 114
    own = version == _installed_version()  # which arguments a tool refuses is a matter of the code, not of the task
    for id, figure in played.items():
        task = reference[id]
        assert figure["split"] == task["split"], id
        assert figure["basis"] == task["reward_basis"], id
        assert [digest[:12] for digest in figure["trace"]] == task["hash_trace"], id
        assert figure["hash"] == task["hash_gold"], id
        if own:
            assert figure["errors"] == task["gold_error_action_indices"], id
        assert figure["done"], id
        assert figure["gold"] == 1.0, id
        assert (figure["group"] == "unchanged") == (not task["gold_changes_db"]), id
        if task["needs_llm_judge"]:
            assert figure["denied"] == 0.0, id


def test_restored_in_the_middle_they_leave_the_same(figures: tuple[str, dict[str, Any]]) -> None:
    restored = {id: figure for id, figure in figures[1].items() if "restored" in figure}
    assert len(restored) == 112  # two tasks have no actions
    assert [id for id, figure in restored.items() if figure["restored"] != figure["hash"]] == []


def test_doing_nothing_passes_where_it_should(figures: tuple[str, dict[str, Any]]) -> None:
    version, played = figures
    reference = expected()[version]["tasks"]
    for id, figure in played.items():
        for name in ("noop", "say_info_only"):
            value = reference[id][f"reward_{name}"]["ALL"]
            if name in figure and value is not None:
                assert figure[name] == value, (id, name)
