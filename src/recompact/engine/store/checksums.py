"""The tables of a run file, and a checksum in every row, so that a bit that a disk or a copy has changed is an error
and no other result.

There is one format: a file of another one is refused, with a word on what to do. Whoever reads a table reads a view
over it that bears its name and checks each row, so no query can forget to. Texts have none: they are found by their
hash. A checksum tells an accident, not a forgery.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

APPLICATION_ID = 0x52435054  # "RCPT": tells a foreign file from one of ours
FORMAT = 8  # in `user_version`
SCHEMA = files("recompact.engine.store").joinpath("schema.sql").read_text(encoding="utf-8")
FAULT = "user-defined function raised exception"
"""What SQLite says of a row that is not the one that was written."""

TEXTS = "texts"  # the table whose rows have none
_PLAIN = frozenset((int, bytes, str, type(None)))


@dataclass(frozen=True)
class Columns:
    """The columns of a table without its checksum: texts and blobs that every row has, reals, and all others. They are
    summed up in this order, so that nobody has to look at a value to know what it is."""

    texts: tuple[str, ...]
    blobs: tuple[str, ...]
    reals: tuple[str, ...]
    others: tuple[str, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*self.texts, *self.blobs, *self.reals, *self.others)

    @cached_property
    def values(self) -> str:
        """What `checksum_of` is given, in SQL."""
        return ", ".join((str(len(self.texts)), str(len(self.blobs)), *self.names))

    def row(self, values: Mapping[str, Any]) -> list[Any]:
        """These values as SQLite gives them back, in this order: it has neither truth values nor minus zero, and keeps
        a whole number in a column of reals as a real, and the other way round."""
        row = list(map(values.get, self.names))
        first = len(self.texts) + len(self.blobs)
        end = first + len(self.reals)
        if self.reals:
            row[first:end] = map(_real, row[first:end])
        if not _PLAIN.issuperset(map(type, row[end:])):
            row[end:] = map(_whole, row[end:])
        return row


def check_rows(connection: sqlite3.Connection, *, without: tuple[str, ...] = ()) -> None:
    """Have every row checked that is read through this connection, except from the tables `without`."""
    connection.create_function("checksum_of", -1, checksum_of, deterministic=True)
    connection.create_function("intact", -1, _intact)
    connection.execute("PRAGMA temp_store=MEMORY")
    for table, columns in columns_of_tables().items():
        if table not in without:
            # As a subquery it comes last: SQLite may have put values that a query asks for in the place of columns.
            check = f"(SELECT intact(checksum, {columns.values}))"
            names = ", ".join(columns.names)
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT {names} FROM main.{table} WHERE {check}")


@contextmanager
def without_checks(connection: sqlite3.Connection) -> Iterator[None]:
    """For a query that alarmed though no row has changed: SQLite is free to ask about rows that no query wants."""
    connection.create_function("intact", -1, lambda *values: True)
    try:
        yield
    finally:
        connection.create_function("intact", -1, _intact)


def checksum_of(texts: int, blobs: int, *values: Any) -> int:
    """Of a row's values, of which the first should be so many texts and the next so many blobs.

    >>> checksum_of(1, 1, "a", b"b", 1, 0.5, None), checksum_of(2, 0, "a", b"b")
    (1574911326, 1081141580)
    """
    end = texts + blobs
    try:
        words = "\0".join((*values[:texts], repr(values[end:])))
        return zlib.crc32(b"\0".join(values[texts:end]), zlib.crc32(words.encode()))
    except TypeError:
        return zlib.crc32(repr(values).encode())


def _real(value: Any) -> float | None:
    number = None if value is None else float(value) + 0.0
    return number if number == number else None


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2.0**63 else _real(value)
    return int(value) if isinstance(value, bool) else value


def _intact(checksum: object, *values: Any) -> bool:
    if checksum != checksum_of(*values):
        raise ValueError("this row is not the one that was written")
    return True


def damaged_table(connection: sqlite3.Connection) -> str:
    """The name of the first table with a row that is not the one that was written, or nothing."""
    for table in columns_of_tables():
        if connection.execute(f"SELECT 1 FROM main.{table} WHERE NOT {is_intact(table)} LIMIT 1").fetchone():
            return table
    return ""


def is_intact(table: str) -> str:
    """The condition, in SQL, that a row of `main` is the one that was written."""
    return f"(checksum IS checksum_of({columns_of_tables()[table].values}))"


@cache
def columns_of_tables() -> dict[str, Columns]:
    """The columns of each table whose rows have a checksum, without it."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    query = "SELECT name, CASE WHEN \"notnull\" OR pk OR type = 'REAL' THEN type END FROM pragma_table_info(?)"
    tables = {}
    for table in names:
        kinds = {name: kind for name, kind in connection.execute(query, (table,)) if name != "checksum"}
        groups: dict[str, list[str]] = {"TEXT": [], "BLOB": [], "REAL": [], "": []}
        for name, kind in kinds.items():
            groups.get(kind, groups[""]).append(name)
        if table != TEXTS:
            tables[table] = Columns(*map(tuple, groups.values()))
    connection.close()
    return tables


def insertion(table: str, values: Mapping[str, Any], *, replace: bool = False) -> tuple[str, list[Any]]:
    """The statement that adds a row with these values, and its parameters."""
    statement, columns = _insertion(table, replace)
    row = columns.row(values)
    row.append(checksum_of(len(columns.texts), len(columns.blobs), *row))
    return statement, row


@cache
def _insertion(table: str, replace: bool) -> tuple[str, Columns]:
    columns = columns_of_tables()[table]
    names = (*columns.names, "checksum")
    verb = "INSERT OR REPLACE" if replace else "INSERT"
    return f"{verb} INTO main.{table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", columns
