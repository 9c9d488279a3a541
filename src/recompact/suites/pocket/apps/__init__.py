"""All apps together: the catalogue of APIs and, by full name, the functions behind them.

The documentation app is made last, since it describes all the others and itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from recompact.suites.pocket.apps import account, calendar, contacts, documentation, files, mail, payments
from recompact.suites.pocket.spec import Entry, Spec

APPS: Mapping[str, str] = {
    "documentation": documentation.ABOUT,
    "account": account.ABOUT,
    "contacts": contacts.ABOUT,
    "payments": payments.ABOUT,
    "calendar": calendar.ABOUT,
    "mail": mail.ABOUT,
    "files": files.ABOUT,
}

_OTHERS = (
    *account.ENTRIES,
    *contacts.ENTRIES,
    *payments.ENTRIES,
    *calendar.ENTRIES,
    *mail.ENTRIES,
    *files.ENTRIES,
)
_ALL = (*documentation.entries(APPS, tuple(e.spec for e in _OTHERS)), *_OTHERS)

ENTRIES: Mapping[str, Entry] = {entry.spec.full_name: entry for entry in _ALL}
CATALOGUE: tuple[Spec, ...] = tuple(entry.spec for entry in _ALL)
