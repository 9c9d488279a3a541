"""Which processes are alive, and which tests need Linux."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

from recompact.environments.process_tree import descendants


def seen_from_outside(top: int, inner: int) -> int | None:
    """The pid of the process below `top` that calls itself `inner`, in whichever namespace it lives."""
    for pid in descendants(top):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/status") as file:
            names = next(line for line in file if line.startswith("NSpid:")).split()[1:]
            if int(names[-1]) == inner:
                return pid
    return None


async def gone(*pids: int) -> None:
    """Wait until all of them have ended; five seconds are a failure."""
    async with asyncio.timeout(5):
        while any(map(alive, pids)):
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """A zombie is not. Where there is no /proc, `ps` knows: a missing file must not pass for a dead process."""
    if Path("/proc/self/stat").exists():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
    else:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state[:1] not in ("", "Z", "X")


def marked(mark: str) -> dict[int, str]:
    """The processes of this machine that have the mark in their environment or among their arguments, with what they
    are called. Whatever a marked process starts is marked too, unless it hides on purpose."""
    names: dict[int, str] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        for file in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if pid != os.getpid() and mark.encode() in Path(f"/proc/{pid}/{file}").read_bytes() and alive(pid):
                    names[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return names


async def nothing_marked(mark: str, seconds: float = 10.0) -> None:
    """Wait until no marked process is alive; those that still are after so long are a failure."""
    deadline = asyncio.get_running_loop().time() + seconds
    while survivors := marked(mark):
        assert asyncio.get_running_loop().time() < deadline, f"left running: {survivors}"
        await asyncio.sleep(0.05)
