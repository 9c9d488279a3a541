"""The tasks of a directory, folders with a `task.toml` of ours or of Harbor's, and how they are judged.

The check judges a copy of the final workspace, where no agent can reach it any more.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from recompact.environments.files import Files, tree_hash
from recompact.environments.own_directory import remove_tree
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.shell import TEMPORARY, CommandLimits, CommandResult, Shell
from recompact.environments.snapshots import SnapshotRefused, SnapshotTooLarge, archive, unpack
from recompact.errors import InputError
from recompact.suites.workspace.harbor_task import read_harbor_task
from recompact.suites.workspace.task import (
    CHECK,
    DEFAULT_LIMITS,
    FILE,
    FILES,
    MOUNT,
    CheckSpec,
    TaskFolder,
    TaskTable,
    Verdict,
)
from recompact.values.reading import read_small
from recompact.values.trajectory import Score

TASKS = "tasks"
"""Where tasks are looked for, unless the option says otherwise."""

_ID = re.compile(r"[\w.+-]+(/[\w.+-]+)*")


def folders_below(root: Path) -> tuple[TaskFolder, ...]:
    """All tasks below a directory, in the order of their names."""
    if not root.is_dir():
        raise InputError(f"there is no directory {root} with tasks in it: each is a folder with a {FILE}")
    return tuple(read_folder(path, path.relative_to(root).as_posix()) for path in sorted(_folders(root)))


def contents(options: Mapping[str, Any], split: str, directory: Path) -> dict[str, str]:
    """A hash of everything in the folder of each task of a split, by task."""
    root = (directory / Path(options.get("tasks", TASKS)).expanduser()).resolve()
    return {f"task {folder.id}": tree_hash(folder.path) for folder in folders_below(root) if folder.split == split}


def _folders(root: Path) -> Iterator[Path]:
    for place, directories, names in os.walk(root):
        if FILE in names and Path(place) != root:
            directories.clear()  # what is inside a task belongs to it, whatever it is called
            yield Path(place)


def read_folder(path: Path, id: str) -> TaskFolder:
    """The task in a folder; a mistake in its `task.toml` is reported with the key."""
    file, place = path / FILE, path.resolve()
    if not _ID.fullmatch(id):
        raise InputError(f"{path}: a task is named by letters, digits and . _ - +, since its name becomes its id")
    try:
        data = TaskTable(file, tomllib.loads(read_small(file)))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    if "instruction" not in data.data and (path / "instruction.md").is_file():
        return read_harbor_task(place, id, data)
    data.refuse_others(("instruction", "split", "groups", "check", "limits"))
    if not isinstance(data.data.get("check"), dict):
        raise InputError(f"{file}: the table [check] with its command is missing")
    instruction, check = data.text("instruction"), _check_spec(data.table("check"), path / FILES)
    groups = data.table("groups")
    by_group = {key: groups.text(key) for key in groups.data}
    return TaskFolder(
        id, place, instruction, check, data.text("split", "train"), by_group, _limits(data.table("limits"))
    )


def _check_spec(table: TaskTable, files: Path) -> CheckSpec:
    table.refuse_others([each.name for each in fields(CheckSpec)])
    verdict = table.text("verdict", "exit")
    if verdict not in get_args(Verdict):
        raise table.refuse("verdict", f"= {verdict!r} is not one of {', '.join(get_args(Verdict))}")
    protected = table.data.get("protected", [])
    if not isinstance(protected, list) or not all(isinstance(each, str) for each in protected):
        raise table.refuse("protected", f"must be a list of paths below {FILES}/")
    for name in protected:
        if not name or name.startswith("/") or ".." in name.split("/") or not (files / name).exists():
            raise table.refuse("protected", f"names {name!r}, which is not there below {FILES}/")
    seconds = table.number("seconds", CheckSpec.seconds)
    return CheckSpec(table.text("command"), "json" if verdict == "json" else "exit", tuple(protected), seconds)


def _limits(table: TaskTable) -> CommandLimits:
    table.refuse_others([each.name for each in fields(CommandLimits)])
    numbers: dict[str, Any] = {name: table.number(name) for name in table.data}
    return replace(DEFAULT_LIMITS, **{n: value if n == "seconds" else int(value) for n, value in numbers.items()})


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
