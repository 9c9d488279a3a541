"""Directories that somebody else may write, read by descriptors: no link is followed, and everything has a limit.

An agent may exchange a directory for a link while it is looked at, and may leave pipes, sparse files of any size and
paths thousands of directories deep. Nothing here opens a path of more than one part, except for the root itself.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened, always by one part of its path."""

FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""How a file is opened. Whoever opens it checks that it is regular before reading."""

_CHUNK = 1 << 20
_ENTRY_COST = 4096  # bytes, so that a million empty files are no way around a limit


class TreeRefused(Exception):
    """The tree cannot be read; the text says why. Whoever wrote it is responsible."""


class TreeTooLarge(TreeRefused):
    """The tree is beyond one of its limits; `what` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"it has {what}")
        self.what = what


@dataclass(frozen=True)
class TreeLimits:
    """What is read of one tree, at most."""

    bytes: int
    entries: int = 500_000
    depth: int = 200
    seconds: float = 60.0


@dataclass(frozen=True)
class Entry:
    """A name in a tree. `parent` is the descriptor of its directory, open only until the next entry is asked for."""

    name: str  # from the root, its parts separated by slashes
    status: os.stat_result
    parent: int

    @property
    def last(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


class Tree:
    """One reading of a tree. It ends early where a limit is reached, or where `stop` is set by another thread.

    `lenient` skips what is gone or may not be looked into, which is refused otherwise.
    """

    def __init__(
        self, root: Path, limits: TreeLimits, *, lenient: bool = False, stop: threading.Event | None = None
    ) -> None:
        self._root, self._limits, self._lenient, self._stop = root, limits, lenient, stop
        self._bytes = self._entries = 0
        self._end = time.monotonic() + limits.seconds

    def __enter__(self) -> Tree:
        try:
            self.top = os.open(self._root, DIRECTORY)
        except OSError as error:
            what = "a symbolic link" if self._root.is_symlink() else error.strerror
            raise TreeRefused(f"{self._root} is not a directory that can be read: {what}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.top)

    def walk(self, skip: Callable[[str, str], bool] = lambda name, last: False) -> Iterator[Entry]:
        """Every entry, parents before children, in an order that depends on the names alone. `skip` is asked with the
        name and its last part, and leaves out what is below as well."""
        yield from self._walk(self.top, "", skip, 1)

    def _walk(self, handle: int, above: str, skip: Callable[[str, str], bool], depth: int) -> Iterator[Entry]:
        if depth > self._limits.depth:
            raise TreeTooLarge(f"directories more than {self._limits.depth} deep")
        for last in self._names(handle, above):
            name = f"{above}{last}"
            if skip(name, last):
                continue
            with self._reading(name):
                entry = Entry(name, os.stat(last, dir_fd=handle, follow_symlinks=False), handle)
                yield entry
                if entry.is_directory:
                    inner = os.open(last, DIRECTORY, dir_fd=handle)
                    try:
                        yield from self._walk(inner, f"{name}/", skip, depth + 1)
                    finally:
                        os.close(inner)

    def _names(self, handle: int, above: str) -> list[str]:
        names: list[str] = []
        with self._reading(above or "."), os.scandir(handle) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > self._limits.entries:
                    raise TreeTooLarge(f"more than {self._limits.entries:,} entries")
                self._check()
                names.append(entry.name)
        return sorted(names, key=os.fsencode)

    def content(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of a regular file, in parts."""
        with self._reading(entry.name), os.fdopen(os.open(entry.last, FILE, dir_fd=entry.parent), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise TreeRefused(f"{entry.name} has become something else")
            self._count(status.st_size, entry.name)
            left = status.st_size  # it may grow while it is read
            while left and (part := file.read(min(left, _CHUNK))):
                self._check()
                left -= len(part)
                yield part

    def target(self, entry: Entry) -> str:
        """Where a link leads."""
        with self._reading(entry.name):
            return os.readlink(entry.last, dir_fd=entry.parent)
        return ""

    def _count(self, size: int, name: str) -> None:
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise TreeTooLarge(f"more than {self._limits.bytes:,} bytes (reached at {name})")

    def _check(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise TreeRefused("nobody waits for it any more")
        if time.monotonic() > self._end:
            raise TreeTooLarge(f"more than can be read in {self._limits.seconds:g} s")

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._lenient:
                raise TreeRefused(f"{name} cannot be read: {error.strerror}") from error


def tree_excess(root: Path, most: int) -> str:
    """What there is too much of below a directory whose files may take `most` bytes of disk, in a few words, or
    nothing. With many files this takes a while."""
    total = 0
    try:
        with Tree(root, TreeLimits(most, entries=most // _ENTRY_COST + 1), lenient=True) as tree:
            for entry in tree.walk():
                total += max(entry.status.st_blocks * 512, _ENTRY_COST)
                if total > most:
                    return f"more than {most:,} bytes"
    except TreeTooLarge as error:
        return error.what
    except TreeRefused:  # it is gone
        pass
    return ""


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread. Where nobody waits for it any more, the event that it got is set."""
    import asyncio  # not in a host, which needs none of it

    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()
