"""What a sandbox may write to: file systems of their own in memory, whose size the kernel holds."""

from __future__ import annotations

import errno
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs
from test_sandbox import SUITE, TASK, played, run

from recompact.environments import host_client, sandbox
from recompact.environments.files import tree_excess
from recompact.environments.hosted import HostedEpisode, HostedSuite
from recompact.environments.own_directory import own_directory
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.sandbox import HostLimits, SandboxPolicy, find_bubblewrap, kernel_limit, wrap_command

pytestmark = needs("sized places")
MIB = 1024**2
LIMITS = HostLimits(disk=20 * MIB, memory=400 * MIB)
HELD = kernel_limit(LIMITS.disk)

FILL = """
import os, sys
{hidden}
written = 0
try:
    while written < 200 << 20:
        written += os.write(file, bytes(1 << 20))
    out = [0, written]
except OSError as error:
    out = [error.errno, written]
"""
NAMED = "file = os.open({place!r} + '/f', os.O_CREAT | os.O_WRONLY)"
UNLINKED = f"{NAMED}; os.unlink({{place!r}} + '/f')"
WAYS = [pytest.param(NAMED, id="named"), pytest.param(UNLINKED, id="unlinked")]


def filling(way: str, place: str) -> str:
    return FILL.format(hidden=way.format(place=place))


@pytest.mark.parametrize("user", ["this", pytest.param("ordinary", marks=needs("root"))])
@pytest.mark.parametrize("place", ["/tmp", "/home/x", "/dev/shm"])
@pytest.mark.parametrize("way", WAYS)
def test_the_kernel_holds_what_is_written(place: str, way: str, user: str) -> None:
    program, _ = find_bubblewrap()
    assert program is not None
    policy = SandboxPolicy("/", scratch=LIMITS.in_memory(program, "/tmp", "/home/x"))
    script = f"{filling(way, place)}\nprint(*out)"
    command = wrap_command(program, ["/usr/bin/python3", "-I", "-S", "-c", script], policy)
    if user == "ordinary":
        prefix = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
        if subprocess.run([*prefix, *wrap_command(program, ["/bin/true"], policy)], capture_output=True).returncode:
            pytest.skip("an ordinary user cannot shut anything in here")
        command = [*prefix, *command]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    error, written = map(int, ran.stdout.split())
    assert error == errno.ENOSPC, ran.stderr
    assert written <= (64 * MIB if place == "/dev/shm" else HELD)


@pytest.fixture
def suite(tmp_path: Path) -> HostedSuite:
    (tmp_path / "shell.py").write_text(SUITE)
    return HostedSuite("shell.py:Suite", {}, tmp_path, timeout=60, sandbox="require", limits=LIMITS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["/tmp", "/home/episode"])
async def test_a_host_that_nobody_looks_at_fills_no_disk(
    suite: HostedSuite, place: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_client, "_LOOK", 1000.0)
    monkeypatch.setattr(host_client, "_IDLE_LOOK", 1000.0)
    episode = suite.episode(TASK)
    assert isinstance(episode, HostedEpisode)
    try:
        await episode.start()
        error, written = eval(await run(episode, filling(way, place)))
        assert (error, written) == (errno.ENOSPC, HELD)
        assert tree_excess(own_directory(), MIB) == ""
    finally:
        await episode.close()


@pytest.mark.parametrize("way", WAYS)
async def test_one_that_is_looked_at_is_told_which_limit_it_was(suite: HostedSuite, way: str) -> None:
    code = f"{filling(way, '/tmp')}\nimport time; time.sleep(60)"
    with pytest.raises(EnvironmentFailed, match=r"\[suite.limits\] disk.*its host was killed"):
        await played(suite, code)


async def test_empty_files_count(suite: HostedSuite) -> None:
    """The kernel needs memory for each, and no file system has a limit for how many of ours there are."""
    code = "import time\nfor n in range(25_000): os.close(os.open(f'/tmp/{n}', os.O_CREAT))\ntime.sleep(60)"
    with pytest.raises(EnvironmentFailed, match=r"\[suite.limits\] disk"):
        await played(suite, code)


KEEP = "words.append(bytearray(os.urandom(1)) * (60 << 20)); import time; time.sleep(2); out = 'kept'"
WRITE = "open('/tmp/f', 'wb').write(bytes(80 << 20))"
MAP = """import mmap, time; f = os.open('/tmp/f', os.O_RDWR); m = mmap.mmap(f, 80 << 20); words.append(m)
sum(m[::4096]); time.sleep(2); out = 'mapped'"""


async def test_what_is_written_counts_as_memory(suite: HostedSuite) -> None:
    limits = HostLimits(disk=100 * MIB, memory=130 * MIB)
    assert await played(replace(suite, limits=limits), KEEP) == ["kept"]
    with pytest.raises(EnvironmentFailed, match=r"\[suite.limits\] memory"):
        await played(replace(suite, limits=limits), WRITE, KEEP)


async def test_what_is_written_and_mapped_counts_once(suite: HostedSuite) -> None:
    seen = await played(replace(suite, limits=HostLimits(disk=100 * MIB, memory=130 * MIB)), WRITE, MAP)
    assert seen[-1] == "mapped"


async def test_more_disk_than_memory_is_on_disk(suite: HostedSuite) -> None:
    limits = HostLimits(disk=500 * MIB, memory=400 * MIB)
    episode = replace(suite, limits=limits).episode(TASK)
    assert isinstance(episode, HostedEpisode)
    try:
        await episode.start()
        await run(episode, WRITE)
        assert tree_excess(own_directory(), 80 * MIB - 1)
    finally:
        await episode.close()


def test_an_older_bubblewrap_writes_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_help", lambda program: "--tmpfs DEST")
    assert LIMITS.in_memory("bwrap", "/tmp") == {}
    monkeypatch.setattr(sandbox, "_help", lambda program: "--size BYTES --tmpfs DEST")
    assert LIMITS.in_memory("bwrap", "/tmp") == {"/tmp": HELD}
    assert LIMITS.in_memory(None, "/tmp") == {}
