"""Files and directories that somebody else may write, reached by descriptors, within limits, and never outside.

An agent may exchange a directory for a link while it is looked at, and may leave pipes, sparse files of any size and
paths thousands of directories deep. Nothing here opens a path of more than one part, except for the root itself. A walk
of a tree follows no link; a name that an agent gives is resolved through links only as far as they stay inside.
"""

from __future__ import annotations

import contextlib
import hashlib
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

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened, always by one part of its path."""

FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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
            self.top = os.open(self._root, DIRECTORY_FLAGS)
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
                    inner = os.open(last, DIRECTORY_FLAGS, dir_fd=handle)
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
        with self._reading(entry.name), os.fdopen(os.open(entry.last, FILE_FLAGS, dir_fd=entry.parent), "rb") as file:
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


def tree_hash(folder: Path) -> str:
    """Names, kinds and bytes of a directory of the user's own, except for what Python leaves behind where it runs."""
    total = hashlib.sha256()
    for place, directories, names in os.walk(folder):
        directories[:] = sorted(name for name in directories if name != "__pycache__")
        for name in sorted((*names, *directories)):
            path = Path(place, name)
            mode = path.lstat().st_mode
            total.update(
                f"{path.relative_to(folder).as_posix()}\0{stat.S_IFMT(mode)} {mode & 0o100}\0".encode(
                    "utf-8", "surrogateescape"
                )
            )
            if stat.S_ISLNK(mode):
                total.update(os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                with path.open("rb") as file:
                    total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread. Where nobody waits for it any more, the event that it got is set."""
    import asyncio  # not in a host, which needs none of it

    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


FILE_LIMIT = 32 * 1024 * 1024
_LINKS = 40  # as many as the kernel follows
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ActionError(Exception):
    """An action that cannot be done. The text is the agent's observation, so it names only paths the agent knows."""


@dataclass(frozen=True)
class Files:
    """A directory, and the path by which the agent knows it."""

    root: Path
    mount: str

    @contextlib.contextmanager
    def _located(self, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The directory that a name lies in, as a descriptor, and the name there, which was no link when it was looked
        at. Raises ActionError if it lies outside, and OSError where a directory above it is missing; with `create`
        those are made."""
        pending, links, last = self._parts(name, name)[::-1], 0, "."
        with contextlib.ExitStack() as stack:
            chain = [self._open(stack, self.root)]
            while pending:
                part = pending.pop()
                if part == "..":
                    if len(chain) == 1:
                        raise self._outside(name)
                    chain.pop()
                    continue
                if (target := _link(part, chain[-1])) is not None:
                    links += 1
                    if links > _LINKS:
                        raise ActionError(f"{name} leads through too many links")
                    if target.startswith("/"):
                        del chain[1:]
                    pending += self._parts(target, name)[::-1]
                    continue
                if not pending:
                    last = part
                    break
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=chain[-1])
                chain.append(self._open(stack, part, chain[-1]))
            yield chain[-1], last

    def _open(self, stack: contextlib.ExitStack, place: str | Path, above: int | None = None) -> int:
        handle = os.open(place, DIRECTORY_FLAGS, dir_fd=above)
        stack.callback(os.close, handle)
        return handle

    def exists(self, name: str) -> bool:
        return self._mode(name) is not None

    def is_directory(self, name: str) -> bool:
        return stat.S_ISDIR(self._mode(name) or 0)

    def _mode(self, name: str) -> int | None:
        with contextlib.suppress(ActionError, OSError), self._located(name) as (above, last):
            return os.stat(last, dir_fd=above, follow_symlinks=False).st_mode
        return None

    def read(self, name: str, limit: int = FILE_LIMIT) -> bytes:
        try:
            with self._located(name) as (above, last), os.fdopen(os.open(last, FILE_FLAGS, dir_fd=above), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise ActionError(f"{name} is not a regular file")
                if status.st_size > limit:
                    raise ActionError(f"the file {name} is larger than {limit:,} bytes")
                return file.read(limit)
        except FileNotFoundError:
            raise ActionError(f"the file {name} does not exist") from None
        except OSError as error:
            raise ActionError(f"the file {name} cannot be opened: {error.strerror}") from None

    def write(self, name: str, data: bytes, limit: int = FILE_LIMIT) -> None:
        """Write a whole file; missing directories above it are created."""
        if len(data) > limit:
            raise ActionError(f"{name} would be larger than {limit:,} bytes")
        try:
            with (
                self._located(name, create=True) as (above, last),
                os.fdopen(os.open(last, _NEW, 0o644, dir_fd=above), "wb") as file,
            ):
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ActionError(f"{name} is not a regular file")
                file.truncate()
                file.write(data)
        except OSError as error:
            raise ActionError(f"the file {name} cannot be written: {error.strerror}") from None

    def names(self, directory: str, suffix: str = "") -> list[str]:
        """What lies directly in a directory, sorted; nothing if there is no such directory."""
        try:
            with self._located(directory) as (above, last), contextlib.ExitStack() as stack:
                names = os.listdir(self._open(stack, last, above))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ActionError(f"{directory} cannot be listed: {error.strerror}") from None
        return sorted(name for name in names if name.endswith(suffix))

    def _parts(self, path: str, name: str) -> list[str]:
        if not path or "\0" in path:
            raise ActionError("the name of a file is empty" if not path else "the name of a file has a zero byte in it")
        if path.startswith("/"):
            if path != self.mount and not path.startswith(f"{self.mount}/"):
                raise self._outside(name)
            path = path[len(self.mount) :]
        return [part for part in path.split("/") if part not in ("", ".")]

    def _outside(self, name: str) -> ActionError:
        return ActionError(f"{name} lies outside {self.mount}; give a path below it")


def _link(part: str, above: int) -> str | None:
    try:
        return os.readlink(part, dir_fd=above)
    except OSError:  # no link, or nothing there
        return None
