"""The task tree on disk, read and never written, and the testbed of one episode that is laid out from it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from recompact.environments.files import ActionError, Files
from recompact.errors import InputError

MOUNT = "/testbed"
"""Where the shell sees the testbed, and some tasks name it."""

TESTBED = "testbed"
"""Where it is in the directory of its episode."""

MAIL_LIMIT = 128 * 1024  # a malicious one of this size costs a parser seconds, growing with its square
CALENDAR_LIMIT = 1024 * 1024


def files_of_testbed(root: Path) -> Files:
    """The files of a testbed, which has `data/`, `emails/` and `calendar/` in it."""
    return Files(root, MOUNT)


def plain_name(name: str, what: str) -> str:
    """A name that becomes part of a file name, such as a user's: never a path."""
    if not name.strip() or name in (".", "..") or any(mark in name for mark in "/\\\0\r\n") or len(name) > 200:
        raise ActionError(f"{what} {name[:80]!r} cannot be used as the name of a file")
    return name


VARIABLE = "RECOMPACT_OFFICEBENCH"
SPLITS = ("train", "test")
PARTS = ("data", "emails", "calendar")
"""What every testbed has, even if empty."""
_NAME = re.compile(r"(\d+)-\d+")


@dataclass(frozen=True)
class Subtask:
    """One task as the tree has it. `items` are what its verdict is based on: they stay on this side."""

    template: str
    number: str
    username: str
    date: str
    weekday: str
    time: str
    text: str
    items: Sequence[Mapping[str, Any]]

    @property
    def apps(self) -> str:
        """How many apps the task takes: its name begins with that number."""
        name_match = _NAME.fullmatch(self.template)
        return name_match[1] if name_match else "unknown"

    @property
    def now(self) -> datetime:
        """The moment at which the task is set. It is also the clock of the apps, so that a replay sees no other."""
        try:
            return datetime.strptime(f"{self.date} {self.time}", "%Y-%m-%d %I:%M %p")
        except ValueError:
            return datetime.strptime(self.date, "%Y-%m-%d")


@dataclass(frozen=True)
class TaskTree:
    root: Path

    @staticmethod
    def at(tasks: str | Path | None) -> TaskTree:
        """The tree named by an option, or else by the environment variable."""
        named = tasks or os.environ.get(VARIABLE)
        if not named:
            raise InputError(
                f"suite 'officebench' needs its task tree: set tasks in [suite.options] or {VARIABLE} to a directory"
                " with tasks/, split_train.jsonl and split_test.jsonl (docs/officebench.md)"
            )
        root = Path(named).expanduser().resolve()
        missing = [name for name in ("tasks", *map(_split_file, SPLITS)) if not (root / name).exists()]
        if missing:
            raise InputError(
                f"{root} is no OfficeBench task tree: it has no {', '.join(missing)} (docs/officebench.md)"
            )
        return TaskTree(root)

    def split(self, name: str) -> Sequence[tuple[str, str]]:
        """The templates and numbers of a split, in the order given."""
        lines = (self.root / _split_file(name)).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [(str(row["task"]), str(row["subtask"])) for row in rows]

    def template(self, name: str) -> Path:
        return self.root / "tasks" / name

    def subtask(self, template: str, number: str) -> Subtask:
        path = self.template(template) / "subtasks" / f"{number}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Subtask(
                template=template,
                number=number,
                username=str(data["username"]),
                date=str(data["date"]),
                weekday=str(data["weekday"]),
                time=str(data["time"]),
                text=str(data["task"]),
                items=data["evaluation"],
            )
        except FileNotFoundError:
            raise InputError(f"the split names subtask {template}/{number}, but {path} does not exist") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a subtask: {type(error).__name__}: {error}") from None

    def lay_out(self, template: str, directory: Path) -> None:
        """An untouched testbed of the template, as separate files: apps write in place."""
        source = self.template(template) / "testbed"
        if source.is_dir():
            shutil.copytree(source, directory, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for place in (directory, *directory.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)  # a tree may be shared read-only
        for part in PARTS:
            (directory / part).mkdir(exist_ok=True)


def _split_file(name: str) -> str:
    return f"split_{name}.jsonl"
