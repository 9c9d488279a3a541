"""The four apps that keep records: contacts, calendar, mail and files.

Relationships live only in contacts: whoever is restricted by one must be looked up there. A list shows the heads of its
records; guests, bodies and contents are shown by looking at the record itself, which changes nothing.
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
    changes_in,
    id_of,
    matching,
    may,
    need,
    one,
    page_of,
    update,
)

CONTACTS = App("contacts", "the people you know: phone, email, relationship to you", [login_entry("contacts")])
RELATIONSHIPS = ("coworker", "friend", "roommate", "sibling", "parent")
_CONTACT_ID = id_of("contacts")


@CONTACTS.listing(
    "List contacts by name.",
    "{id, name, relationship, phone, email, city}",
    may("query", "string", "words of the name"),
    may("relationship", "string", choices=RELATIONSHIPS),
)
def list_contacts(db: sqlite3.Connection, a: Arguments) -> Any:
    rows = select(db, "select id, name, relationship, phone, email, city from contacts order by name, id")
    matches = [
        row for row in rows if a["relationship"] in (None, row["relationship"]) and matching(row["name"], a["query"])
    ]
    return page_of(matches, a)


@CONTACTS.read(
    "Show all details of one contact.", "{id, name, email, phone, relationship, birthday, city}", _CONTACT_ID
)
def show_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "contacts", a["contact_id"])


@CONTACTS.change(
    "Add a contact.",
    "{added: contact}",
    need("name"),
    need("email"),
    need("phone"),
    need("relationship", "string", choices=RELATIONSHIPS),
)
def add_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    existing = select(db, "select id from contacts where email = ?", a["email"])
    if existing:
        raise ApiError(f"{a['email']} is already contact {existing[0]['id']}")
    fields = {name: a[name] for name in ("name", "email", "phone", "relationship")}
    return {"added": one(db, "contacts", insert(db, "contacts", **fields, birthday="", city=""))}


@CONTACTS.change(
    "Change details of a contact; what is left out stays.",
    "{updated: contact}",
    _CONTACT_ID,
    may("phone"),
    may("email"),
    may("relationship", "string", choices=RELATIONSHIPS),
)
def update_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "contacts", a["contact_id"])
    update(db, "contacts", a["contact_id"], changes_in(a, ("phone", "email", "relationship")))
    return {"updated": one(db, "contacts", a["contact_id"])}


CONTACTS.deletion("contacts", "Delete a contact for good.")


CALENDAR = App("calendar", "your events, with time, place and guests", [login_entry("calendar")])
_EVENT_FIELDS = ("title", "date", "start", "end", "place")
_EVENT_ID = id_of("events")


@CALENDAR.listing(
    "List events, earliest first.",
    "{id, title, date, start, end, place}",
    may("since", "date", "first day"),
    may("until", "date", "last day"),
    may("query", "string", "words of the title"),
)
def list_events(db: sqlite3.Connection, a: Arguments) -> Any:
    columns = 'id, title, date, start, "end", place'
    rows = select(db, f"select {columns} from events where {BETWEEN} order by date, start, id", **a)
    return page_of([r for r in rows if matching(r["title"], a["query"])], a)


@CALENDAR.read(
    "Show one event with the email addresses of its guests.",
    "{id, title, date, start, end, place, guests: [email]}",
    _EVENT_ID,
)
def show_event(db: sqlite3.Connection, a: Arguments) -> Any:
    return _event(db, a["event_id"])


@CALENDAR.change(
    "Add an event.",
    "{created: event}",
    need("title"),
    need("date", "date", "like 2025-05-31"),
    need("start", "time", "like 09:30"),
    need("end", "time", "later than start"),
    may("place", default=""),
)
def create_event(db: sqlite3.Connection, a: Arguments) -> Any:
    _check_times(a["start"], a["end"])
    return {"created": _event(db, insert(db, "events", **{name: a[name] for name in _EVENT_FIELDS}, guests=""))}


@CALENDAR.change(
    "Change an event; what is left out stays.",
    "{updated: event}",
    _EVENT_ID,
    may("title"),
    may("date", "date", "like 2025-05-31"),
    may("start", "time", "like 09:30"),
    may("end", "time"),
    may("place"),
)
def update_event(db: sqlite3.Connection, a: Arguments) -> Any:
    event = one(db, "events", a["event_id"])
    changes = changes_in(a, _EVENT_FIELDS)
    _check_times(changes.get("start", event["start"]), changes.get("end", event["end"]))
    update(db, "events", event["id"], changes)
    return {"updated": _event(db, event["id"])}


CALENDAR.deletion("events", "Delete an event.")


def _event(db: sqlite3.Connection, identifier: str) -> dict[str, Any]:
    event = one(db, "events", identifier)
    return event | {"guests": [guest for guest in event["guests"].split(",") if guest]}


def _check_times(start: str, end: str) -> None:
    if end <= start:
        raise ApiError(f"the event must end after it starts, but {end} is not after {start}")


MAIL = App("mail", "your messages in the folders inbox, archive and sent", [login_entry("mail")])
FOLDERS = ("inbox", "archive", "sent")
_MESSAGE_ID = id_of("messages")


@MAIL.listing(
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


@MAIL.read("Read one message.", "{id, folder, sender, recipient, subject, body, date}", _MESSAGE_ID)
def read_message(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "messages", a["message_id"])


@MAIL.change(
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


@MAIL.change(
    "Move a message to another folder.",
    "{moved: {id, sender, subject, date, folder}}",
    _MESSAGE_ID,
    need("folder", "string", choices=("inbox", "archive")),
)
def move_message(db: sqlite3.Connection, a: Arguments) -> Any:
    message = one(db, "messages", a["message_id"])
    if message["folder"] == "sent":
        raise ApiError("messages in the folder sent cannot be moved")
    update(db, "messages", message["id"], {"folder": a["folder"]})
    fields = {name: message[name] for name in ("id", "sender", "subject", "date")}
    return {"moved": fields | {"folder": a["folder"]}}


MAIL.deletion("messages", "Delete a message for good.")


def _list_entry(row: dict[str, Any]) -> dict[str, Any]:
    """A message in a list: who, about what, and how it begins."""
    other = "recipient" if row["folder"] == "sent" else "sender"
    fields = {name: row[name] for name in ("id", other, "subject", "date")}
    return fields | {"preview": row["body"][:28] + "...", "read": True, "attachments": 0, "priority": "normal"}


FILES = App("files", "your text files, such as bills and notes", [login_entry("files")])
_FILE_ID = id_of("files")


@FILES.listing(
    "List files by folder and name.",
    "{id, folder, name, modified}",
    may("folder"),
    may("query", "string", "words of the file name"),
)
def list_files(db: sqlite3.Connection, a: Arguments) -> Any:
    rows = select(db, "select id, folder, name, modified from files order by folder, name, id")
    matches = [r for r in rows if a["folder"] in (None, r["folder"]) and matching(r["name"], a["query"])]
    return page_of(matches, a)


@FILES.read("Read a file.", "{id, folder, name, content, modified}", _FILE_ID)
def read_file(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "files", a["file_id"])


@FILES.change("Write a new file.", "{file_id}", need("folder"), need("name"), need("content"))
def create_file(db: sqlite3.Connection, a: Arguments) -> Any:
    existing = select(db, "select id from files where folder = ? and name = ?", a["folder"], a["name"])
    if existing:
        raise ApiError(f"that folder has a file of this name already: {existing[0]['id']}")
    values = {name: a[name] for name in ("folder", "name", "content")}
    return {"file_id": insert(db, "files", **values, modified=setting(db, "today"))}


@FILES.change("Add a line of text at the end of a file.", "{updated: file_id}", _FILE_ID, need("text"))
def append_to_file(db: sqlite3.Connection, a: Arguments) -> Any:
    file = one(db, "files", a["file_id"])
    content = f"{file['content']}\n{a['text']}"
    db.execute("update files set content = ?, modified = ? where id = ?", (content, setting(db, "today"), file["id"]))
    return {"updated": file["id"]}


@FILES.change("Move a file to another folder.", "{moved: file_id, folder}", _FILE_ID, need("folder"))
def move_file(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "files", a["file_id"])
    update(db, "files", a["file_id"], {"folder": a["folder"]})
    return {"moved": a["file_id"], "folder": a["folder"]}


FILES.deletion("files", "Delete a file for good.")
