"""The tasks of a directory: folders with a `task.toml`, ours or Harbor's."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from recompact.environments.files import tree_hash
from recompact.environments.shell import CommandLimits
from recompact.errors import InputError
from recompact.suites.workspace.harbor_task import read_harbor_task
from recompact.suites.workspace.task import DEFAULT_LIMITS, FILE, FILES, CheckSpec, TaskFolder, TaskTable, Verdict
from recompact.values.reading import read_small

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
