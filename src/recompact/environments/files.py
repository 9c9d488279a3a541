"""The files of one episode, reached by name and never by a path that leads out of it.

Whoever acts for an agent reads and writes bytes only through here. A name is resolved one part at a time: links are
followed only as far as they stay inside, and pipes and devices are refused, since an agent may have made whatever is
here.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from recompact.environments.action_error import ActionError

FILE_LIMIT = 32 * 1024 * 1024
_LINKS = 40  # as many as the kernel follows
_ENTRY_COST = 16_384  # bytes, so that a million empty files are no way around a limit


@dataclass(frozen=True)
class Files:
    """A directory, and the path by which the agent knows it."""

    root: Path
    mount: str

    def resolve(self, name: str) -> Path:
        """The place that a name stands for, with no link left in it; ActionError if it lies outside."""
        place: list[str] = []
        pending = self._parts(name, name)[::-1]
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                if not place:
                    raise self._outside(name)
                place.pop()
                continue
            target = _link(self.root.joinpath(*place, part))
            if target is None:
                place.append(part)
                continue
            links += 1
            if links > _LINKS:
                raise ActionError(f"{name} leads through too many links")
            if target.startswith("/"):
                place.clear()
            pending += self._parts(target, name)[::-1]
        return self.root.joinpath(*place)

    def exists(self, name: str) -> bool:
        try:
            return self.resolve(name).exists()
        except (ActionError, OSError):
            return False

    def read(self, name: str, limit: int = FILE_LIMIT) -> bytes:
        try:
            handle = os.open(self.resolve(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ActionError(f"the file {name} does not exist") from None
        except OSError as error:
            raise ActionError(f"the file {name} cannot be opened: {error.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ActionError(f"{name} is no regular file")
            if status.st_size > limit:
                raise ActionError(f"the file {name} is larger than {limit:,} bytes")
            return file.read(limit)

    def write(self, name: str, data: bytes, limit: int = FILE_LIMIT) -> None:
        """Write a whole file; missing directories above it are created."""
        if len(data) > limit:
            raise ActionError(f"{name} would be larger than {limit:,} bytes")
        place = self.resolve(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, flags, 0o644)
            with os.fdopen(handle, "wb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ActionError(f"{name} is no regular file")
                file.truncate()
                file.write(data)
        except OSError as error:
            raise ActionError(f"the file {name} cannot be written: {error.strerror}") from None

    def names(self, directory: str, suffix: str = "") -> list[str]:
        """What lies directly in a directory, sorted; nothing if there is no such directory."""
        try:
            found = os.listdir(self.resolve(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ActionError(f"{directory} cannot be listed: {error.strerror}") from None
        return sorted(name for name in found if name.endswith(suffix))

    def is_directory(self, name: str) -> bool:
        try:
            return self.resolve(name).is_dir()
        except (ActionError, OSError):
            return False

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


def size_of(root: Path, enough: int) -> int:
    """Bytes below a directory, links not followed. Counting stops once there are more than `enough`."""
    total = 0
    pending = [root]
    while pending and total <= enough:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:  # it is gone, or may not be read
            continue
        for entry in entries:
            total += _ENTRY_COST
            try:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return total


def empty(directory: Path) -> None:
    """Delete everything in a directory, whatever permissions an agent took away inside it."""
    for place, names, _ in os.walk(directory):
        for name in names:
            if not os.path.islink(os.path.join(place, name)):
                os.chmod(os.path.join(place, name), 0o700)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def remove(directory: Path) -> None:
    if directory.is_dir():
        empty(directory)
        directory.rmdir()


def _link(place: Path) -> str | None:
    try:
        return os.readlink(place)
    except OSError:  # no link, or nothing there
        return None
