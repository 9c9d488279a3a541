"""Tasks as folders: what they may say, what an agent can do in one, and how it is judged."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from needs import needs
from workspace_support import ADDITION, CALC, suite_of, write_task

from recompact.cli.main import cli
from recompact.environments.conformance import conformance
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import Environment, Observation
from recompact.errors import InputError
from recompact.suites.workspace.environment import WorkspaceEnvironment
from recompact.suites.workspace.folder import folders_below
from recompact.suites.workspace.repository import add_repository
from recompact.suites.workspace.suite import WorkspaceSuite
from recompact.values.trajectory import Action

pytestmark = needs("bubblewrap")


def opened(root: Path, name: str = "addition") -> WorkspaceEnvironment:
    suite = suite_of(root)
    task = next(task for split in suite.splits() for task in suite.tasks(split) if task.id == name)
    environment = suite.environment(task)
    assert isinstance(environment, WorkspaceEnvironment)
    environment.start()
    return environment


def do(environment: Environment, name: str, **arguments: Any) -> Observation:
    return environment.step(Action(name, arguments))


def test_a_task_is_solved_with_the_tools(tmp_path: Path) -> None:
    write_task(tmp_path)
    environment = opened(tmp_path)
    assert environment.score().success is False
    assert do(environment, "read_file", path="calc.py").text == CALC
    edited = do(environment, "edit_file", path="/workspace/calc.py", old="a - b", new="a + b")
    assert edited.text == "/workspace/calc.py is changed."
    assert "5" in do(environment, "shell", command="python3 -c 'import calc; print(calc.add(2, 3))'").text
    assert do(environment, "finish", answer="done").done
    assert environment.score().success is True
    assert do(environment, "shell", command="true").done
    environment.close()
    assert not environment.directory.exists()


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_file", {"path": "../task.toml"}, "lies outside /workspace"),
        ("read_file", {"path": "/etc/passwd"}, "lies outside /workspace"),
        ("read_file", {"path": "nothing.txt"}, "does not exist"),
        ("read_file", {"path": "calc.py", "start": 99}, "has 3 lines"),
        ("read_file", {"path": "calc.py", "start": 0}, "from 1 on"),
        ("read_file", {}, "path must be a text"),
        ("write_file", {"path": "x", "content": 3}, "content must be a text"),
        ("edit_file", {"path": "calc.py", "old": "a", "new": "b"}, "occurs 3 times"),
        ("edit_file", {"path": "calc.py", "old": "zzz", "new": "b"}, "does not occur"),
        ("shell", {"command": "exit 3"}, "failed with exit code 3"),
        ("shell", {"command": "sleep 60"}, "took longer than 5 s"),
        ("shell", {"command": "a\0b"}, "none of them zero"),
        ("nonsense", {}, "there is no tool 'nonsense'"),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path: Path, name: str, arguments: dict[str, Any], said: str) -> None:
    write_task(tmp_path)
    environment = opened(tmp_path)
    observation = do(environment, name, **arguments)
    assert observation.error
    assert said in observation.text
    environment.close()


def test_neither_the_check_nor_the_network_nor_a_neighbour_is_in_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
    folder = write_task(tmp_path)
    one, other = opened(tmp_path), opened(tmp_path)
    (other.directory / "workspace" / "mine.txt").write_text("neighbour")
    for command in (
        f"cat {folder}/check/check.py",
        "ls /check",
        f"cat {other.directory}/workspace/mine.txt",
        "python3 -c \"import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=2)\"",
        f"echo x > {folder}/files/calc.py",
    ):
        assert do(one, "shell", command=command).error, command
    assert "canary" not in do(one, "shell", command="env; cat /proc/1/environ").text
    do(one, "shell", command=f"ln -s {folder} link")
    assert do(one, "read_file", path="link/check/check.py").error
    for environment in (one, other):
        environment.close()


def test_what_commands_may_read_and_run_is_relative_to_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path / "tasks")
    (tmp_path / "tools" / "bin").mkdir(parents=True)
    (tmp_path / "tools" / "bin" / "greet").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "tools" / "bin" / "greet").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    suite = WorkspaceSuite(readable=["tools"], path=["tools/bin"])  # of a config that is named without its directory
    environment = suite.environment(suite.tasks("train")[0])
    environment.start()
    assert "hello" in do(environment, "shell", command=f"ls -d {tmp_path}/tools && greet").text
    assert do(environment, "shell", command="ls -d /tools").error
    environment.close()


def test_a_full_disk_ends_the_episode(tmp_path: Path) -> None:
    write_task(tmp_path)
    environment = opened(tmp_path)
    observation = do(environment, "shell", command="for n in $(seq 1000); do head -c 5M /dev/zero > fill$n; done")
    assert observation.done
    assert "the workspace has more than 20,000,000 bytes" in environment.score().details["reason"]
    environment.close()


def test_protected_paths_are_judged_as_they_were(tmp_path: Path) -> None:
    toml = (
        'instruction = "x"\nsplit = "test"\n[check]\ncommand = "python3 tests/test.py"\nprotected = ["tests/test.py"]\n'
    )
    files = {"tests/test.py": "import sys; sys.path.insert(0, '.'); import calc; assert calc.add(1, 1) == 2\n"}
    write_task(tmp_path, toml=toml, files={**files, "calc.py": CALC}, check="")
    outside = tmp_path / "outside"
    outside.mkdir()
    for trick in ("echo pass > tests/test.py", "rm -r tests; ln -s /tmp tests", f"rm -r tests; ln -s {outside} tests"):
        environment = opened(tmp_path)
        do(environment, "shell", command=trick)
        assert environment.score().success is False, trick
        environment.close()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("printed", "value", "success"),
    [("0.5", 0.5, False), ('{"score": 1, "passed": 3}', 1.0, True), ('{"score": 0.8, "success": true}', 0.8, True)],
)
def test_a_check_may_print_a_score(tmp_path: Path, printed: str, value: float, success: bool) -> None:
    toml = 'instruction = "x"\n[check]\ncommand = "python3 $CHECK/check.py"\nverdict = "json"\n'
    write_task(tmp_path, toml=toml, check=f"print('noise'); print({printed!r})")
    environment = opened(tmp_path)
    score = environment.score()
    assert (score.value, score.success) == (value, success)
    environment.close()


async def test_a_check_without_a_score_is_the_environments_failure(tmp_path: Path) -> None:
    from recompact.environments.protocol import EnvironmentFailed

    toml = 'instruction = "x"\n[check]\ncommand = "true"\nverdict = "json"\n'
    write_task(tmp_path, toml=toml)
    suite = InProcessSuite(suite_of(tmp_path))
    episode = suite.episode((await suite.tasks("train"))[0])
    await episode.start()
    with pytest.raises(EnvironmentFailed, match="must print its score as JSON"):
        await episode.score()
    await episode.close()


def test_the_answer_reaches_the_check(tmp_path: Path) -> None:
    toml = 'instruction = "Say 42."\n[check]\ncommand = "grep -qx 42 $ANSWER_FILE"\n'
    write_task(tmp_path, toml=toml)
    environment = opened(tmp_path)
    do(environment, "finish", answer="42")
    assert environment.score().success
    environment.close()


STEPS = (
    Action("shell", {"command": "echo one > a.txt; ln -s a.txt link; mkdir -p deep/er; echo x > /tmp/scratch"}),
    Action("write_file", {"path": "deep/er/b.txt", "content": "two\n"}),
    Action("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    Action("shell", {"command": "cat a.txt link deep/er/b.txt /tmp/scratch; rm a.txt; ls"}),
    Action("finish", {"answer": "done"}),
)


async def test_snapshots_conform(tmp_path: Path) -> None:
    write_task(tmp_path)
    suite = InProcessSuite(suite_of(tmp_path))
    report = await conformance(suite, (await suite.tasks("train"))[0], STEPS, at=2, branches=4)
    assert report.passed, str(report)
    assert report.strategy == "directory"


@pytest.mark.slow
async def test_snapshots_conform_in_a_host(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks")
    suite = HostedSuite("workspace", {"tasks": "tasks"}, tmp_path, timeout=30, sandbox="off")
    report = await conformance(suite, (await suite.tasks("train"))[0], STEPS, at=3, branches=2)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("instruction = 3", "check"),
        ('[check]\ncommand = "true"', "instruction must be a text and is missing"),
        ('instruction = "x"', "the table [check] with its command is missing"),
        ('instruction = "x"\nspilt = "a"\n[check]\ncommand = "true"', "did you mean 'split'?"),
        ('instruction = "x"\n[check]\ncommand = "true"\nverdict = "maybe"', "exit, json"),
        ('instruction = "x"\n[check]\ncommand = "true"\nprotected = ["../x"]', "not there below files/"),
        ('instruction = "x"\n[check]\ncommand = "true"\n[limits]\nseconds = -1', "a number above zero"),
        ("instruction = ", "cannot be read"),
    ],
)
def test_mistakes_in_a_task_are_named(tmp_path: Path, toml: str, said: str) -> None:
    write_task(tmp_path, toml=toml)
    with pytest.raises(InputError, match=said.replace("[", r"\[").replace("?", r"\?")):
        folders_below(tmp_path)


def git(repo: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(
        ["git", "-C", str(repo), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    (place / "tests").mkdir(parents=True)
    git(tmp_path, "init", "-q", str(place))
    (place / "calc.py").write_text(CALC)
    (place / "tests" / "test_calc.py").write_text("import calc; assert calc.add(1, 1) == 2\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    (place / "calc.py").write_text("changed later\n")
    git(place, "commit", "-q", "-a", "-m", "second")
    return place


def test_a_commit_is_a_task(tmp_path: Path, repo: Path) -> None:
    runner = CliRunner()
    arguments = ["tasks", "add", "calc-1", "--repo", str(repo), "--commit", "HEAD~1"]
    arguments += ["--check", "PYTHONPATH=. python3 tests/test_calc.py", "--instruction", 'Fix "add".\n\tSoon.']
    arguments += ["--tasks", str(tmp_path / "tasks"), "--group", "kind=bug", "--json"]
    result = runner.invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["protected"] == ["tests/test_calc.py"]
    environment = opened(tmp_path / "tasks", "calc-1")
    assert environment.start().prefix[1].content == 'Fix "add".\n\tSoon.'
    assert environment.score().success is False
    do(environment, "shell", command="echo pass > tests/test_calc.py")
    assert environment.score().success is False
    do(environment, "edit_file", path="calc.py", old="a - b", new="a + b")
    assert environment.score().success is True
    environment.close()
    listed = runner.invoke(cli, ["tasks", "list", "--tasks", str(tmp_path / "tasks")])
    assert "calc-1" in listed.output
    again = runner.invoke(cli, arguments)
    assert again.exit_code != 0
    assert "already exists" in str(again.exception)


def test_a_commit_that_is_not_there_leaves_nothing(tmp_path: Path, repo: Path) -> None:
    with pytest.raises(InputError, match="git says"):
        add_repository(tmp_path / "t", "x", repo=str(repo), commit="nope", instruction="i", check="true")
    with pytest.raises(InputError, match="is not a name for a task"):
        add_repository(tmp_path / "t", "../x", repo=str(repo), commit="HEAD", instruction="i", check="true")
    assert list((tmp_path / "t").iterdir()) == []


def test_the_limits_of_a_task_are_its_own(tmp_path: Path) -> None:
    write_task(tmp_path)
    assert folders_below(tmp_path)[0].limits.seconds == 5
    write_task(tmp_path, "other", ADDITION.replace("seconds = 5", "seconds = 7.5"))
    assert [folder.limits.seconds for folder in folders_below(tmp_path)] == [5, 7.5]
