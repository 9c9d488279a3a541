"""Ways out of a sandbox that no namespace closes, and processes that try to outlive whoever started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import needs
from processes import gone
from test_sandbox import DAEMON, SUITE, TASK, hosted, played, run, sleeping

from recompact.environments.hosted import HostedEpisode
from recompact.environments.own_directory import remove_tree
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.sandbox import filter_program, find_bubblewrap
from recompact.environments.shell import CommandLimits, Shell

pytestmark = needs("linux")
MODES = ["off", pytest.param("require", marks=needs("bubblewrap"))]
REACH = """
import socket
out = []
for place in {places!r}:
    try:
        if place.endswith("pipe"):
            os.close(os.open(place, os.O_RDWR | os.O_NONBLOCK))
        else:
            socket.socket(socket.AF_UNIX).connect(place)
        out.append(place)
    except OSError:
        pass
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A directory with a suite, and with a name short enough for sockets."""
    place = Path(f"/var/tmp/recompact-{uuid.uuid4().hex[:8]}")
    (place / "inner").mkdir(parents=True)
    (place / "shell.py").write_text(SUITE)
    yield place
    remove_tree(place)


@needs("bubblewrap")
async def test_pipes_and_sockets_of_others_are_not_reached(project: Path) -> None:
    places = [str(project / name) for name in ("socket", "pipe", "inner/socket", "inner/pipe")]
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        for listener, place in ((one, places[0]), (other, places[2])):
            listener.bind(place)
            listener.listen()
        for place in places[1::2]:
            os.mkfifo(place)
        code = REACH.format(places=places)
        assert await played(hosted(project, sandbox="require"), code) == ["[]"]
        outside = json.loads((await played(hosted(project, sandbox="off"), code))[0])
        assert outside == places


CALLS = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
out = []
for family in range(1, 46):
    try:
        socket.socket(family, socket.SOCK_STREAM if family != 16 else socket.SOCK_RAW).close()
        out.append(family)
    except OSError:
        pass
key = {"x86_64": 250}.get(os.uname().machine, 219)
out.append("keys" if libc.syscall(key, 0, -3, 0) > 0 else "no keys")
libc.syscall(425, 1, None)
out.append("io_uring" if ctypes.get_errno() != 38 else "no io_uring")
for call, most in zip(((29, 64) if key == 250 else (194, 190)), (16384, 32)):
    out += [libc.syscall(call, 0, ctypes.c_size_t(size), 0o600) >= 0 for size in (most, most + 1, most + (1 << 32))]
out.append(libc.syscall(68 if key == 250 else 186, 0, 0o600) >= 0)
a, b = socket.socketpair()
out = " ".join(map(str, out))
"""


@needs("bubblewrap")
@pytest.mark.skipif(filter_program(os.uname().machine) is None, reason="the calls of this machine are not known")
async def test_system_calls_that_no_namespace_confines_are_refused(project: Path) -> None:
    (seen,) = await played(hosted(project, sandbox="require"), CALLS)
    hoards = ["True", "False", "False"] * 2 + ["False"]
    assert seen.split() == ["1", "2", "10", "16", "no", "keys", "no", "io_uring", *hoards]


@needs("bubblewrap")
def test_a_shell_command_has_no_way_out_either(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    code = "import socket; print(socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))"
    shell = Shell(find_bubblewrap()[0], "/work")
    assert "not supported" in shell.run(f"/usr/bin/python3 -c '{code}' 2>&1 || echo not supported", work).output


HOARDS = {
    "memory": """perl -e '$n = "x"; syscall(319, $n, 0); open(F, ">&=3"); print F "y" x 1048576 for 1..60; sleep 20'""",
    "removed": "exec 9<>big; rm big; head -c 20000000 /dev/zero >&9; head -c 20000000 /dev/zero >&9; sleep 20",
}


@needs("bubblewrap")
@pytest.mark.parametrize("what", HOARDS)
def test_a_shell_command_has_no_files_without_a_name(what: str, tmp_path: Path) -> None:
    if what == "memory" and os.uname().machine != "x86_64":
        pytest.skip("the number of the call is another one")
    work = tmp_path / "work"
    work.mkdir()
    memory = 40_000_000 if what == "memory" else 1 << 30
    limits = CommandLimits(seconds=15, memory=memory, file=1 << 30, disk=30_000_000)
    assert what in Shell(find_bubblewrap()[0], "/work", limits).run(HOARDS[what], work).stopped


async def daemon_of(episode: HostedEpisode) -> list[int]:
    seconds = str(31_536_000 + uuid.uuid4().int % 10**8)
    await run(episode, DAEMON.format(seconds=seconds))
    async with asyncio.timeout(5):
        while not (pids := sleeping(seconds)):
            await asyncio.sleep(0.02)
    return pids


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 11)"])
async def test_daemons_end_with_a_host_that_ends_by_itself(project: Path, mode: str, end: str) -> None:
    episode = hosted(project, sandbox=mode).episode(TASK)
    assert isinstance(episode, HostedEpisode)
    await episode.start()
    pids = await daemon_of(episode)
    with pytest.raises(EnvironmentFailed, match=r"exit code (3|-11)\)"):
        await run(episode, end)
    await gone(*pids)
    await episode.close()


DRIVER = """
import asyncio, sys
from pathlib import Path
from test_sandbox import TASK, hosted
from test_ways_out import daemon_of

async def main():
    episode = hosted(Path(sys.argv[1]), sandbox=sys.argv[2]).episode(TASK)
    await episode.start()
    print(*await daemon_of(episode), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", MODES)
async def test_daemons_end_with_a_driver_that_is_killed(project: Path, mode: str) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    driver = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DRIVER, project, mode),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert driver.stdout is not None
    pids = [int(word) for word in (await driver.stdout.readline()).split()]
    assert pids
    os.kill(driver.pid, signal.SIGKILL)
    await driver.wait()
    await gone(*pids)
