"""What processes use without its being in their memory or in their directories, and what they inherit unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from recompact.agents import launcher
from recompact.environments.host_usage import excess
from recompact.environments.process_tree import held_open
from recompact.environments.sandbox import HostLimits

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
