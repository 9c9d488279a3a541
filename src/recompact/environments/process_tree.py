"""The processes below one, from /proc: who they are, what they use together, and how they are ended. Linux only."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Collection, Iterable, Mapping


def descendants(pid: int, most: int = 100_000) -> list[int]:
    """A process and all below it, parents first."""
    pending, pids = [pid], list[int]()
    while pending and len(pids) <= most:
        each = pending.pop()
        pids.append(each)
        pending += children_of(each)
    return pids


def wait_readable(descriptor: int, seconds: float) -> bool:
    """Wait until there is something to read, or until the process that the descriptor stands for has ended.

    Uses poll, since select takes no descriptor above 1,023, and a harness with many hosts has more.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def children_of(pid: int) -> list[int]:
    """The children of all its threads."""
    children: list[int] = []
    with contextlib.suppress(OSError, ValueError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    return children


def resident(pid: int) -> int:
    """Bytes of memory of one process, including those it shares with others."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def proportional(pid: int) -> tuple[int, int]:
    """Bytes of memory of one process, where a page that n processes share counts 1/n: its own, and those of files that
    are only memory. Where this cannot be known, because it lets nobody look, all of its memory is its own."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.startswith("Pss")}
        shared = sizes.get("Pss_Shmem:", 0)
        return sizes.get("Pss:", 0) - shared, shared
    return resident(pid), 0


def held_open(pids: Iterable[int]) -> tuple[int, int]:
    """Bytes of memory and of disk in files without a name that these processes have open or mapped: what was made as
    memory only, and what was removed. Neither is found anywhere else."""
    memory: dict[tuple[int, int], int] = {}
    disk: dict[tuple[int, int], int] = {}
    for pid in pids:
        for path, target in (*_open_files(pid), *_mapped_files(pid)):
            with contextlib.suppress(OSError):  # it has just been closed, or only root may ask
                status = os.stat(path)
                kind = memory if target.startswith(_MEMORY) else disk
                kind[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(memory.values()), sum(disk.values())


def open_in_memory(pids: Iterable[int], sizes: Mapping[str, int]) -> list[int]:
    """Descriptors of these places, file systems of their own in memory, as one of the processes sees them. One that
    sees file systems of another size there is not in the sandbox yet."""
    for pid in pids:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):  # only root may ask about the first
            handles = []
            for place, size in sizes.items():
                handles.append(os.open(f"/proc/{pid}/root{place}", os.O_PATH | os.O_DIRECTORY))
                stack.callback(os.close, handles[-1])
                system = os.fstatvfs(handles[-1])
                if system.f_blocks != -(-size // system.f_frsize):
                    raise FileNotFoundError(place)
            stack.pop_all()
            return handles
    return []


def used_in_memory(handles: Iterable[int]) -> int:
    """Bytes that such file systems take, also when all that saw them have ended."""
    systems = list(map(os.fstatvfs, handles))
    blocks = sum((each.f_blocks - each.f_bfree) * each.f_frsize for each in systems)
    return blocks + sum((each.f_files - each.f_ffree) * _NAME_COST for each in systems)


_NAME_COST = 1024  # bytes that the kernel needs for a file, however empty
_REMOVED = " (deleted)"
_MEMORY = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")  # the third is memory that is mapped to be shared


def _open_files(pid: int) -> list[tuple[str, str]]:
    """Files without a name that a process has open: the way to each, and what it was called."""
    files: list[tuple[str, str]] = []
    with contextlib.suppress(OSError):  # it has just ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(path := f"/proc/{pid}/fd/{name}")
                if target.endswith(_REMOVED):
                    files.append((path, target))
    return files


def _mapped_files(pid: int) -> list[tuple[str, str]]:
    """The same of files that it has mapped, and may have closed."""
    files: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="replace") as file:
        for line in file:
            if line.endswith(f"{_REMOVED}\n"):
                span, _, _, device, inode, target = line.split(maxsplit=5)
                files[f"{device} {inode}"] = (f"/proc/{pid}/map_files/{span}", target.rstrip())
    return list(files.values())


def stop_tree(pid: int) -> list[int]:
    """Stop a process and all below it before they are killed: a stopped one starts nothing more and still leads to its
    children."""
    stopped: list[int] = []
    while new := set(descendants(pid)).difference(stopped):
        signal_all(new, signal.SIGSTOP)
        stopped += new
    return stopped


def kill_all(pids: Collection[int]) -> None:
    signal_all(pids, signal.SIGKILL)


def signal_all(pids: Collection[int], number: signal.Signals) -> None:
    """Signal each through a handle opened first, so that a reused pid is not mistaken for the process."""
    for pid in pids:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
