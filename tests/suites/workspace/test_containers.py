"""Harbor's tasks in containers, with the real podman or docker of this machine, on an image that is built here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from recompact.environments.conformance import conformance
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import EnvironmentFailed
from recompact.suites.workspace.environment import ContainerEnvironment
from recompact.suites.workspace.folder import CheckFailed
from recompact.suites.workspace.suite import WorkspaceSuite
from recompact.values.trajectory import Action

pytestmark = needs("containers")

ENGINE = os.environ.get("RECOMPACT_TEST_CONTAINERS", "")
DOCKERFILE = """FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "/bin/busybox --install -s /bin && mkdir -p /app /tmp"]
WORKDIR /app
COPY word.txt word.txt
"""
TEST = """#!/bin/sh
test "$EXPECTED" = amber && diff /tests/expected.txt note.txt > /dev/null && reward=1 || reward=0
echo "{\\"reward\\": $reward, \\"tries\\": 2}" > /logs/verifier/reward.json
"""
TOML = """schema_version = "1.4"
[environment]
memory_mb = 128
storage_mb = 32
[verifier]
env = {EXPECTED = "amber"}
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    task = tmp_path / "tasks" / "amber"
    for name in ("environment", "tests"):
        (task / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None, "apt-get install busybox-static"
    shutil.copy(busybox, task / "environment" / "busybox")
    for name, text in {
        "task.toml": TOML,
        "instruction.md": "Copy the word into note.txt.",
        "environment/Dockerfile": DOCKERFILE,
        "environment/word.txt": "amber\n",
        "tests/test.sh": TEST,
        "tests/expected.txt": "amber\n",
    }.items():
        (task / name).write_text(text)
    return tmp_path / "tasks"


@pytest.fixture
def environment(tasks: Path) -> Iterator[ContainerEnvironment]:
    environment = fresh(tasks)
    environment.start()
    yield environment
    environment.close()
    assert containers() == set()


def fresh(tasks: Path) -> ContainerEnvironment:
    suite = WorkspaceSuite(tasks, container=ENGINE)
    (task,) = suite.tasks("train")
    environment = suite.environment(task)
    assert isinstance(environment, ContainerEnvironment)
    return environment


def containers() -> set[str]:
    listed = [*ENGINE.split(), "ps", "--all", "--filter", "label=recompact", "--format", "{{.Names}}"]
    return set(subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split())


def shell(environment: ContainerEnvironment, command: str) -> str:
    return environment.step(Action("shell", {"command": command})).text


def do(environment: ContainerEnvironment, name: str, **arguments: Any) -> str:
    return environment.step(Action(name, arguments)).text


def test_a_task_is_played_restored_and_judged_in_its_container(environment: ContainerEnvironment, tasks: Path) -> None:
    assert shell(environment, "pwd; cat word.txt; ls /tests /logs 2>/dev/null") != ""
    assert "amber" in do(environment, "read_file", path="word.txt")
    do(environment, "write_file", path="deep/down/one.txt", content="first")
    assert "changed" in do(environment, "edit_file", path="/app/deep/down/one.txt", old="first", new="second")
    assert "no regular file" in do(environment, "read_file", path="/dev/zero")
    shell(environment, "rm word.txt; ln -s nowhere link; mkdir -m 700 empty; echo x > '/odd [name] $(id)'")
    listing = "ls -A . /; cat /odd* deep/down/*; readlink link; stat -c %a empty"
    before, state = shell(environment, listing), environment.snapshot()
    shell(environment, "rm -r deep link; echo red > note.txt")
    assert (environment.score().success, environment.score().details) == (False, {"tries": 2})
    other = fresh(tasks)
    other.restore(state)
    environment.restore(state)
    assert before == shell(environment, listing) == shell(other, listing)
    assert "second" in before
    shell(other, "echo amber > note.txt")
    other.step(Action("finish", {"answer": "Done."}))
    assert other.score().value == 1.0
    other.close()


def test_there_is_no_network_and_limits_hold(environment: ContainerEnvironment) -> None:
    assert shell(environment, "ls /sys/class/net").split() == ["lo"]
    assert "137" in shell(environment, "head -c 500000000 /dev/zero | tail")  # more memory than the task has
    assert "printed more" in shell(environment, "yes")
    assert "yes" not in shell(environment, "ps | grep -v grep | grep yes || true")
    assert "amber" in shell(environment, "cat word.txt")
    ended = environment.step(
        Action("shell", {"command": "i=0; while true; do i=$((i+1)); head -c 9000000 /dev/zero > /tmp/f$i; done"})
    )
    assert ended.done
    assert environment.score().success is False
    assert containers() == set()


def test_what_runs_on_is_restored_by_replay(environment: ContainerEnvironment) -> None:
    shell(environment, "sleep 500 > /dev/null 2>&1 &")
    with pytest.raises(NotImplementedError):
        environment.snapshot()
    assert "sleep 500" in shell(environment, "ps")


@pytest.mark.parametrize("command", ["rm -rf /bin", "rm -f /bin/sh /bin/tar; kill -9 1"])
def test_an_agent_that_destroys_its_container_has_failed(environment: ContainerEnvironment, command: str) -> None:
    shell(environment, command)
    assert environment.step(Action("shell", {"command": "ls"})).error
    assert environment.score().success is False


@pytest.mark.parametrize("reward", ["", "echo much > /logs/verifier/reward.txt", "echo 7 > /logs/verifier/reward.txt"])
def test_a_verifier_without_a_reward_says_nothing_about_the_agent(reward: str, tasks: Path) -> None:
    (tasks / "amber" / "tests" / "test.sh").write_text(f"#!/bin/sh\n{reward}\n")
    environment = fresh(tasks)
    environment.start()
    with pytest.raises(CheckFailed, match="network_mode"):
        environment.score()
    environment.close()


def test_an_image_that_cannot_be_made_or_started_says_why(tasks: Path) -> None:
    (tasks / "amber" / "environment" / "Dockerfile").write_text(DOCKERFILE + "RUN false\n")
    with pytest.raises(EnvironmentFailed, match="cannot be built"):
        fresh(tasks).start()
    (tasks / "amber" / "environment" / "Dockerfile").write_text(DOCKERFILE + 'ENTRYPOINT ["/bin/false"]\n')
    with pytest.raises(EnvironmentFailed, match="cannot start a container"):
        fresh(tasks).start()
    assert containers() == set()


def test_a_container_goes_with_a_driver_that_is_killed(tasks: Path) -> None:
    script = (
        "import sys; from recompact.suites.workspace.suite import WorkspaceSuite as S;"
        "from recompact.values.trajectory import Action;"
        f"s = S({str(tasks)!r}, container={ENGINE!r}); e = s.environment(s.tasks('train')[0]); e.start();"
        "print('up', flush=True);"
        "e.step(Action('shell', {'command': \"setsid sleep 500 & trap '' HUP TERM; sleep 600\"}))"
    )
    driver = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"up\n"
    assert len(containers()) == 1
    driver.kill()
    driver.wait()
    driver.stdout.close()
    end = time.monotonic() + 60
    while containers() and time.monotonic() < end:
        time.sleep(0.5)
    assert containers() == set()


@pytest.mark.slow
async def test_containers_are_restored_as_every_environment_is(tasks: Path) -> None:
    options = {"tasks": "tasks", "container": ENGINE}
    suite = HostedSuite("workspace", options, tasks.parent, timeout=120, sandbox="off")
    (task,) = await suite.tasks("train")
    actions = [
        Action("shell", {"command": command})
        for command in ("cat word.txt", "rm word.txt; echo 1 > /etc/new", "cat /etc/new; ls", "echo amber > note.txt")
    ]
    report = await conformance(suite, task, actions, branches=2)
    assert report.passed, str(report)
    assert containers() == set()


def test_a_state_is_its_own_and_small(environment: ContainerEnvironment) -> None:
    empty = len(environment.snapshot())
    shell(environment, "head -c 100000 /dev/urandom > big")
    head, _, archive = environment.snapshot().partition(b"\n")
    assert json.loads(head)["gone"] == []
    assert 100_000 < len(archive) < 130_000 + empty
