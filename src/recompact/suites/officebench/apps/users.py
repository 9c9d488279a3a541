"""The apps that keep something for each user: a calendar, which is one iCalendar file, and e-mail, whose mailbox is a
directory with a file for each message."""

from __future__ import annotations

from datetime import UTC, date, datetime
from email.message import EmailMessage
from typing import TYPE_CHECKING

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Desk
from recompact.suites.officebench.documents import mail_text
from recompact.suites.officebench.tree import CALENDAR_LIMIT, MAIL_LIMIT, plain_name

if TYPE_CHECKING:
    from icalendar import Calendar

CALENDAR = App("calendar", "calendars of the users")
EMAIL = App("email", "mailboxes of the users")

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_DESCRIPTION = "Added in the calendar app"
_LOCATION = "Unspecified"
_PREVIEW = 20


@CALENDAR.change("create_event", "add an event to one user's calendar; times look like 2020-05-01 14:30:00")
def _create_event(desk: Desk, user: str, summary: str, time_start: str, time_end: str) -> str:
    import icalendar

    plain_name(user, "the user")
    start, end = _moment("time_start", time_start), _moment("time_end", time_end)
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


@CALENDAR.change("delete_event", "delete a user's events of that summary")
def _delete_event(desk: Desk, user: str, summary: str) -> str:
    calendar = _load(desk, plain_name(user, "the user"))
    others = [part for part in calendar.subcomponents if part.name != "VEVENT" or str(part.get("summary")) != summary]
    deleted = len(calendar.subcomponents) - len(others)
    if not deleted:
        raise ActionError(f"{user}'s calendar has no event {summary!r}")
    calendar.subcomponents = others
    desk.files.write(_file(user), calendar.to_ical(), CALENDAR_LIMIT)
    count = "The event is" if deleted == 1 else f"{deleted} events are"
    return f"{count} deleted from {user}'s calendar, which now reads:\n{_events(calendar)}"


@CALENDAR.read("list_events", "show all events of a user")
def _list_events(desk: Desk, username: str) -> str:
    return f"{username}'s calendar:\n{_events(_load(desk, plain_name(username, 'the user')))}"


def _file(user: str) -> str:
    return f"calendar/{user}.ics"


def _moment(name: str, value: str) -> datetime:
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


@EMAIL.change("send_email", "send an e-mail to one recipient; its id is the subject")
def _send_email(desk: Desk, sender: str, recipient: str, subject: str, content: str) -> str:
    sender, recipient = _mailbox(sender), _mailbox(recipient)
    plain_name(subject, "the subject")
    message = EmailMessage()
    try:
        message["From"] = f"{sender}@example.com"
        message["To"] = f"{recipient}@example.com"
        message["Subject"] = subject
        message.set_content(content)
        data = message.as_bytes()
    except (ValueError, IndexError, AttributeError) as error:  # what the mail library raises for an invalid name
        raise ActionError(f"this cannot be written as an e-mail: {error}") from None
    for user in dict.fromkeys((sender, recipient)):
        desk.files.write(f"emails/{user}/{subject}.eml", data, MAIL_LIMIT)
    return f"The e-mail {subject} is sent from {sender} to {recipient}."


@EMAIL.read("list_emails", "show a user's e-mails and how each begins")
def _list_emails(desk: Desk, username: str) -> str:
    user = _mailbox(username)
    names = desk.files.names(f"emails/{user}", ".eml")
    shown = "".join(_show_mail(desk, user, name, _PREVIEW) for name in names)
    return f"{user}'s e-mails:\n{shown or 'There are none.'}"


@EMAIL.read("read_email", "show one e-mail whole")
def _read_email(desk: Desk, username: str, email_id: str) -> str:
    user, name = _mailbox(username), plain_name(email_id, "the email_id")
    known = desk.files.names(f"emails/{user}", ".eml")
    mail_name = next((each for each in (name, f"{name}.eml") if each in known), None)
    if mail_name is None:
        raise ActionError(f"{user} has no e-mail {name!r}; list_emails shows the ids")
    return _show_mail(desk, user, mail_name)


def _show_mail(desk: Desk, user: str, name: str, preview: int | None = None) -> str:
    try:
        return mail_text(name, desk.files.read(f"emails/{user}/{name}", MAIL_LIMIT), preview)
    except ValueError as error:
        return f"Email ID: {name}\nIt cannot be read: {error}\n"


def _mailbox(user: str) -> str:
    """The user of an address, or a user's name as it is."""
    return plain_name(user.partition("@")[0].strip(), "the user")
