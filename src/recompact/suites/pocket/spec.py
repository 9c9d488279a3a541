"""What an API is, as data: its name, its parameters, what it returns and whether it changes anything.

Every app has its APIs as entries (a spec and the function behind it). From the specs come the texts of the
documentation app and the validation of arguments; nothing else describes an API.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["string", "integer", "number", "date", "time"]
Arguments = Mapping[str, Any]
Run = Callable[[sqlite3.Connection, Arguments], Any]

PAGE_SIZE = 4
PAGE_SIZE_MAX = 6  # a page of the longest records then stays near 350 tokens


_EXAMPLES: Mapping[Kind, Any] = {
    "string": "...",
    "integer": 1,
    "number": 12.5,
    "date": "2025-05-31",
    "time": "09:30",
}


class ApiError(Exception):
    """A call that cannot be done; the text says what to do instead. Raised before anything is changed."""


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    description: str = ""
    required: bool = True
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def example(self) -> Any:
        """A value of the right form, for the documentation."""
        return self.choices[0] if self.choices else _EXAMPLES[self.kind]

    @property
    def signature(self) -> str:
        if self.required:
            return f"{self.name}: {self.kind}"
        default = "null" if self.default is None else self.default
        return f"{self.name}: {self.kind} = {default}"


@dataclass(frozen=True)
class Spec:
    """One API of one app. `changes` tells a mutation from a read."""

    app: str
    name: str
    parameters: tuple[Parameter, ...]
    description: str
    returns: str
    changes: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.app}.{self.name}"

    @property
    def signature(self) -> str:
        """Enough to call it: names, types and defaults on one line."""
        return f"{self.full_name}({', '.join(p.signature for p in self.parameters)})"

    @property
    def needs_token(self) -> bool:
        return any(p.name == "token" for p in self.parameters)


@dataclass(frozen=True)
class Entry:
    """A spec and the function behind it, which gets valid arguments with the defaults filled in."""

    spec: Spec
    run: Run


def need(name: str, kind: Kind = "string", description: str = "", choices: tuple[str, ...] = ()) -> Parameter:
    return Parameter(name, kind, description, choices=choices)


def may(
    name: str, kind: Kind = "string", description: str = "", default: Any = None, choices: tuple[str, ...] = ()
) -> Parameter:
    return Parameter(name, kind, description, required=False, default=default, choices=choices)


PAGING = (
    may("page", "integer", "from 1", default=1),
    may("page_size", "integer", f"records per page, at most {PAGE_SIZE_MAX}", default=PAGE_SIZE),
)


@dataclass(frozen=True)
class App:
    """An app behind a login. Each of its APIs is declared by a decorator of the function behind it."""

    name: str
    about: str
    entries: list[Entry]

    def read(self, description: str, returns: str, *parameters: Parameter) -> Callable[[Run], Run]:
        """An API that only reads."""
        return self._declare(description, returns, parameters)

    def change(self, description: str, returns: str, *parameters: Parameter) -> Callable[[Run], Run]:
        """An API that changes something."""
        return self._declare(description, returns, parameters, changes=True)

    def listing(self, description: str, item: str, *parameters: Parameter) -> Callable[[Run], Run]:
        """An API that returns records in pages."""
        returns = f"{{items: [{item}], page, pages, total}}; ask for the next page until page = pages"
        return self._declare(description, returns, (*parameters, *PAGING))

    def _declare(
        self, description: str, returns: str, parameters: tuple[Parameter, ...], changes: bool = False
    ) -> Callable[[Run], Run]:
        token = need("token", "string", f"from {self.name}.login")

        def declare(run: Run) -> Run:
            spec = Spec(self.name, run.__name__, (token, *parameters), description, returns, changes)
            self.entries.append(Entry(spec, run))
            return run

        return declare
