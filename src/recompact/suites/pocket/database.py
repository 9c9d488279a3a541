"""The state of an episode: one in-memory SQLite database with everything in it, also the answer once it is given."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
Tables = Mapping[str, Mapping[str, Row]]
"""Rows with named columns, by table and id."""
Contents = Mapping[str, Mapping[str, tuple[Any, ...]]]
"""The same with bare rows, which are quick to read and to compare."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "contacts": ("id", "name", "email", "phone", "relationship", "birthday", "city"),
    "directory": ("id", "name"),  # everybody who has a payments account; the id is the email address
    "transactions": ("id", "direction", "name", "email", "cents", "date", "note"),
    "requests": ("id", "direction", "name", "email", "cents", "date", "note", "status"),
    "events": ("id", "title", "date", "start", "end", "place", "guests"),
    "messages": ("id", "folder", "sender", "recipient", "subject", "body", "date"),
    "files": ("id", "folder", "name", "content", "modified"),
    "settings": ("id", "value"),  # the owner, the passwords, the seed of the tokens
    "logins": ("id", "app"),  # the id is the token
    "episode": ("id", "value"),  # present once finished: the answer
}
EXEMPT = ("logins", "episode")  # changes in these are never side effects
PREFIXES = {"contacts": "c", "transactions": "t", "requests": "r", "events": "e", "messages": "m", "files": "f"}

_SCHEMA = "".join(
    f"create table {table} ({', '.join(_quoted)}, primary key (id)) without rowid;"
    for table, columns in COLUMNS.items()
    for _quoted in [[f'"{c}"' for c in columns]]
)


def create(rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> bytes:
    """The bytes of a database with these rows."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("pragma page_size = 1024")  # ten small tables: smaller pages make smaller snapshots
    db.executescript(f"begin; {_SCHEMA} commit;")
    db.execute("begin")
    for table, values in rows.items():
        marks = ",".join("?" * len(COLUMNS[table]))
        db.executemany(f"insert into {table} values ({marks})", values)
    db.execute("commit")
    data = db.serialize()
    db.close()
    return data


def connect(data: bytes) -> sqlite3.Connection:
    """A database with that content. Usable from any thread, one at a time, since a rollout may change threads."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.deserialize(data)
    return db


def contents(db: sqlite3.Connection) -> Contents:
    """Everything that a task could have changed."""
    names = (name for name in COLUMNS if name not in EXEMPT)
    return {name: {row[0]: row for row in db.execute(f"select * from {name}")} for name in names}


def by_column(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(COLUMNS[table], row, strict=True))


def as_tables(bare: Contents) -> Tables:
    return {table: {key: by_column(table, row) for key, row in rows.items()} for table, rows in bare.items()}


def select(db: sqlite3.Connection, sql: str, *values: Any, **by_name: Any) -> list[dict[str, Any]]:
    """The rows of a query as dictionaries."""
    cursor = db.execute(sql, by_name or values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def setting(db: sqlite3.Connection, key: str) -> str:
    row = db.execute("select value from settings where id = ?", (key,)).fetchone()
    return str(row[0])


def insert(db: sqlite3.Connection, table: str, **values: Any) -> str:
    """Add a record and return its id: one more than the highest, so that it depends on the state alone."""
    highest = db.execute(f"select max(cast(substr(id, 2) as integer)) from {table}").fetchone()[0] or 1000
    new = f"{PREFIXES[table]}{highest + 1}"
    names = ["id", *values]
    quoted = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join("?" * len(names))
    db.execute(f"insert into {table} ({quoted}) values ({marks})", (new, *values.values()))
    return new
