"""A look into a run file past the store, with SQL, for what a test wants to see exactly as it was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from recompact.engine.store.store import Store


def select_rows(store: Store, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
    """Rows by column name, through a connection of their own: only what is committed is seen."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query, parameters).fetchall()
