"""Presets for known agents, listed in `profiles.toml`: how each is started behind the gateway, and what differs from
run to run in what its tools return."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from recompact.errors import InputError


@dataclass(frozen=True)
class Profile:
    """How one agent is started behind the gateway."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()


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
