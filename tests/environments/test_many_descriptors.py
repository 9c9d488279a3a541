"""A harness of many hosts has more than a thousand files open: episodes and commands end as ever."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs

from recompact.environments.hosted import HostedSuite
from recompact.environments.process_tree import wait_readable
from recompact.environments.shell import CommandLimits, Shell
from recompact.suites.pocket import PocketSuite

BEYOND = 1_100  # select takes descriptors below 1,024


@pytest.fixture
def many_open() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * BEYOND:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BEYOND), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(BEYOND)]
    yield
    for descriptor in descriptors:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open")
def test_the_end_of_a_process_is_waited_for() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        handle = os.pidfd_open(process.pid)
        assert handle > 1_023
        assert not wait_readable(handle, 0.05)
        process.kill()
        assert wait_readable(handle, 10)
        os.close(handle)


@pytest.mark.usefixtures("many_open")
async def test_a_host_ends_and_leaves_nothing(tmp_path: Path) -> None:
    task = PocketSuite().tasks("train")[0]
    episode = HostedSuite("pocket", directory=tmp_path, timeout=20).episode(task)
    await episode.start()
    await episode.close()


@needs("bubblewrap")
@pytest.mark.usefixtures("many_open")
def test_a_command_in_a_sandbox_ends(tmp_path: Path) -> None:
    shell = Shell.of_this_machine(False, "/testbed", replace(CommandLimits(), seconds=1))
    (tmp_path / "testbed").mkdir()
    assert "hello" in str(shell.run("echo hello", tmp_path / "testbed"))
    shell.run("sleep 60", tmp_path / "testbed")
