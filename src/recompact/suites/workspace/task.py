"""A task that is a folder: what it consists of, how its workspace is laid out, and the tables of its `task.toml`."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from recompact.environments.shell import CommandLimits
from recompact.errors import InputError
from recompact.suites.workspace.container import ContainerSpec

FILE, FILES, CHECK = "task.toml", "files", "check"
"""What a task's folder consists of; the last two may be missing."""

MOUNT = "/workspace"
"""Where an agent sees its workspace."""

Verdict = Literal["exit", "json"]
"""How a check gives its verdict: by its exit code, or by JSON in the last line it prints."""

DEFAULT_LIMITS = CommandLimits(seconds=60.0, cpu=60, memory=2 * 1024**3, processes=128, disk=256 * 1024**2)
_ANY = re.compile(r".*\S.*", re.DOTALL)


@dataclass(frozen=True)
class CheckSpec:
    """[check]: the command that judges, and the paths of the workspace that are put back before it does."""

    command: str
    verdict: Verdict = "exit"
    protected: tuple[str, ...] = ()
    seconds: float = 300.0


@dataclass(frozen=True)
class TaskFolder:
    """One task."""

    id: str
    path: Path
    instruction: str
    check: CheckSpec
    split: str = "train"
    groups: Mapping[str, str] = field(default_factory=dict)
    limits: CommandLimits = DEFAULT_LIMITS
    files: tuple[tuple[str, str], ...] = ((FILES, "."),)  # what is copied, and to where in the workspace
    judge: str = CHECK  # the directory with what its check needs
    container: ContainerSpec | None = None  # where it is played, unless in a plain directory

    def lay_out(self, directory: Path) -> None:
        """Copy the files into a workspace, as the agent's own: it may change each of them."""
        directory.mkdir(parents=True, exist_ok=True)
        for source, target in ((self.path / source, directory / target) for source, target in self.files):
            if source.is_dir():
                copy_tree(source, target)
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def put_back(self, directory: Path) -> None:
        """Make the protected paths of a workspace what they were at the beginning, whatever is there now."""
        for name in self.check.protected:
            _put_back(self.path / FILES, directory, name)


@dataclass(frozen=True)
class TaskTable:
    """A table of a `task.toml`. A mistake in it is reported with the file and the key; `name` ends in a dot."""

    file: Path
    data: Mapping[str, Any]
    name: str = ""

    def refuse(self, key: str, problem: str) -> InputError:
        return InputError(f"{self.file}: {self.name}{key} {problem}")

    def refuse_others(self, names: Collection[str]) -> None:
        """Refuse keys other than these."""
        for key in self.data:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
                raise InputError(f"{self.file}: there is no key {self.name}{key}; {hint}")

    def table(self, key: str) -> TaskTable:
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            raise self.refuse(key, "must be a table")
        return TaskTable(self.file, value, f"{key}.")

    def text(self, key: str, default: str | None = None, form: re.Pattern[str] = _ANY) -> str:
        """A text of that form, or the default."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or (value != default and not form.fullmatch(value)):
            missing = " and is missing" if value is None else f", not {value!r}"
            raise self.refuse(key, f"must be a text{missing}" if form is _ANY else f"= {value!r} is not one")
        return value

    def number(self, key: str, default: float = 0.0, most: float = 1e18) -> float:
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or (key in self.data and not 0 < value < most):
            raise self.refuse(key, f"= {value!r} must be a number above zero, and less than {most:,.0f}")
        return float(value)


def toml(value: str | list[str]) -> str:
    """A value of a TOML file."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def copy_tree(source: Path, target: Path) -> None:
    """Copy with links as links; the owner may write everywhere in the copy."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    target.chmod(target.stat().st_mode | 0o700)
    for place, directories, names in os.walk(target):
        for name in (*directories, *names):
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))


def _put_back(original: Path, workspace: Path, name: str) -> None:
    """Nothing along the path may be a link: it would redirect what is written."""
    place = workspace
    *above, last = [part for part in name.split("/") if part not in ("", ".")]
    for part in above:
        place /= part
        if place.is_symlink() or not place.is_dir():
            _remove(place)
            place.mkdir()
        place.chmod(0o700)
    place /= last
    _remove(place)
    source = original.joinpath(*above, last)
    if source.is_dir():
        copy_tree(source, place)
    else:
        shutil.copy2(source, place, follow_symlinks=False)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
