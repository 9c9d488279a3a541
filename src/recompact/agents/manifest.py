"""What a workspace consists of, as hashes by path, and what changes in it from one call of an agent to the next."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from recompact.environments.files import Entry, Tree, TreeLimits

_LIMITS = TreeLimits(4 * 1024**3)

Change = Mapping[str, str]
"""Paths with their hash now; a path that is gone has an empty one."""


class Manifest:
    """The state of a workspace when it was last looked at. Files that look untouched are not read again."""

    def __init__(self, root: Path, ignore: Sequence[str] = (), limits: TreeLimits = _LIMITS) -> None:
        self._root, self._ignore, self._limits = root, tuple(ignore), limits
        self._hashes: dict[str, str] = {}
        self._looks: dict[str, tuple[int, ...]] = {}

    def change(self, stop: threading.Event | None = None) -> dict[str, str]:
        """What is new, different or gone since the last time. Raises `TreeRefused` for more than can be looked at."""
        now: dict[str, str] = {}
        looks: dict[str, tuple[int, ...]] = {}
        with Tree(self._root, self._limits, lenient=True, stop=stop) as tree:
            for entry in tree.walk(self._is_ignored):
                status = entry.status
                look = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
                known = self._hashes.get(entry.name) if self._looks.get(entry.name) == look else None
                now[entry.name] = known or _hash(tree, entry)
                looks[entry.name] = look
        changed = {name: hashed for name, hashed in now.items() if self._hashes.get(name) != hashed}
        changed |= {name: "" for name in self._hashes if name not in now}
        self._hashes, self._looks = now, looks
        return dict(sorted(changed.items()))

    def _is_ignored(self, name: str, last: str) -> bool:
        return any(fnmatch.fnmatch(name, each) or fnmatch.fnmatch(last, each) for each in self._ignore)


def _hash(tree: Tree, entry: Entry) -> str:
    mode = entry.status.st_mode
    total = hashlib.sha256(f"{stat.S_IFMT(mode)} {bool(mode & 0o100)}\0".encode())
    if entry.is_file:
        for part in tree.content(entry):
            total.update(part)
    elif entry.is_link:
        total.update(os.fsencode(tree.target(entry)))
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
