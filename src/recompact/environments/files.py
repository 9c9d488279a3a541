"""The files of one episode, reached by name and never by a path that leads out of it.

Whoever acts for an agent reads and writes bytes only through here. A name is resolved one part at a time, by directory
descriptors: links are followed only as far as they stay inside, and pipes and devices are refused, since an agent may
have made whatever is here.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recompact.environments.trees import DIRECTORY, FILE

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
        handle = os.open(place, DIRECTORY, dir_fd=above)
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
            with self._located(name) as (above, last), os.fdopen(os.open(last, FILE, dir_fd=above), "rb") as file:
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
