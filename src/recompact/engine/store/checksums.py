"""A checksum in every row, so that a bit that a disk or a copy has changed is an error and no other result.

Whoever reads a table reads a view over it that bears its name and checks each row, so no query can forget to. Texts
have none: they are found by their hash. A checksum tells an accident, not a forgery.
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from recompact.engine.store.schema import SCHEMA

FAULT = "user-defined function raised exception"
"""What SQLite says of a row that is not the one that was written."""

_TEXTS = "texts"
_PLAIN = frozenset((str, int, type(None)))


def check_rows(connection: sqlite3.Connection, *, without: tuple[str, ...] = ()) -> None:
    """Have every row checked that is read through this connection, except from the tables `without`."""
    connection.create_function("checksum_of", -1, checksum_of, deterministic=True)
    connection.create_function("intact", -1, _intact)
    connection.execute("PRAGMA temp_store=MEMORY")
    for table, columns in columns_of_tables().items():
        if table not in without:
            names = ", ".join(columns)
            # As a subquery it comes last: SQLite may have put values that a query asks for in the place of columns.
            check = f"(SELECT intact(checksum, {names}))"
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT {names} FROM main.{table} WHERE {check}")


@contextmanager
def without_checks(connection: sqlite3.Connection) -> Iterator[None]:
    """For a query that alarmed though no row has changed: SQLite is free to ask about rows that no query wants."""
    connection.create_function("intact", -1, lambda *values: True)
    try:
        yield
    finally:
        connection.create_function("intact", -1, _intact)


def checksum_of(*values: object) -> int:
    """Of a row's values, before they are written and as SQLite gives them back: it may have kept a whole number as a
    fraction, or the other way round, and has no truth values.

    >>> checksum_of("a", 1, 0.5, b"b", None), checksum_of("a", True, 0.5, b"b", None)
    (4025149687, 4025149687)
    """
    alike = [value if type(value) in _PLAIN else _number(value) for value in values]
    return zlib.crc32(ascii(alike).encode())


def _number(value: Any) -> object:
    if isinstance(value, bytes):
        return -zlib.crc32(value)  # shorter than they are
    if isinstance(value, float):
        return int(value) if value.is_integer() else None if math.isnan(value) else float(value)
    return int(value)


def _intact(checksum: object, *values: object) -> bool:
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
    return f"(checksum IS checksum_of({', '.join(columns_of_tables()[table])}))"


@cache
def columns_of_tables() -> dict[str, tuple[str, ...]]:
    """The columns of each table whose rows have a checksum, without it."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = {
        name: tuple(row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
        for name in names
        if name != _TEXTS
    }
    connection.close()
    return {table: tuple(name for name in names if name != "checksum") for table, names in columns.items()}


def insertion(table: str, values: Mapping[str, Any], *, replace: bool = False) -> tuple[str, list[Any]]:
    """The statement that adds a row with these values, and its parameters."""
    statement, columns = _insertion(table, replace)
    row = list(map(values.get, columns))
    row.append(checksum_of(*row))
    return statement, row


@cache
def _insertion(table: str, replace: bool) -> tuple[str, tuple[str, ...]]:
    columns = columns_of_tables()[table]
    names = (*columns, "checksum")
    verb = "INSERT OR REPLACE" if replace else "INSERT"
    return f"{verb} INTO main.{table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", columns
