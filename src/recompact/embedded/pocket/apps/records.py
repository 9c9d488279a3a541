"""What the apps share in handling records: pages, money, looking one up by its id.

Rows come in, JSON values go out; money is kept in cents and shown in dollars.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from recompact.embedded.pocket.database import select
from recompact.embedded.pocket.spec import PAGE_SIZE_MAX, ApiError, Arguments

BETWEEN = "(:since is null or date >= :since) and (:until is null or date <= :until)"
"""The condition of since and until, both days included. Dates in ISO form compare as text."""


def paged(
    items: Sequence[dict[str, Any]], arguments: Arguments, shown: Callable[[dict[str, Any]], Any] = dict
) -> dict[str, Any]:
    """One page of the records, each in the form in which the agent is shown it."""
    size, page = arguments["page_size"], arguments["page"]
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise ApiError(f"page_size must be from 1 to {PAGE_SIZE_MAX}, not {size}")
    pages = max(1, -(-len(items) // size))
    if not 1 <= page <= pages:
        raise ApiError(f"there is no page {page}: this list has pages 1 to {pages}")
    here = items[(page - 1) * size : page * size]
    return {"items": [shown(item) for item in here], "page": page, "pages": pages, "total": len(items)}


def one(db: sqlite3.Connection, table: str, identifier: str, how: str) -> dict[str, Any]:
    """The record with that id; otherwise an error that says where ids come from."""
    found = select(db, f"select * from {table} where id = ?", identifier)
    if not found:
        raise ApiError(f"nothing has the id {identifier[:40]!r}: ids come from {how}")
    return found[0]


def dollars(cents: int) -> float:
    return round(cents / 100, 2)


def in_cents(amount: float) -> int:
    cents = round(amount * 100)
    if abs(amount * 100 - cents) > 1e-6:
        raise ApiError("amount must have at most two decimals")
    if not 1 <= cents <= 1_000_000:
        raise ApiError("amount must be from 0.01 to 10000")
    return cents


def matching(text: str, query: str | None) -> bool:
    """Whether all words of the query occur in the text."""
    return query is None or all(word in text.lower() for word in query.lower().split())
