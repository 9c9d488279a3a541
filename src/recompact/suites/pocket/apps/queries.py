"""How the apps look records up: in pages, by id, between two days, by words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from recompact.suites.pocket.database import select
from recompact.suites.pocket.spec import PAGE_SIZE_MAX, ApiError, Arguments

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


def one(db: sqlite3.Connection, table: str, identifier: str, how: str) -> dict[str, Any]:
    """The record with that id; otherwise an error that says where ids come from."""
    records = select(db, f"select * from {table} where id = ?", identifier)
    if not records:
        raise ApiError(f"nothing has the id {identifier[:40]!r}: ids come from {how}")
    return records[0]


def matching(text: str, query: str | None) -> bool:
    """Whether all words of the query occur in the text."""
    return query is None or all(word in text.lower() for word in query.lower().split())
