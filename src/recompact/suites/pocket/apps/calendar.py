"""The owner's events.

A list shows when and where; the guests of an event are shown by looking at the event itself.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import BETWEEN, matching, one, page_of
from recompact.suites.pocket.database import insert, select
from recompact.suites.pocket.spec import ApiError, Arguments, change, listing, may, need, read

ABOUT = "your events, with time, place and guests"
_HOW = "calendar.list_events"
_FIELDS = ("title", "date", "start", "end", "place")


def list_events(db: sqlite3.Connection, a: Arguments) -> Any:
    columns = 'id, title, date, start, "end", place'
    rows = select(db, f"select {columns} from events where {BETWEEN} order by date, start, id", **a)
    return page_of([r for r in rows if matching(r["title"], a["query"])], a)


def show_event(db: sqlite3.Connection, a: Arguments) -> Any:
    return _as_read(db, a["event_id"])


def create_event(db: sqlite3.Connection, a: Arguments) -> Any:
    _check_times(a["start"], a["end"])
    return {"created": _as_read(db, insert(db, "events", **{name: a[name] for name in _FIELDS}, guests=""))}


def update_event(db: sqlite3.Connection, a: Arguments) -> Any:
    event = one(db, "events", a["event_id"], _HOW)
    changes = {name: a[name] for name in _FIELDS if a[name] is not None}
    if not changes:
        raise ApiError(f"give at least one of {', '.join(_FIELDS)}")
    _check_times(changes.get("start", event["start"]), changes.get("end", event["end"]))
    for name, value in changes.items():
        db.execute(f'update events set "{name}" = ? where id = ?', (value, event["id"]))
    return {"updated": _as_read(db, event["id"])}


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


_ID = need("event_id", "string", f"from {_HOW}")
ENTRIES = (
    login_entry("calendar"),
    listing(
        "calendar",
        "list_events",
        (
            may("since", "date", "first day"),
            may("until", "date", "last day"),
            may("query", "string", "words of the title"),
        ),
        "List events, earliest first.",
        "{id, title, date, start, end, place}",
        list_events,
    ),
    read(
        "calendar",
        "show_event",
        (_ID,),
        "Show one event with the email addresses of its guests.",
        "{id, title, date, start, end, place, guests: [email]}",
        show_event,
    ),
    change(
        "calendar",
        "create_event",
        (
            need("title"),
            need("date", "date", "like 2025-05-31"),
            need("start", "time", "like 09:30"),
            need("end", "time", "later than start"),
            may("place", default=""),
        ),
        "Add an event.",
        "{created: event}",
        create_event,
    ),
    change(
        "calendar",
        "update_event",
        (
            _ID,
            may("title"),
            may("date", "date", "like 2025-05-31"),
            may("start", "time", "like 09:30"),
            may("end", "time"),
            may("place"),
        ),
        "Change an event; what is left out stays.",
        "{updated: event}",
        update_event,
    ),
    change("calendar", "delete_event", (_ID,), "Delete an event.", "{deleted: event_id}", delete_event),
)
