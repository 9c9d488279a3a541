"""What a workspace consists of, as hashes by path, and what changes in it from one call of an agent to the next."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Change = Mapping[str, str]
"""Paths with their hash now; a path that is gone has an empty one."""


class Manifest:
    """The state of a workspace when it was last looked at. Files that look untouched are not read again."""

    def __init__(self, root: Path, ignore: Sequence[str] = ()) -> None:
        self._root, self._ignore = root, tuple(ignore)
        self._hashes: dict[str, str] = {}
        self._looks: dict[str, tuple[int, ...]] = {}

    def change(self) -> dict[str, str]:
        """What is new, different or gone since the last time."""
        now: dict[str, str] = {}
        looks: dict[str, tuple[int, ...]] = {}
        for name, status in self._walk(self._root):
            look = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            known = self._hashes.get(name) if self._looks.get(name) == look else None
            now[name] = known or self._hash(name, status)
            looks[name] = look
        changed = {name: hashed for name, hashed in now.items() if self._hashes.get(name) != hashed}
        changed |= {name: "" for name in self._hashes if name not in now}
        self._hashes, self._looks = now, looks
        return dict(sorted(changed.items()))

    def _walk(self, directory: Path, above: str = "") -> Iterator[tuple[str, os.stat_result]]:
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:  # it went away, or must not be looked into
            return
        for entry in entries:
            name = f"{above}{entry.name}"
            if any(fnmatch.fnmatch(name, each) or fnmatch.fnmatch(entry.name, each) for each in self._ignore):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield name, status
            if stat.S_ISDIR(status.st_mode):
                yield from self._walk(Path(entry.path), f"{name}/")

    def _hash(self, name: str, status: os.stat_result) -> str:
        path = self._root / name
        kind = stat.S_IFMT(status.st_mode)
        total = hashlib.sha256(f"{kind} {bool(status.st_mode & 0o100)}\0".encode())
        try:
            if stat.S_ISREG(status.st_mode):
                with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    while part := file.read(1 << 20):
                        total.update(part)
            elif stat.S_ISLNK(status.st_mode):
                total.update(os.fsencode(os.readlink(path)))
        except OSError as error:
            total.update(str(error.errno).encode())
        return total.hexdigest()[:16]


def difference(recorded: Change, seen: Change) -> str:
    """How two changes of a workspace differ, in a line; empty where they do not."""
    lines = []
    for name in sorted(recorded.keys() | seen.keys()):
        before, now = recorded.get(name), seen.get(name)
        if before != now:
            lines.append(f"{name} {_did(before)} when it was recorded, and {_did(now)} now")
    return "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")


def _did(hashed: str | None) -> str:
    if hashed is None:
        return "stayed as it was"
    return f"became {hashed[:6]}" if hashed else "was removed"
