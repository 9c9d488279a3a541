"""A task as it is played: the `files/` that its workspace begins with, and the `check/` that judges it.

The check judges a copy of the final workspace, where no agent can reach it any more.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from recompact.environments.files import Files
from recompact.environments.own_directory import remove_tree
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.shell import TEMPORARY, CommandLimits, CommandResult, Shell
from recompact.environments.snapshots import SnapshotRefused, SnapshotTooLarge, archive, unpack
from recompact.errors import InputError
from recompact.suites.workspace.container import ContainerSpec
from recompact.values.trajectory import Score

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


def files_of(workspace: Path) -> Files:
    return Files(workspace, MOUNT)


CHECK_MOUNT = f"/{CHECK}"
_WORKSPACE = "workspace"
_ANSWER = "answer.txt"


class CheckFailed(EnvironmentFailed):
    """The check gave no verdict."""


@dataclass(frozen=True)
class FolderTask:
    """A task that is a folder, with the shell in which its check runs."""

    folder: TaskFolder
    shell: Shell

    def lay_out(self, workspace: Path) -> None:
        self.folder.lay_out(workspace)

    def judge(self, workspace: Path, answer: str) -> Score:
        return judge(self.folder, workspace, answer, self.shell)


def judge(folder: TaskFolder, workspace: Path, answer: str, shell: Shell) -> Score:
    """Run the task's check. Of what it prints only a verdict in JSON is kept: scores are shown to models."""
    scratch = Path(tempfile.mkdtemp(prefix="recompact-check-"))
    try:
        directory = scratch / _WORKSPACE
        if reason := _copy(folder, workspace, directory):
            return Score.of(False, reason=f"the workspace cannot be judged: {reason}")
        os.chmod(directory, 0o700)
        folder.put_back(directory)
        temporary = scratch / TEMPORARY
        temporary.mkdir()
        (temporary / _ANSWER).write_text(answer, encoding="utf-8", errors="replace")
        return _score(folder, _shell_of(folder, shell, temporary).run(folder.check.command, directory))
    finally:
        remove_tree(scratch)


def _copy(folder: TaskFolder, workspace: Path, directory: Path) -> str:
    """Copy what the agent left. That may be anything, and where it cannot be copied this returns the reason, which is
    the agent's doing: pipes, sockets, more than the disk holds."""
    try:
        unpack(archive(workspace, folder.limits.disk), directory)
    except SnapshotTooLarge:
        return f"it is larger than the {folder.limits.disk:,} bytes of [limits] disk in its task.toml"
    except SnapshotRefused as error:
        return str(error).replace(str(directory), MOUNT).replace(str(workspace), MOUNT)  # the same text every time
    return ""


def _shell_of(folder: TaskFolder, shell: Shell, temporary: Path) -> Shell:
    """The agent's shell, with the check visible and the check's time limits."""
    limits = replace(folder.limits, seconds=folder.check.seconds, cpu=max(1, round(folder.check.seconds)))
    own = folder.path / folder.judge
    sandboxed = shell.bubblewrap is not None
    variables = {
        **shell.variables,
        "CHECK": CHECK_MOUNT if sandboxed else str(own),
        "WORKSPACE": MOUNT if sandboxed else str(temporary.parent / _WORKSPACE),
        "ANSWER_FILE": f"/tmp/{_ANSWER}" if sandboxed else str(temporary / _ANSWER),
    }
    readable = (*shell.readable, *([(own, CHECK_MOUNT)] if own.is_dir() else []))
    return replace(shell, limits=limits, readable=readable, variables=variables)


def _score(folder: TaskFolder, result: CommandResult) -> Score:
    if result.stopped:
        return Score.of(False, reason=f"the check was stopped: {result.stopped}")
    if folder.check.verdict == "exit":
        return Score.of(result.code == 0, exit_code=result.code)
    lines = [line for line in result.output.splitlines() if line.strip()]
    try:
        return read_score(json.loads(lines[-1]))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError) as error:
        if result.code:
            return Score.of(False, reason=f"the check ended with exit code {result.code} and no score")
        raise CheckFailed(
            f"the check of task {folder.id} must print its score as JSON in its last line, a number from 0 to 1 or"
            f' {{"score": …}}, and did not ({type(error).__name__})'
        ) from None


def read_score(data: Any) -> Score:
    """A verdict in JSON: a number, or an object with `score`."""
    table = data if isinstance(data, dict) else {"score": data}
    value = table["score"]
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a score lies between 0 and 1")
    success = table.get("success", value >= 1)
    details = {key: each for key, each in table.items() if key not in ("score", "success")}
    return Score(bool(success), float(value), details)
