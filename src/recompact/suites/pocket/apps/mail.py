"""The owner's mail.

A list shows sender, subject and date; what a message says is shown by reading it, which changes nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import BETWEEN, matching, one, page_of
from recompact.suites.pocket.database import insert, select, setting
from recompact.suites.pocket.spec import ApiError, App, Arguments, may, need

APP = App("mail", "your messages in the folders inbox, archive and sent", [login_entry("mail")])
FOLDERS = ("inbox", "archive", "sent")
_HOW = "mail.list_messages"
_ID = need("message_id", "string", f"from {_HOW}")


@APP.listing(
    "List messages of a folder, newest first.",
    "{id, sender (in sent: recipient), subject, date, preview, read, attachments, priority}",
    may("folder", "string", default="inbox", choices=FOLDERS),
    may("since", "date", "first day"),
    may("until", "date", "last day"),
    may("query", "string", "words of the subject"),
)
def list_messages(db: sqlite3.Connection, a: Arguments) -> Any:
    where = f"folder = :folder and {BETWEEN}"
    rows = select(db, f"select * from messages where {where} order by date desc, id", **a)
    return page_of([r for r in rows if matching(r["subject"], a["query"])], a, _list_entry)


@APP.read("Read one message.", "{id, folder, sender, recipient, subject, body, date}", _ID)
def read_message(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "messages", a["message_id"], _HOW)


@APP.change(
    "Send a message to one person. This cannot be undone.",
    "{sent: {id, recipient, subject, date}}",
    need("to", "string", "one email address"),
    need("subject"),
    need("body"),
)
def send_message(db: sqlite3.Connection, a: Arguments) -> Any:
    if "@" not in a["to"] or any(mark in a["to"].strip() for mark in ", ;\n"):
        raise ApiError("argument to must be one email address; send one message to each person")
    sender, today = setting(db, "email"), setting(db, "today")
    values = {"recipient": a["to"].strip(), "subject": a["subject"], "body": a["body"]}
    new = insert(db, "messages", folder="sent", sender=sender, date=today, **values)
    return {"sent": {"id": new, "recipient": values["recipient"], "subject": a["subject"], "date": today}}


@APP.change(
    "Move a message to another folder.",
    "{moved: {id, sender, subject, date, folder}}",
    _ID,
    need("folder", "string", choices=("inbox", "archive")),
)
def move_message(db: sqlite3.Connection, a: Arguments) -> Any:
    message = one(db, "messages", a["message_id"], _HOW)
    if message["folder"] == "sent":
        raise ApiError("messages in the folder sent cannot be moved")
    db.execute("update messages set folder = ? where id = ?", (a["folder"], message["id"]))
    fields = {name: message[name] for name in ("id", "sender", "subject", "date")}
    return {"moved": fields | {"folder": a["folder"]}}


@APP.change("Delete a message for good.", "{deleted: message_id}", _ID)
def delete_message(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "messages", a["message_id"], _HOW)
    db.execute("delete from messages where id = ?", (a["message_id"],))
    return {"deleted": a["message_id"]}


def _list_entry(row: dict[str, Any]) -> dict[str, Any]:
    """A message in a list: who, about what, and how it begins."""
    other = "recipient" if row["folder"] == "sent" else "sender"
    fields = {name: row[name] for name in ("id", other, "subject", "date")}
    return fields | {"preview": row["body"][:28] + "...", "read": True, "attachments": 0, "priority": "normal"}
