"""What hosts use of this machine, and how much of it they may: processes, memory, disk, and how many there can be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from recompact.environments.files import tree_excess
from recompact.environments.process_tree import held_open, proportional, resident, used_in_memory
from recompact.environments.sandbox import HostLimits

_FILES_EACH = 8  # open files of the harness for one host, at most

_log = logging.getLogger(__name__)


def excess(pids: Sequence[int], limits: HostLimits, scratch: Sequence[int] = ()) -> str:
    """What these processes use too much of, or nothing. `scratch` are the file systems that
    they have in memory."""
    if len(pids) > limits.processes:
        return f"it had more than {limits.processes} processes ([suite.limits] processes)"
    memory, disk = held_open(pids)
    if disk > limits.disk:
        return f"it wrote more than {limits.disk:,} bytes to files that it removed and kept open ([suite.limits] disk)"
    written = used_in_memory(scratch)
    if written > limits.disk:
        return _disk_excess(f"more than {limits.disk:,} bytes")
    memory += written
    if sum(map(resident, pids)) + memory > limits.memory:
        own, mapped = (sum(bytes) for bytes in zip(*map(proportional, pids), strict=True))
        if own + max(mapped, memory) > limits.memory:
            return memory_excess(limits)
    return ""


def memory_excess(limits: HostLimits) -> str:
    """What is said of processes that used too much memory, whoever noticed it: the harness or the kernel."""
    return f"it used more than {limits.memory:,} bytes of memory ([suite.limits] memory)"


def disk_excess(private: Path, limits: HostLimits) -> str:
    """A message if a host has overfilled its own directories, or nothing. With many files this takes a while."""
    excess = tree_excess(private, limits.disk)
    return _disk_excess(excess) if excess else ""


def _disk_excess(excess: str) -> str:
    return f"it wrote {excess} to its directories ([suite.limits] disk)"


class _Places:
    """How many hosts there may be at once, given how many files this process may open."""

    def __init__(self) -> None:
        self._used = 0
        self._warned = False

    async def take(self) -> None:
        while self._used >= (most := self._most()):
            if not self._warned:
                self._warned = True
                _log.warning("only %d hosts at once: more would need a higher limit of open files (ulimit -n)", most)
            await asyncio.sleep(0.05)
        self._used += 1

    def give_back(self) -> None:
        self._used -= 1

    def _most(self) -> int:
        limit = open_files_limit()
        return max(2, (limit - min(128, limit // 2)) // _FILES_EACH)


PLACES = _Places()


@cache
def open_files_limit() -> int:
    """How many files this process may open, after asking for as many as it can get."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if wanted > soft:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft
