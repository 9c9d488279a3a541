"""What processes use without its being in their memory or in their directories, and what they inherit unseen."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from recompact.agents import launcher
from recompact.environments import host_client
from recompact.environments.host_usage import excess
from recompact.environments.hosted import HostedEpisode, HostedSuite
from recompact.environments.process_tree import held_open
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.environments.sandbox import (
    HostLimits,
    SandboxPolicy,
    find_bubblewrap,
    system_call_filter,
    wrap_command,
)
from recompact.values.trajectory import Action

MIB = 1024**2
MEMORY = "import os; f = os.memfd_create('x'); os.write(f, bytes(40 << 20)); print(1, flush=True); input()"
DISK = """import os, tempfile; f = tempfile.TemporaryFile(dir={place!r}); f.write(bytes(40 << 20)); f.flush()
os.fsync(f.fileno()); print(1, flush=True); input()"""


@pytest.mark.parametrize(("kind", "code"), [("memory", MEMORY), ("disk", DISK)])
def test_files_without_a_name_count(kind: str, code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", code.format(place=str(tmp_path)) if kind == "disk" else code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory, disk = held_open([process.pid, process.pid])
        limits = replace(HostLimits(), memory=39 * MIB if kind == "memory" else 1 << 40, disk=39 * MIB)
        reason = excess([process.pid], limits)
        process.communicate(b"\n")
    assert (memory >= 40 * MIB, disk >= 40 * MIB) == (kind == "memory", kind == "disk")
    assert f"[suite.limits] {kind}" in reason
    assert excess([process.pid], limits) == ""


MAPPED_MEMORY = """import mmap, os; f = os.memfd_create('x'); os.truncate(f, 40 << 20); m = mmap.mmap(f, 40 << 20)
m[:] = bytes(40 << 20); m.madvise(mmap.MADV_DONTNEED); os.closerange(3, 20); print(1, flush=True); input()"""
SHARED_MEMORY = """import mmap; m = mmap.mmap(-1, 40 << 20); m[:] = bytes(40 << 20); m.madvise(mmap.MADV_DONTNEED)
print(1, flush=True); input()"""
MAPPED_DISK = """import mmap, os, tempfile; f = tempfile.TemporaryFile(dir={place!r}); f.write(bytes(40 << 20))
f.flush(); n = f.fileno(); os.fsync(n); m = mmap.mmap(n, 40 << 20); os.closerange(3, 20)
print(1, flush=True); input()"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may ask for mapped files")
@pytest.mark.parametrize(
    ("kind", "code"), [("memory", MAPPED_MEMORY), ("memory", SHARED_MEMORY), ("disk", MAPPED_DISK)]
)
def test_files_that_are_mapped_and_closed_count(kind: str, code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", code.format(place=str(tmp_path)) if kind == "disk" else code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory, disk = held_open([process.pid, process.pid])
        process.communicate(b"\n")
    assert (memory >= 40 * MIB, disk >= 40 * MIB) == (kind == "memory", kind == "disk")


def test_memory_that_nobody_may_look_at_counts_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a program that has made itself undumpable, for an ordinary user."""
    real = open

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).endswith("smaps_rollup"):
            raise PermissionError(path)
        return real(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        reason = excess([os.getpid()], replace(HostLimits(), memory=MIB))
    assert "[suite.limits] memory" in reason


SUITE = textwrap.dedent("""
    import subprocess, sys
    from recompact.environments.functions import function_suite

    WRITING = '''import tempfile, time
    time.sleep(1)
    with tempfile.TemporaryFile() as f:
        f.write(bytes(40 << 20)); f.flush(); time.sleep(60)'''

    def begin() -> str:
        "Leave a process behind that writes later."
        subprocess.Popen([sys.executable, "-c", WRITING], start_new_session=True)
        return "begun"

    suite = function_suite("lazy", [begin], {"1": ("Do it.", "x")})
""")


async def test_a_host_is_watched_while_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_client, "_IDLE_LOOK", 0.2)
    (tmp_path / "lazy.py").write_text(SUITE)
    limits = replace(HostLimits(), disk=20 * MIB)
    suite = HostedSuite("lazy.py:suite", {}, tmp_path, timeout=60, sandbox="off", limits=limits)
    episode = suite.episode(Task("1", "Do it."))
    assert isinstance(episode, HostedEpisode)
    try:
        await episode.start()
        await episode.step(Action("begin"))
        async with asyncio.timeout(60):
            while not episode._client._excess:
                await asyncio.sleep(0.1)
        with pytest.raises(EnvironmentFailed, match=r"\[suite.limits\] disk.*its host was killed"):
            await episode.step(Action("begin"))
    finally:
        await episode.close()


KEYS = textwrap.dedent("""
    import ctypes, os, subprocess, sys
    libc = ctypes.CDLL(None)
    keyctl, add = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
    if sys.argv[1] == "search":
        print(libc.syscall(keyctl, 10, -3, b"user", b"canary", 0) > 0)
    else:
        libc.syscall(keyctl, 1, None)
        assert libc.syscall(add, b"user", b"canary", b"secret", 6, -3) > 0
        for prefix in ([], sys.argv[2:]):
            subprocess.run([*prefix, sys.executable, __file__, "search"], check=True)
""")


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"), reason="Linux")
def test_the_users_keyring_is_left_before_an_agent_is_started(tmp_path: Path) -> None:
    script = tmp_path / "keys.py"
    script.write_text(KEYS)
    prefix = [sys.executable, "-I", "-S", launcher.__file__, "-", "0", json.dumps({})]
    ended = subprocess.run([sys.executable, script, "add", *prefix], capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip("this machine has no keyrings")
    assert ended.stdout.split() == ["True", "False"]


def test_a_host_leaves_the_users_keyring(tmp_path: Path) -> None:
    script = tmp_path / "keys.py"
    script.write_text(KEYS)
    leave = "from recompact.environments.host import leave_keyring; import os, sys; leave_keyring()"
    prefix = [sys.executable, "-c", f"{leave}; os.execv(sys.argv[1], sys.argv[1:])"]
    ended = subprocess.run([sys.executable, script, "add", *prefix], capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip("this machine has no keyrings")
    assert ended.stdout.split() == ["True", "False"]


NAMES = textwrap.dedent("""
    import ctypes, os, subprocess, sys
    libc = ctypes.CDLL(None)
    keyctl, add = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
    number = libc.syscall(add, b"user", b"canary-of-the-user", b"secret", 6, -4)
    assert number > 0 and "canary-of-the-user" in open("/proc/keys").read()
    try:
        subprocess.run(sys.argv[2:], check=True, pass_fds=list(map(int, filter(None, sys.argv[1].split(",")))))
    finally:
        libc.syscall(keyctl, 9, number, -4)
""")


@needs("bubblewrap")
def test_a_sandbox_does_not_see_what_the_users_keys_are_called(tmp_path: Path) -> None:
    script = tmp_path / "names.py"
    script.write_text(NAMES)
    program, _ = find_bubblewrap()
    assert program is not None
    policy = SandboxPolicy("/", variables={"PATH": "/usr/bin:/bin"})
    with system_call_filter() as filters:
        look = wrap_command(program, ["/bin/sh", "-c", "cat /proc/keys /proc/key-users; echo seen"], policy, filters)
        numbers = ",".join(map(str, filters))
        command = [sys.executable, str(script), numbers, *look]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=filters)
    if ended.returncode:
        pytest.skip("this machine has no keyrings")
    assert ended.stdout == "seen\n"
