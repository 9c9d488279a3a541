"""The calendar: one iCalendar file per user."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, text
from recompact.suites.officebench.tree import CALENDAR_LIMIT, plain_name

if TYPE_CHECKING:
    from icalendar import Calendar

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_DESCRIPTION = "Added in the calendar app"
_LOCATION = "Unspecified"

CALENDAR = App("calendar", "calendars of the users")


@CALENDAR.change(
    "add an event to one user's calendar; times look like 2020-05-01 14:30:00",
    "user",
    "summary",
    "time_start",
    "time_end",
)
def _create_event(desk: Desk, arguments: Arguments) -> str:
    import icalendar

    user, summary = _user(arguments, "user"), text(arguments, "summary")
    start, end = _moment(arguments, "time_start"), _moment(arguments, "time_end")
    if end < start:
        raise ActionError(f"the event would end ({end}) before it starts ({start})")
    calendar = _load(desk, user)
    event = icalendar.Event()
    event.add("summary", summary)
    event.add("dtstart", start)
    event.add("dtend", end)
    event.add("dtstamp", desk.now.replace(tzinfo=UTC))
    event.add("description", _DESCRIPTION)
    event.add("location", _LOCATION)
    calendar.add_component(event)
    desk.files.write(_file(user), calendar.to_ical(), CALENDAR_LIMIT)
    return f"The event {summary} is in {user}'s calendar, which now reads:\n{_events(calendar)}"


@CALENDAR.change("delete a user's events of that summary", "user", "summary")
def _delete_event(desk: Desk, arguments: Arguments) -> str:
    user, summary = _user(arguments, "user"), text(arguments, "summary")
    calendar = _load(desk, user)
    others = [part for part in calendar.subcomponents if part.name != "VEVENT" or str(part.get("summary")) != summary]
    deleted = len(calendar.subcomponents) - len(others)
    if not deleted:
        raise ActionError(f"{user}'s calendar has no event {summary!r}")
    calendar.subcomponents = others
    desk.files.write(_file(user), calendar.to_ical(), CALENDAR_LIMIT)
    count = "The event is" if deleted == 1 else f"{deleted} events are"
    return f"{count} deleted from {user}'s calendar, which now reads:\n{_events(calendar)}"


@CALENDAR.read("show all events of a user", "username")
def _list_events(desk: Desk, arguments: Arguments) -> str:
    user = _user(arguments, "username")
    return f"{user}'s calendar:\n{_events(_load(desk, user))}"


def _user(arguments: Arguments, name: str) -> str:
    return plain_name(text(arguments, name), "the user")


def _file(user: str) -> str:
    return f"calendar/{user}.ics"


def _moment(arguments: Arguments, name: str) -> datetime:
    value = text(arguments, name)
    try:
        return datetime.strptime(value, TIME_FORMAT)
    except ValueError:
        raise ActionError(f"{name} must look like 2020-05-01 14:30:00, not {value[:80]!r}") from None


def _load(desk: Desk, user: str) -> Calendar:
    """The user's calendar; a new one if there is none, which nobody sees until an event is in it."""
    import icalendar

    if not desk.files.exists(_file(user)):
        calendar = icalendar.Calendar()
        calendar.add("prodid", "-//recompact//officebench//")
        calendar.add("version", "2.0")
        return calendar
    try:
        parsed = icalendar.Calendar.from_ical(desk.files.read(_file(user), CALENDAR_LIMIT))
    except (ValueError, IndexError, KeyError) as error:
        raise ActionError(f"{user}'s calendar cannot be read: {error}") from None
    assert isinstance(parsed, icalendar.Calendar)
    return parsed


def _events(calendar: Calendar) -> str:
    blocks = [
        f"Summary: {event.get('summary')}\nStart: {_show_event(event, 'dtstart')}\nEnd: {_show_event(event, 'dtend')}\n"
        f"Description: {event.get('description')}\nLocation: {event.get('location')}\n"
        for event in calendar.walk("VEVENT")
    ]
    return ("-" * 40 + "\n").join(blocks) or "There are no events."


def _show_event(event: object, name: str) -> str:
    moment = getattr(getattr(event, "get")(name), "dt", None)  # noqa: B009 - a component is a mapping without a type
    if isinstance(moment, datetime):
        return moment.strftime(TIME_FORMAT)
    return moment.isoformat() if isinstance(moment, date) else "None"
