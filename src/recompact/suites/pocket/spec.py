"""What an API is, as data: its name, its parameters, what it returns and whether it changes anything.

An app has its APIs as entries (a spec and the function behind it). From the specs come the texts of the
documentation app and the validation of arguments; nothing else describes an API.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from recompact.suites.pocket.database import select

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


BETWEEN = "(:since is null or date >= :since) and (:until is null or date <= :until)"
"""The condition of since and until, both days included. Dates in ISO form compare as text."""


def page_of(
    items: Sequence[dict[str, Any]], arguments: Arguments, present: Callable[[dict[str, Any]], Any] = dict
) -> dict[str, Any]:
    """One page of the records, each as `present` puts it for the agent."""
    size, page = arguments["page_size"], arguments["page"]
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise ApiError(f"page_size must be from 1 to {PAGE_SIZE_MAX}, not {size}")
    pages = max(1, -(-len(items) // size))
    if not 1 <= page <= pages:
        raise ApiError(f"there is no page {page}: this list has pages 1 to {pages}")
    here = items[(page - 1) * size : page * size]
    return {"items": [present(item) for item in here], "page": page, "pages": pages, "total": len(items)}


LISTS = {
    "contacts": "contacts.list_contacts",
    "transactions": "payments.list_transactions",
    "requests": "payments.list_requests",
    "events": "calendar.list_events",
    "messages": "mail.list_messages",
    "files": "files.list_files",
}
"""Where the ids of a table come from."""


def id_of(table: str) -> Parameter:
    """The parameter that names a record of a table."""
    return need(f"{table.removesuffix('s')}_id", "string", f"from {LISTS[table]}")


def one(db: sqlite3.Connection, table: str, identifier: str) -> dict[str, Any]:
    """The record with that id; otherwise an error that says where ids come from."""
    records = select(db, f"select * from {table} where id = ?", identifier)
    if not records:
        raise ApiError(f"nothing has the id {identifier[:40]!r}: ids come from {LISTS[table]}")
    return records[0]


def update(db: sqlite3.Connection, table: str, identifier: str, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        db.execute(f'update {table} set "{name}" = ? where id = ?', (value, identifier))


def changes_in(arguments: Arguments, names: Sequence[str]) -> dict[str, Any]:
    """Those of the arguments that are to be changed; what is left out stays."""
    changes = {name: arguments[name] for name in names if arguments[name] is not None}
    if not changes:
        raise ApiError(f"give at least one of {', '.join(names)}")
    return changes


def matching(text: str, query: str | None) -> bool:
    """Whether all words of the query occur in the text."""
    return query is None or all(word in text.lower() for word in query.lower().split())


@dataclass(frozen=True)
class App:
    """An app. Each of its APIs is declared by a decorator of the function behind it."""

    name: str
    about: str
    entries: list[Entry]
    token: bool = True  # its APIs take the token of a login

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

    def deletion(self, table: str, description: str) -> None:
        """An API that deletes a record of a table."""
        parameter = id_of(table)

        def delete(db: sqlite3.Connection, a: Arguments) -> Any:
            one(db, table, a[parameter.name])
            db.execute(f"delete from {table} where id = ?", (a[parameter.name],))
            return {"deleted": a[parameter.name]}

        delete.__name__ = f"delete_{table.removesuffix('s')}"
        self.change(description, f"{{deleted: {parameter.name}}}", parameter)(delete)

    def _declare(
        self, description: str, returns: str, parameters: tuple[Parameter, ...], changes: bool = False
    ) -> Callable[[Run], Run]:
        token = (need("token", "string", f"from {self.name}.login"),) if self.token else ()

        def declare(run: Run) -> Run:
            spec = Spec(self.name, run.__name__, (*token, *parameters), description, returns, changes)
            self.entries.append(Entry(spec, run))
            return run

        return declare
