"""What an app is, as data: its actions, what each takes and what it is for.

The texts that an agent reads about an app and the checking of its arguments both come from here, so they cannot differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_type_hints

from recompact.environments.files import ActionError, Files
from recompact.environments.protocol import Behaviour
from recompact.environments.shell import Shell

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Desk:
    """What the apps of one episode work with."""

    files: Files
    now: datetime
    shell: Shell
    office: Shell | None  # where LibreOffice runs; None: conversions are plain


@dataclass(frozen=True)
class AppAction:
    """`function` gets the desk and the arguments by their names, and returns the observation or raises ActionError."""

    name: str
    purpose: str
    behaviour: Behaviour
    function: Callable[..., str]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.function).parameters)[1:]

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"

    def run(self, desk: Desk, arguments: Arguments) -> str:
        """Each argument is read as its annotation says."""
        kinds = get_type_hints(self.function)
        return self.function(desk, **{name: _read(kinds[name], name, arguments[name]) for name in self.parameters})


Run = Callable[..., str]


@dataclass(frozen=True)
class App:
    """An app. A decorator of the function behind an action declares it, with the parameters of the function."""

    name: str
    purpose: str
    actions: list[AppAction] = field(default_factory=list)

    def read(self, name: str, purpose: str) -> Callable[[Run], Run]:
        return self._declare(name, purpose, "read")

    def change(self, name: str, purpose: str) -> Callable[[Run], Run]:
        return self._declare(name, purpose, "mutation")

    def _declare(self, name: str, purpose: str, behaviour: Behaviour) -> Callable[[Run], Run]:
        def declare(function: Run) -> Run:
            self.actions.append(AppAction(name, purpose, behaviour, function))
            return function

        return declare

    def action(self, name: str) -> AppAction | None:
        return next((action for action in self.actions if action.name == name), None)


def check_arguments(app: str, action: AppAction, arguments: Arguments) -> None:
    missing = [name for name in action.parameters if arguments.get(name) is None]
    unknown = [str(name) for name in arguments if name not in action.parameters]
    if missing or unknown:
        problem = f"{missing[0]} is missing" if missing else f"there is no argument {unknown[0][:80]!r}"
        raise ActionError(f"{problem}; it is called as {app}.{action.signature}")


def _read(kind: Any, name: str, value: Any) -> Any:
    """An argument as a function wants it: anything, a number, or a text."""
    if kind is Any:
        return value
    return _index(name, value) if kind is int else _text(name, value)


def _text(name: str, value: Any) -> str:
    """An argument as text; numbers and truth values are written out."""
    if isinstance(value, str | int | float):
        return str(value).encode("utf-8", "replace").decode()
    raise ActionError(f"{name} must be text, not {type(value).__name__}")


def _index(name: str, value: Any) -> int:
    """A row or a column, counted from 1."""
    try:
        number = int(str(value))
    except ValueError:
        raise ActionError(f"{name} must be a whole number, not {str(value)[:80]!r}") from None
    if number < 1 or isinstance(value, bool):
        raise ActionError(f"{name} counts from 1, not from {str(value)[:80]}")
    return number


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[cut: {len(text) - limit:,} more characters]"


def without_quotes(value: str) -> str:
    return value.replace("'", "").replace('"', "")
