"""The people the owner knows, and how they are related.

Relationships live only here: whoever is restricted by one must be looked up in this app.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import matching, one, page_of
from recompact.suites.pocket.database import insert, select
from recompact.suites.pocket.spec import ApiError, App, Arguments, may, need

APP = App("contacts", "the people you know: phone, email, relationship to you", [login_entry("contacts")])
RELATIONSHIPS = ("coworker", "friend", "roommate", "sibling", "parent")
_HOW = "contacts.list_contacts"
_ID = need("contact_id", "string", f"from {_HOW}")


@APP.listing(
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


@APP.read("Show all details of one contact.", "{id, name, email, phone, relationship, birthday, city}", _ID)
def show_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    return _contact(db, a["contact_id"])


@APP.change(
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
    return {"added": _contact(db, insert(db, "contacts", **fields, birthday="", city=""))}


@APP.change(
    "Change details of a contact; what is left out stays.",
    "{updated: contact}",
    _ID,
    may("phone"),
    may("email"),
    may("relationship", "string", choices=RELATIONSHIPS),
)
def update_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "contacts", a["contact_id"], _HOW)
    changes = {name: a[name] for name in ("phone", "email", "relationship") if a[name] is not None}
    if not changes:
        raise ApiError("give at least one of phone, email, relationship")
    for name, value in changes.items():
        db.execute(f"update contacts set {name} = ? where id = ?", (value, a["contact_id"]))
    return {"updated": _contact(db, a["contact_id"])}


@APP.change("Delete a contact for good.", "{deleted: contact_id}", _ID)
def delete_contact(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "contacts", a["contact_id"], _HOW)
    db.execute("delete from contacts where id = ?", (a["contact_id"],))
    return {"deleted": a["contact_id"]}


def _contact(db: sqlite3.Connection, identifier: str) -> dict[str, Any]:
    return one(db, "contacts", identifier, _HOW)
