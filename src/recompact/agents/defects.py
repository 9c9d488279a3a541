"""What is wrong with the settings of an agent, known before it is started: each defect with the key it is about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from recompact.agents.normalizer import check_pattern, check_replacement
from recompact.agents.settings import AgentSettings
from recompact.errors import InputError

Defect = tuple[str, str]
"""A key of [agent], and what is wrong with it."""


def find_program(name: str) -> tuple[str | None, str]:
    """The path of a command's program by the user's own PATH, or None and the reason."""
    if found := shutil.which(name):
        return os.path.abspath(found), ""
    if "/" in name and Path(name).is_file():
        return None, f"{name} is not executable: chmod +x lets it be started"
    return None, f"there is no program {name!r}: install it, or name its path"


def defects_of(settings: AgentSettings, *, launched: bool = False) -> Iterator[Defect]:
    """Everything that would break each episode in the same way. An agent that is `launched` in another way has no
    program."""
    if not launched:
        yield from _of_command(settings.command)
    for name, value in settings.variables.items():
        if not name or "=" in name or "\0" in name + value:
            yield "variables", f"{name!r} is no name for a variable, or its value has a NUL character"
    yield from _of_files(tuple(settings.files))
    for place in settings.readable:
        if not place.exists():
            yield "readable", f"it names {place}, which is not there"
    yield from _of_patterns(settings)


def _of_command(command: tuple[str, ...]) -> Iterator[Defect]:
    if not command:
        yield "command", "it is empty: name the program and its arguments"
    elif any("\0" in part for part in command):
        yield "command", "it has a NUL character, which no argument can have"
    elif not command[0].startswith("{"):  # {home} and the like are filled in later
        program, problem = find_program(command[0])
        if program is None:
            yield "command", problem


def _of_files(names: tuple[str, ...]) -> Iterator[Defect]:
    for name in names:
        parts = name.split("/")
        if "\0" in name or ".." in parts or parts[-1] in ("", ".") or not parts[0]:
            yield "files", f"{name!r} is not the path of a file below the agent's home"
        elif above := next((other for other in names if name.startswith(f"{other.rstrip('/')}/")), None):
            yield "files", f"{name!r} lies below {above!r}, which is a file"


def _of_patterns(settings: AgentSettings) -> Iterator[Defect]:
    checks: list[tuple[str, Callable[[], object]]] = []
    checks += [("replace", partial(check_replacement, *pair)) for pair in settings.replace.items()]
    checks += [("ids", partial(check_pattern, pattern, groups=1)) for pattern in settings.ids]
    checks += [("mask", partial(check_pattern, pattern)) for pattern in settings.mask]
    for key, check in checks:
        try:
            check()
        except InputError as error:
            yield key, str(error)
