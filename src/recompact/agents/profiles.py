"""Presets for known agents, listed in `profiles.toml`: how each is started behind the gateway, and what differs from
run to run in what its tools return."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from recompact.errors import InputError


@dataclass(frozen=True)
class Profile:
    """How one agent is started behind the gateway."""

    command: tuple[str, ...]
    options: tuple[str, ...] = ()  # which lead its program to the gateway, after the program's name
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()

    def equip(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """A command with the options, after the name of this agent's program; without them where it is not named."""
        at = _position(command, self.command[0]) if self.options else None
        return command if at is None else (*command[: at + 1], *self.options, *command[at + 1 :])


def _profile(table: Mapping[str, Any]) -> Profile:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return Profile(**values)


_TEXT = (files("recompact.agents") / "profiles.toml").read_text(encoding="utf-8")
PROFILES = {name: _profile(table) for name, table in tomllib.loads(_TEXT).items()}


def profile_named(name: str) -> Profile:
    if name not in PROFILES:
        near = difflib.get_close_matches(name, PROFILES, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROFILES)}"
        raise InputError(f"there is no agent {name!r}; {hint}; any other is a command")
    return PROFILES[name]


PROGRAMS = {
    profile.command[0]: name
    for name, profile in PROFILES.items()
    if not any(part.startswith("{home}/") for part in profile.command[1:2])  # an interpreter, of no matter what
}
"""The profiles by the programs that they are of."""

_LAUNCHERS = ("bunx", "env", "nice", "npx", "timeout", "uvx")  # programs whose arguments name the one that they start


def known_agent(command: tuple[str, ...]) -> str | None:
    """The name of the profile of the agent that a command starts, if it is known."""
    return next((name for program, name in PROGRAMS.items() if _position(command, program) is not None), None)


def _position(command: tuple[str, ...], program: str) -> int | None:
    """Where a command names a program: first, or after a launcher, perhaps as a package with its version."""
    places = range(len(command)) if PurePath(command[0]).name in _LAUNCHERS else (0,)
    return next((at for at in places if PurePath(command[at]).name.split("@")[0] == program), None)
