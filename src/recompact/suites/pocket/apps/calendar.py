"""The owner's events.

A list shows when and where; the guests of an event are shown by looking at the event itself.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import BETWEEN, matching, one, page_of
from recompact.suites.pocket.database import insert, select
from recompact.suites.pocket.spec import ApiError, App, Arguments, may, need

APP = App("calendar", "your events, with time, place and guests", [login_entry("calendar")])
_HOW = "calendar.list_events"
_FIELDS = ("title", "date", "start", "end", "place")
_ID = need("event_id", "string", f"from {_HOW}")


@APP.listing(
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


@APP.read(
    "Show one event with the email addresses of its guests.",
    "{id, title, date, start, end, place, guests: [email]}",
    _ID,
)
def show_event(db: sqlite3.Connection, a: Arguments) -> Any:
    return _as_read(db, a["event_id"])


@APP.change(
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
    return {"created": _as_read(db, insert(db, "events", **{name: a[name] for name in _FIELDS}, guests=""))}


@APP.change(
    "Change an event; what is left out stays.",
    "{updated: event}",
    _ID,
    may("title"),
    may("date", "date", "like 2025-05-31"),
    may("start", "time", "like 09:30"),
    may("end", "time"),
    may("place"),
)
def update_event(db: sqlite3.Connection, a: Arguments) -> Any:
    event = one(db, "events", a["event_id"], _HOW)
    changes = {name: a[name] for name in _FIELDS if a[name] is not None}
    if not changes:
        raise ApiError(f"give at least one of {', '.join(_FIELDS)}")
    _check_times(changes.get("start", event["start"]), changes.get("end", event["end"]))
    for name, value in changes.items():
        db.execute(f'update events set "{name}" = ? where id = ?', (value, event["id"]))
    return {"updated": _as_read(db, event["id"])}


@APP.change("Delete an event.", "{deleted: event_id}", _ID)
def delete_event(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "events", a["event_id"], _HOW)
    db.execute("delete from events where id = ?", (a["event_id"],))
    return {"deleted": a["event_id"]}


def _as_read(db: sqlite3.Connection, identifier: str) -> dict[str, Any]:
    event = one(db, "events", identifier, _HOW)
    return event | {"guests": [guest for guest in event["guests"].split(",") if guest]}


def _check_times(start: str, end: str) -> None:
    if end <= start:
        raise ApiError(f"the event must end after it starts, but {end} is not after {start}")
