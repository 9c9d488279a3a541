"""Money sent and received, and requests for money.

Sending the same amount twice is two payments: nothing here protects an agent that has forgotten the first one.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.database import insert, select, setting
from recompact.suites.pocket.spec import (
    BETWEEN,
    ApiError,
    App,
    Arguments,
    id_of,
    matching,
    may,
    need,
    one,
    page_of,
    update,
)

PAYMENTS = App("payments", "money you sent or received, and requests for money", [login_entry("payments")])
_ID = id_of("requests")
_STATUSES = ("pending", "approved", "declined", "cancelled")
_MONEY = (need("email", "string", "account of the other person"), need("amount", "number", "dollars"))


@PAYMENTS.read("Show how much money you have now, with all payments so far counted.", "{balance: dollars}")
def show_balance(db: sqlite3.Connection, _: Arguments) -> Any:
    return {"balance": _dollars(_balance(db))}


@PAYMENTS.listing("Find the account of a person.", "{name, email}", need("query", "string", "words of the name"))
def find_user(db: sqlite3.Connection, a: Arguments) -> Any:
    everybody = select(db, "select name, id as email from directory order by name, id")
    return page_of([user for user in everybody if matching(user["name"], a["query"])], a)


@PAYMENTS.listing(
    "List payments, newest first.",
    "{id, direction, name, email, amount, date, note, currency, fee, method}",
    may("direction", "string", choices=("received", "sent")),
    may("since", "date", "first day"),
    may("until", "date", "last day"),
)
def list_transactions(db: sqlite3.Connection, a: Arguments) -> Any:
    where = f"{BETWEEN} and (:direction is null or direction = :direction)"
    rows = select(db, f"select * from transactions where {where} order by date desc, id", **a)
    return page_of(rows, a, _as_read)


@PAYMENTS.listing(
    "List requests for money, newest first. Incoming ones ask you to pay.",
    "{id, direction, name, email, amount, date, note, status, currency, fee, method}",
    need("direction", "string", "who is asked for money", choices=("incoming", "outgoing")),
    may("status", "string", choices=_STATUSES),
)
def list_requests(db: sqlite3.Connection, a: Arguments) -> Any:
    where = "direction = :direction and (:status is null or status = :status)"
    rows = select(db, f"select * from requests where {where} order by date desc, id", **a)
    return page_of(rows, a, _as_read)


@PAYMENTS.change("Send money at once. This cannot be undone.", "{sent: transaction}", *_MONEY, may("note", default=""))
def send_money(db: sqlite3.Connection, a: Arguments) -> Any:
    return {"sent": _send(db, a["email"], _in_cents(a["amount"]), a["note"])}


@PAYMENTS.change("Ask somebody for money.", "{requested: request}", *_MONEY, may("note", default=""))
def request_money(db: sqlite3.Connection, a: Arguments) -> Any:
    name, cents = _user(db, a["email"]), _in_cents(a["amount"])
    today = setting(db, "today")
    values = {"name": name, "email": a["email"], "cents": cents, "date": today, "note": a["note"]}
    new = insert(db, "requests", direction="outgoing", status="pending", **values)
    return {"requested": _as_read(one(db, "requests", new))}


@PAYMENTS.change(
    "Pay a pending incoming request. This cannot be undone.", "{approved: request_id, sent: transaction}", _ID
)
def approve_request(db: sqlite3.Connection, a: Arguments) -> Any:
    request = _pending(db, a["request_id"], "incoming")
    payment = _send(db, request["email"], request["cents"], request["note"])
    update(db, "requests", request["id"], {"status": "approved"})
    return {"approved": request["id"], "sent": payment}


@PAYMENTS.change("Decline a pending incoming request.", "{declined: request_id}", _ID)
def decline_request(db: sqlite3.Connection, a: Arguments) -> Any:
    request = _pending(db, a["request_id"], "incoming")
    update(db, "requests", request["id"], {"status": "declined"})
    return {"declined": request["id"]}


@PAYMENTS.change("Take back a pending outgoing request.", "{cancelled: request_id}", _ID)
def cancel_request(db: sqlite3.Connection, a: Arguments) -> Any:
    request = _pending(db, a["request_id"], "outgoing")
    update(db, "requests", request["id"], {"status": "cancelled"})
    return {"cancelled": request["id"]}


def _dollars(cents: int) -> float:
    """As agents read amounts; the database keeps cents."""
    return round(cents / 100, 2)


def _in_cents(amount: float) -> int:
    cents = round(amount * 100)
    if abs(amount * 100 - cents) > 1e-6:
        raise ApiError("amount must have at most two decimals")
    if not 1 <= cents <= 1_000_000:
        raise ApiError("amount must be from 0.01 to 10000")
    return cents


def _as_read(row: dict[str, Any]) -> dict[str, Any]:
    """A record as the agent reads it: dollars instead of cents, and what is the same for all of them."""
    renamed = {("amount" if key == "cents" else key): value for key, value in row.items()}
    return renamed | {"amount": _dollars(row["cents"]), "currency": "USD", "fee": 0.0, "method": "balance"}


def _user(db: sqlite3.Connection, email: str) -> str:
    if email == setting(db, "email"):
        raise ApiError("that is your own account")
    users = select(db, "select name from directory where id = ?", email)
    if not users:
        raise ApiError(f"{email[:60]!r} has no account here: payments.find_user finds people by name")
    return str(users[0]["name"])


def _send(db: sqlite3.Connection, email: str, cents: int, note: str) -> dict[str, Any]:
    name = _user(db, email)
    if cents > _balance(db):
        raise ApiError(f"not enough money: your balance is {_dollars(_balance(db))}")
    today = setting(db, "today")
    values = {"name": name, "email": email, "cents": cents, "date": today, "note": note}
    new = insert(db, "transactions", direction="sent", **values)
    return _as_read(one(db, "transactions", new))


def _pending(db: sqlite3.Connection, identifier: str, direction: str) -> dict[str, Any]:
    request = one(db, "requests", identifier)
    if request["direction"] != direction:
        raise ApiError(f"request {identifier} is {request['direction']}: this works for {direction} ones")
    if request["status"] != "pending":
        raise ApiError(f"request {identifier} is {request['status']} already")
    return request


def _balance(db: sqlite3.Connection) -> int:
    """Derived from the transactions, so that no second place could disagree with them."""
    sql = "select total(case direction when 'received' then cents else -cents end) from transactions"
    return int(setting(db, "opening balance")) + int(db.execute(sql).fetchone()[0])
