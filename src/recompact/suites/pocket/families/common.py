"""What several families use: picking records, reading amounts in texts, expected changes, and days to plant on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from recompact.suites.pocket.database import Row, Tables
from recompact.suites.pocket.grader import Change
from recompact.suites.pocket.plans import Records, cents
from recompact.suites.pocket.world import Draft, after


def pick(records: Records, **conditions: Any) -> dict[str, Any]:
    """The first record with these values. A plan that finds none stops here with LookupError."""
    for record in records:
        if all(record[name] == value for name, value in conditions.items()):
            return record
    raise LookupError(f"no record with {conditions}")


def emails(records: Iterable[Row]) -> set[str]:
    return {record["email"] for record in records}


def amount_after(label: str, text: str) -> int:
    """The amount in cents that follows the label in a text."""
    match = re.search(rf"{re.escape(label)}\s*(\d+\.\d\d)", text)
    if match is None:
        raise LookupError(f"no amount after {label!r}")
    return cents(float(match[1]))


def rows(tables: Tables, table: str, **conditions: Any) -> list[Row]:
    """The rows of a table with these values."""
    return [row for row in tables[table].values() if all(row[name] == value for name, value in conditions.items())]


def related_emails(tables: Tables, *relationships: str) -> set[str]:
    return {row["email"] for row in tables["contacts"].values() if row["relationship"] in relationships}


def payment_change(email: str, amount: int, note: str | None = None) -> Change:
    """The trace of a payment. The note counts only where the task names one."""
    values = {"direction": "sent", "email": email, "cents": amount}
    return Change("transactions", "added", values if note is None else values | {"note": note})


def request_change(email: str, amount: int, note: str) -> Change:
    values = {"direction": "outgoing", "status": "pending", "email": email, "cents": amount, "note": note}
    return Change("requests", "added", values)


def approval_changes(request: Row) -> tuple[Change, Change]:
    """The traces of an approved request: its new status, and the payment."""
    approval = Change("requests", "updated", {"status": "approved"}, request["id"])
    return approval, payment_change(request["email"], request["cents"])


def quiet_day(world: Draft, newer: int) -> str:
    """A day on which no money came in, with about that many payments received after it.

    What is planted on this day stands alone at the end of the list of payments since then, so on its last page.
    """
    days = sorted((t["date"] for t in world.transactions if t["direction"] == "received"), reverse=True)
    for later, earlier in zip(days[newer - 1 :], days[newer:], strict=False):
        candidate = after(earlier, 1)
        if candidate < later:
            return candidate
    raise LookupError("no quiet day")
