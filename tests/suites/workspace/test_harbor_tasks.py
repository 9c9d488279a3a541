"""Workspace tasks as Harbor's folders: their verifiers judge as the checks do."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from recompact.cli.main import cli

EXIT = "bash $CHECK/judge.sh && grep -q amber note.txt"
JSON = """echo noise; printf '{"score": %s}\n' $(grep -c amber note.txt)"""


def write_task(root: Path, name: str, command: str, verdict: str) -> None:
    for folder in ("files/kept", "check"):
        (root / name / folder).mkdir(parents=True)
    (root / name / "files" / "kept" / "it's.txt").write_text("as it was")
    (root / name / "check" / "judge.sh").write_text("grep -q 'as it was' kept/*.txt")
    settings = {"instruction": "Write amber.", "split": "test"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["[groups]", 'level = "easy"', "[check]", f"command = {json.dumps(command)}", f'verdict = "{verdict}"']
    lines += ['protected = ["kept/it\'s.txt"]']
    (root / name / "task.toml").write_text("\n".join(lines))


def reward(task: Path, note: str, tmp_path: Path) -> float:
    workspace, logs = tmp_path / "workspace", tmp_path / "logs"
    subprocess.run(["cp", "-a", str(task / "environment" / "files"), str(workspace)], check=True)
    (workspace / "note.txt").write_text(note)
    (workspace / "kept" / "it's.txt").write_text("changed by the agent")
    places = {"TESTS": str(task / "tests"), "WORKSPACE": str(workspace), "LOGS": str(logs)}
    subprocess.run(
        ["bash", str(task / "tests" / "test.sh")], env={**os.environ, **places}, check=True, capture_output=True
    )
    return float((logs / "reward.txt").read_text())


@pytest.mark.parametrize(("command", "verdict"), [(EXIT, "exit"), (JSON, "json")])
@pytest.mark.parametrize(("note", "expected"), [("amber", 1.0), ("red", 0.0)])
def test_the_verifier_judges_like_the_check(
    command: str, verdict: str, note: str, expected: float, tmp_path: Path
) -> None:
    write_task(tmp_path / "tasks", "a", command, verdict)
    out = tmp_path / "out"
    arguments = ["tasks", "export", "--to", "harbor", "--tasks", str(tmp_path / "tasks"), "--out", str(out), "--json"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert json.loads(done.output)["tasks"] == ["a"]
    assert reward(out / "a", note, tmp_path) == expected
    settings = tomllib.loads((out / "a" / "task.toml").read_text())
    assert settings["metadata"] == {"split": "test", "level": "easy"}
    assert (out / "a" / "instruction.md").read_text() == "Write amber.\n"
