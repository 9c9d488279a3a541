"""What makes two runs of an agent comparable: names that are drawn anew each time are replaced by steady ones in what
the model sees, and put back where it uses them; and what changes in the workspace from one call to the next is known by
hashes."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recompact.environments.files import Entry, Tree, TreeLimits
from recompact.errors import InputError

_NUMERIC = re.compile(r"\((\\d|\[0-9\])")  # a group of digits in a pattern


class Normalizer:
    """The names of one run of an agent, as they are and as the model knows them."""

    def __init__(
        self, replacements: Mapping[str, str], ids: Sequence[str], places: Mapping[str, str] | None = None
    ) -> None:
        self._replacements = [(check_replacement(pattern, text), text) for pattern, text in replacements.items()]
        self._ids = [check_pattern(pattern, groups=1) for pattern in ids]
        self._places = dict(places or {})  # paths that differ in each run -> the steady ones
        self._steady: dict[str, str] = {}  # the name in this run -> the steady one

    def steady(self, text: str) -> str:
        """What an agent sends, as the model is to see it."""
        for place, steady in self._places.items():
            text = text.replace(place, steady)
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        for pattern in self._ids:
            text = pattern.sub(self._steady_name, text)
        return text

    def own(self, value: Any) -> Any:
        """What the model says, as the agent of this run understands it."""
        if not self._steady and not self._places:
            return value
        if isinstance(value, str):
            for name, steady in (*self._places.items(), *self._steady.items()):
                value = name.join(re.split(rf"(?<!\w){re.escape(steady)}(?!\w)", value))
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return int(self.own(str(value)))
        if isinstance(value, list):
            return [self.own(each) for each in value]
        if isinstance(value, Mapping):
            return {key: self.own(each) for key, each in value.items()}
        return value

    def _steady_name(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._steady:
            number = len(self._steady) + 1
            # What is always a number stays one, because a schema may ask for it; few in a command are so large.
            numeric = _NUMERIC.search(match.re.pattern) is not None
            self._steady[name] = str(90_000_000 + number) if numeric else f"name{number:04d}"
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:start] + self._steady[name] + match[0][end:]


def check_replacement(pattern: str, text: str) -> re.Pattern[str]:
    """The pattern, compiled, if this text can replace what it matches."""
    compiled = check_pattern(pattern)
    try:
        compiled.sub(text, "")
    except (re.error, IndexError) as error:
        raise InputError(f"{text!r} cannot replace what {pattern!r} matches: {error}") from None
    return compiled


def check_pattern(text: str, groups: int = 0) -> re.Pattern[str]:
    """The pattern, compiled, if it is one and has so many groups."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"{text!r} is not a regular expression: {error}") from None
    if pattern.groups < groups:
        raise InputError(f"{text!r} needs a group, in parentheses, around the name that differs")
    return pattern


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
