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
from recompact.environments.protocol import Task
from recompact.environments.shell import Shell
from recompact.errors import InputError
from recompact.suites.workspace.folder import folders_below, judge
from recompact.suites.workspace.suite import WorkspaceSuite

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
        ("environment/Dockerfile", "FROM x\nFROM y\nCOPY --from=0 a /workspace/\n", "COPY --from"),
        ("environment/Dockerfile", "FROM x\nCOPY files/ /etc/\n", "COPY files/ /etc/"),
        ("environment/Dockerfile", "FROM x\nCOPY ../a b\n", "COPY ../a"),
        ("tests/helper.py", "open('/tests/expected.txt')", "helper.py names /tests"),
        ("instruction.md", "Write /app/note.txt.", "instruction.md names /app"),
        ("task.toml", "[environment]\ndocker_image = 'x'\n", "docker_image"),
        ("task.toml", "[verifier]\nenv = {A = 'b'}\n", "env"),
    ],
)
def test_a_task_of_harbor_that_needs_an_image_is_played_in_a_container_or_refused(
    name: str, text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = exported(tmp_path) / "a"
    if name == "instruction.md":
        (task / "environment" / "Dockerfile").write_text("FROM x\nWORKDIR /app\nCOPY files/ /app/\n")
        (task / "task.toml").write_text('schema_version = "1.4"\n')
    (task / name).write_text(text)
    (folder,) = folders_below(task.parent)
    assert folder.container is not None
    assert reason in folder.container.reason
    monkeypatch.setenv("PATH", str(tmp_path))
    suite = WorkspaceSuite(task.parent, unsafe_shell=True)
    (split,) = suite.splits()
    with pytest.raises(InputError, match=r"podman is not installed and docker is not installed.*integrations.harbor"):
        suite.tasks(split)
    with pytest.raises(InputError, match=r"agent that is a program.*recompact.integrations.harbor:Agent"):
        suite.workspace_task(Task("a", ""))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("environment/docker-compose.yaml", "services: {}", "composition of containers"),
        ("task.toml", "[environment]\ngpus = 1\n", "gpus"),
        ("task.toml", "[[steps]]\nname = 'one'\n", "several steps"),
        ("task.toml", "schema_version = '1.5'\n", "1.5"),
        ("task.toml", "schema_version = 'new'\n", "new"),
        ("task.toml", "[environment]\nos = 'windows'\n", "windows"),
        ("task.toml", "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.org']\n", "allowed_hosts"),
        ("task.toml", "[agent]\nnetwork_mode = 'public'\n", "network_mode differs"),
        ("task.toml", "[verifier]\nenvironment_mode = 'separate'\n", "container of its own"),
    ],
)
def test_a_task_of_harbor_that_needs_more_than_a_container_is_refused(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    task = exported(tmp_path) / "a"
    (task / name).write_text(text)
    with pytest.raises(InputError, match=f"cannot play: .*{reason}.*recompact.integrations.harbor:Agent"):
        folders_below(task.parent)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("docker_image = '--privileged'", "docker_image"),
        ("docker_image = 3.5", "docker_image"),
        ("docker_image = 'x'\nmemory_mb = -1", "memory_mb"),
        ("docker_image = 'x'\nmemory_mb = 'lots'", "memory_mb"),
        ("docker_image = 'x'\nmemory = '2 bananas'", "memory"),
        ("docker_image = 'x'\ncpus = nan", "cpus"),
        ("docker_image = 'x'\nstorage_mb = true", "storage_mb"),
        ("docker_image = 'x'\nworkdir = 'app'", "workdir"),
        ("docker_image = 'x'\nworkdir = ['/app']", "workdir"),
        ("docker_image = 'x'\nenv = {KEY = '${OPENAI_API_KEY}'}", "KEY"),
        ("docker_image = 'x'\nenv = {'--privileged' = 'a'}", "--privileged"),
        ("docker_image = 'x'\nenv = ['A']", "env"),
        ("docker_image = 'x'\n[agent]\nuser = '--privileged'", "user"),
    ],
)
def test_odd_values_of_a_container_are_named(line: str, said: str, tmp_path: Path) -> None:
    task = exported(tmp_path) / "a"
    (task / "task.toml").write_text(f"[environment]\n{line}\n")
    with pytest.raises(InputError, match=said):
        folders_below(task.parent)


def test_what_a_container_is_given(tmp_path: Path) -> None:
    task = exported(tmp_path) / "a"
    lines: tuple[str, ...] = (
        "[environment]",
        "docker_image = 'a.org/b:1'",
        "memory = '512M'",
        "storage_mb = 3",
        "cpus = 2",
    )
    lines += ("workdir = '/app'", "env = {A = 'b c'}", "allow_internet = true", "[agent]", "user = 1000")
    (task / "task.toml").write_text("\n".join(lines))
    (task / "instruction.md").write_text("<!-- some-canary GUID x -->\n# canary 2\n\nWrite amber.\n# canary stays\n")
    (folder,) = folders_below(task.parent)
    spec = folder.container
    assert spec is not None
    assert (spec.image, spec.workdir, spec.user, spec.cpus) == ("a.org/b:1", "/app", "1000", 2.0)
    assert (dict(spec.variables), spec.network) == ({"A": "b c"}, True)
    assert (folder.limits.memory, folder.limits.disk) == (512 * 1024**2, 3 * 1024**2)
    assert folder.instruction == "Write amber.\n# canary stays\n"


def test_a_task_that_is_harbors_already_is_not_exported(tmp_path: Path) -> None:
    task = exported(tmp_path) / "a"
    (task / "task.toml").write_text("[environment]\ndocker_image = 'x'\n")
    arguments = ["tasks", "export", "--to", "harbor", "--tasks", str(task.parent), "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code != 0
    assert "a" in str(result.exception)
    assert not (tmp_path / "new").exists()


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
