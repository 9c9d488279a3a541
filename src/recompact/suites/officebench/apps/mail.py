"""The e-mail app: a mailbox is a directory, a message a file in it."""

from __future__ import annotations

from email.message import EmailMessage

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, text
from recompact.suites.officebench.documents import mail_text, read_mail
from recompact.suites.officebench.tree import MAIL_LIMIT, plain_name

_PREVIEW = 20

EMAIL = App("email", "mailboxes of the users")


@EMAIL.change("send an e-mail to one recipient; its id is the subject", "sender", "recipient", "subject", "content")
def _send_email(desk: Desk, arguments: Arguments) -> str:
    sender, recipient = _user(arguments, "sender"), _user(arguments, "recipient")
    subject = plain_name(text(arguments, "subject"), "the subject")
    message = EmailMessage()
    try:
        message["From"] = f"{sender}@example.com"
        message["To"] = f"{recipient}@example.com"
        message["Subject"] = subject
        message.set_content(text(arguments, "content"))
        data = message.as_bytes()
    except (ValueError, IndexError, AttributeError) as error:  # what the mail library raises for an invalid name
        raise ActionError(f"this cannot be written as an e-mail: {error}") from None
    for user in dict.fromkeys((sender, recipient)):
        desk.files.write(f"emails/{user}/{subject}.eml", data, MAIL_LIMIT)
    return f"The e-mail {subject} is sent from {sender} to {recipient}."


@EMAIL.read("show a user's e-mails and how each begins", "username")
def _list_emails(desk: Desk, arguments: Arguments) -> str:
    user = _user(arguments, "username")
    names = desk.files.names(f"emails/{user}", ".eml")
    return (
        f"{user}'s e-mails:\n{''.join(_show_mail(desk, user, name, _PREVIEW) for name in names) or 'There are none.'}"
    )


@EMAIL.read("show one e-mail whole", "username", "email_id")
def _read_email(desk: Desk, arguments: Arguments) -> str:
    user, name = _user(arguments, "username"), plain_name(text(arguments, "email_id"), "the email_id")
    known = desk.files.names(f"emails/{user}", ".eml")
    mail_name = next((each for each in (name, f"{name}.eml") if each in known), None)
    if mail_name is None:
        raise ActionError(f"{user} has no e-mail {name!r}; list_emails shows the ids")
    return _show_mail(desk, user, mail_name)


def _show_mail(desk: Desk, user: str, name: str, preview: int | None = None) -> str:
    try:
        return mail_text(name, read_mail(desk.files.read(f"emails/{user}/{name}", MAIL_LIMIT)), preview)
    except ValueError as error:
        return f"Email ID: {name}\nIt cannot be read: {error}\n"


def _user(arguments: Arguments, name: str) -> str:
    return plain_name(text(arguments, name).partition("@")[0].strip(), "the user")
