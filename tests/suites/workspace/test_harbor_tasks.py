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
from recompact.environments.shell import Shell
from recompact.errors import InputError
from recompact.suites.workspace.folder import folders_below, judge

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
    out = exported(tmp_path, command, verdict)
    assert reward(out / "a", note, tmp_path) == expected
    settings = tomllib.loads((out / "a" / "task.toml").read_text())
    assert settings["metadata"] == {"split": "test", "level": "easy"}
    assert (out / "a" / "instruction.md").read_text() == "Write amber.\n"


def exported(tmp_path: Path, command: str = EXIT, verdict: str = "exit") -> Path:
    write_task(tmp_path / "tasks", "a", command, verdict)
    out = tmp_path / "out"
    arguments = ["tasks", "export", "--to", "harbor", "--tasks", str(tmp_path / "tasks"), "--out", str(out), "--json"]
    assert json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).output)["tasks"] == ["a"]
    return out


@pytest.mark.parametrize(("command", "verdict"), [(EXIT, "exit"), (JSON, "json")])
@pytest.mark.parametrize(("note", "expected"), [("amber", 1.0), ("red", 0.0)])
def test_a_task_of_harbor_without_an_image_is_played_and_judged(
    command: str, verdict: str, note: str, expected: float, tmp_path: Path
) -> None:
    (folder,) = folders_below(exported(tmp_path, command, verdict))
    assert (folder.id, folder.split, dict(folder.groups)) == ("a", "test", {"level": "easy"})
    assert folder.instruction == "Write amber.\n"
    workspace = tmp_path / "workspace"
    folder.lay_out(workspace)
    assert [path.name for path in workspace.iterdir()] == ["kept"]
    (workspace / "note.txt").write_text(note)
    (workspace / "kept" / "it's.txt").write_text("changed by the agent")
    shell = Shell.of_this_machine(True, "/workspace", folder.limits)
    assert judge(folder, workspace, "", shell).value == expected


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("environment/Dockerfile", "FROM x\nRUN apt-get install -y tree\n", "RUN apt-get install"),
        ("environment/docker-compose.yaml", "services: {}", "composition of containers"),
        ("tests/helper.py", "open('/tests/expected.txt')", "helper.py names /tests"),
        ("instruction.md", "Write /app/note.txt.", "instruction.md names /app"),
        ("task.toml", "[environment]\ngpus = 1\n", "gpus"),
        ("task.toml", "[[steps]]\nname = 'one'\n", "several steps"),
    ],
)
def test_a_task_of_harbor_that_needs_a_container_is_refused(name: str, text: str, reason: str, tmp_path: Path) -> None:
    task = exported(tmp_path) / "a"
    if name == "instruction.md":
        (task / "environment" / "Dockerfile").write_text("FROM x\nWORKDIR /app\nCOPY files/ /app/\n")
        (task / "task.toml").write_text('schema_version = "1.4"\n')
    (task / name).write_text(text)
    with pytest.raises(InputError, match=f"needs a container.*{reason}.*recompact.integrations.harbor:Agent"):
        folders_below(task.parent)


def test_files_are_laid_out_where_the_image_has_them(tmp_path: Path) -> None:
    task = exported(tmp_path) / "a"
    lines = ("FROM x", "WORKDIR /app", "COPY files/kept notes/", "COPY one.txt ./", "COPY one.txt two.txt")
    (task / "environment" / "Dockerfile").write_text("\n".join(lines))
    (task / "environment" / "one.txt").write_text("1")
    (task / "task.toml").write_text('schema_version = "1.4"\n')
    (task / "tests" / "test.sh").write_text(
        "echo 0.5 > /logs/verifier/reward.txt\ngrep -q 1 one.txt # not in a/tests/b\n"
    )
    (folder,) = folders_below(task.parent)
    folder.lay_out(workspace := tmp_path / "workspace")
    names = {path.relative_to(workspace).as_posix() for path in workspace.rglob("*") if path.is_file()}
    assert names == {"notes/it's.txt", "one.txt", "two.txt"}
    shell = Shell.of_this_machine(True, "/workspace", folder.limits)
    assert judge(folder, workspace, "", shell).value == 0.5
