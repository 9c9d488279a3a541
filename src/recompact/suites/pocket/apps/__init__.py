"""All apps together: the catalogue of APIs and, by full name, the functions behind them.

The documentation app is made last, since it describes all the others and itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from recompact.suites.pocket.apps import account, calendar, contacts, documentation, files, mail, payments
from recompact.suites.pocket.spec import Entry, Spec

_BEHIND_LOGIN = (contacts.APP, payments.APP, calendar.APP, mail.APP, files.APP)
APPS: Mapping[str, str] = {
    "documentation": documentation.ABOUT,
    "account": account.ABOUT,
    **{app.name: app.about for app in _BEHIND_LOGIN},
}

_OTHERS = (*account.ENTRIES, *(entry for app in _BEHIND_LOGIN for entry in app.entries))
_ALL = (*documentation.entries(APPS, tuple(e.spec for e in _OTHERS)), *_OTHERS)

ENTRIES: Mapping[str, Entry] = {entry.spec.full_name: entry for entry in _ALL}
CATALOGUE: tuple[Spec, ...] = tuple(entry.spec for entry in _ALL)
