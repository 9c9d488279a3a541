"""A look into a run file past the store, with SQL, for what a test wants to see exactly as it was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from recompact.engine.store.checksums import checksum_of, columns_of_tables
from recompact.engine.store.store import Store


def select_rows(store: Store, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
    """Rows by column name, through a connection of their own: only what is committed is seen."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query, parameters).fetchall()


def change_rows(store: Store | Path, statement: str, parameters: Sequence[Any] = (), *, seal: bool = True) -> None:
    """Change a run past the store: as a stranger would, who puts the checksums right, or as an accident."""
    path = store if isinstance(store, Path) else store.path
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.create_function("checksum_of", -1, checksum_of)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement, parameters)
        for table, columns in columns_of_tables().items() if seal else ():
            connection.execute(f"UPDATE {table} SET checksum = checksum_of({columns.values})")
