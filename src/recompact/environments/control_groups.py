"""Linux control groups: a bound on how many processes and how much memory a command has, which the kernel enforces.

For cases where a limit inside a sandbox is not enforced, such as for root. Needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recompact.environments.process_tree import kill_all

_log = logging.getLogger(__name__)

_MEMBERS = "cgroup.procs"
_NAME = re.compile(r"recompact-(\d+)-\d+")
_NUMBERS = itertools.count()
_ENTER = 'echo 0 > "$0" && exec "$@"'  # 0 is the process that writes it
_ENTER_BOTH = 'echo 0 > "$0" && echo 0 > "$1" && shift && exec "$@"'
_MEMORY = {"memory.max": "memory.swap.max", "memory.limit_in_bytes": ""}  # version 2 and 1, and what must be 0 then
_PATIENCE = 10.0  # seconds for the kernel to end what was killed
_POLL = 0.005


@dataclass(frozen=True)
class ControlGroup:
    """A group of processes: whatever a member starts is a member too. Without a place there is no group, and commands
    run as they are."""

    place: Path | None = None
    memory: Path | None = None  # its group in the hierarchy that limits memory, where that is another one (version 1)

    @staticmethod
    def new(parent: Path, tasks: int, memory: int = 0, memory_parent: Path | None = None) -> ControlGroup:
        """A group with room for that many tasks, threads included, and so many bytes of memory, as far as there is a
        controller for them. Raises OSError where none can be made."""
        _remove_left_behind(parent, os.getpid())
        while True:
            place = parent / f"recompact-{os.getpid()}-{next(_NUMBERS)}"
            with contextlib.suppress(FileExistsError):  # of a process that had our pid before, or elsewhere
                place.mkdir()
                break
        with ControlGroup(place).kept_on_success() as group:
            (place / "pids.max").write_text(str(tasks))
            (place / place.name).mkdir()  # its processes are one below, where no file that they may write limits them
            if memory and not _limit_memory(place, memory) and memory_parent is not None:
                with contextlib.suppress(OSError):  # it stays watched
                    group = ControlGroup(place, memory_parent / place.name)
                    (memory_parent / place.name / place.name).mkdir(parents=True)
                    _limit_memory(memory_parent / place.name, memory)
        return group

    def entered(self, arguments: Sequence[str]) -> list[str]:
        """The command line that runs another one in this group."""
        if self.place is None:
            return list(arguments)
        members = [str(place / place.name / _MEMBERS) for place in (self.place, self.memory) if place is not None]
        return ["/bin/sh", "-c", _ENTER_BOTH if self.memory else _ENTER, *members, *arguments]

    def pids(self) -> list[int]:
        """All processes in it, including those whose parents have ended."""
        return [] if self.place is None else list(_members(self.place))

    def refused(self) -> bool:
        """Whether the kernel has kept a process in it from starting another one, or a thread."""
        if self.place is None:
            return False
        places = (self.place, self.place / self.place.name)  # kernels differ in where they count
        return any(_refusals(place) for place in places)

    def out_of_memory(self) -> bool:
        """Whether the kernel has ended a process in it for its memory, which can be sooner than anybody looked."""
        groups = [place for place in (self.place, self.memory) if place is not None]
        return any(_kills(inside) for place in groups for inside in (place, place / place.name))

    @contextlib.contextmanager
    def kept_on_success(self) -> Iterator[ControlGroup]:
        """The group, which is removed if the body fails."""
        try:
            yield self
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """End whatever is still in it, and remove it with the groups of ours inside it."""
        if self.place is None:
            return
        end = time.monotonic() + _PATIENCE
        while True:
            pids = self.pids()
            kill_all(pids)  # what they have started meanwhile is seen the next time
            places = [place for place in (self.place, self.memory) if place is not None]
            for place in places:
                _remove(place)
            if not any(place.exists() for place in places):
                return
            if time.monotonic() > end:
                _log.warning("the control group %s is still there: %d processes are in it", self.place, len(pids))
                return
            time.sleep(_POLL)


def _limit_memory(place: Path, memory: int) -> bool:
    """Whether a group has a file that limits its memory, which is then set."""
    for name, swap in _MEMORY.items():
        with contextlib.suppress(OSError):
            if (place / name).exists():
                (place / name).write_text(str(memory))
                if swap and (place / swap).exists():
                    (place / swap).write_text("0")
                return True
    return False


def parents_of_groups(
    membership: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
    controller: str = "pids",
) -> Iterator[Path]:
    """The directories in which groups with a limit may be possible, the nearest to this process first.

    In version 2 a group limits tasks only where the one above it hands the controller down, which a group with
    processes in it cannot do.
    """
    if not membership.exists():
        return
    places = dict(_mounted_hierarchies(mounts.read_text(), controller))
    for line in membership.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and controller in places:
            yield _path_in_mount(path, *places[controller])
        elif not controllers and "" in places:
            own, top = _path_in_mount(path, *places[""]), places[""][0]
            for place in (own, *own.parents):
                handed_down = place / "cgroup.subtree_control"
                if not place.is_relative_to(top) or not handed_down.is_file():
                    continue
                if controller in handed_down.read_text().split():
                    yield place


def _mounted_hierarchies(mounts: str, controller: str) -> Iterator[tuple[str, tuple[Path, str]]]:
    """Where the hierarchy of a controller is mounted, and (as "") that of version 2; each with its root."""
    for line in mounts.splitlines():
        head, _, tail = line.partition(" - ")
        root, place = head.split()[3:5]
        if tail.startswith("cgroup2 "):
            yield "", (Path(place), root)
        elif tail.startswith("cgroup ") and controller in tail.split()[-1].split(","):
            yield controller, (Path(place), root)


def _path_in_mount(path: str, place: Path, root: str) -> Path:
    """A group as the mount at `place` shows it, which shows only what is below `root`."""
    with contextlib.suppress(ValueError):
        return place / Path(path).relative_to(root)
    return place


def _refusals(place: Path) -> int:
    return _count(place / "pids.events", "max")


def _kills(place: Path) -> int:
    return sum(_count(place / name, "oom_kill") for name in ("memory.events", "memory.oom_control"))


def _count(file: Path, event: str) -> int:
    """How often the kernel counted an event of a group; 0 where the file is gone, or the kernel does not count it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = file.read_text().split()
        return int(fields[fields.index(event) + 1])
    return 0


def _members(place: Path) -> Iterator[int]:
    for inner in _groups_in(place):
        yield from _members(inner)
    with contextlib.suppress(OSError):  # it is gone
        yield from map(int, (place / _MEMBERS).read_text().split())


def _remove(place: Path) -> None:
    """Remove a group if it and all groups inside it are empty."""
    for inner in _groups_in(place):
        _remove(inner)
    with contextlib.suppress(OSError):
        place.rmdir()


def _groups_in(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [place for place in parent.iterdir() if _NAME.fullmatch(place.name)]
    return []


@cache
def _remove_left_behind(parent: Path, _pid: int) -> None:
    """Remove the empty groups of processes that have ended, such as those of a killed harness."""
    for place in _groups_in(parent):
        name = _NAME.fullmatch(place.name)
        if name and not Path(f"/proc/{name[1]}").exists():
            _remove(place)
