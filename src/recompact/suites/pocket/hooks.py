"""What an action in pocket is for, and which literals a text holds, by the table of APIs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recompact.environments.protocol import Behaviour, Literals
from recompact.suites.pocket.apps import APPS, ENTRIES
from recompact.suites.pocket.prompt import RECORD_ID, TOKEN
from recompact.values.trajectory import Action

DOCUMENTATION = "documentation"  # the app in which the others are looked up
_NAMED_CALL = re.compile(rf"\b({'|'.join(APPS)})\.(\w+)(?:\(([^()]*)\))?")


def behaviour_of(action: Action) -> Behaviour | None:
    """What a call is for. A call of an API that does not exist, and ending the task, are neither.

    >>> behaviour_of(Action("call_api", {"app": "payments", "api": "send_money"}))
    'mutation'
    """
    entry = ENTRIES.get(f"{action.arguments.get('app')}.{action.arguments.get('api')}")
    if action.name != "call_api" or entry is None:
        return None
    if entry.spec.app == DOCUMENTATION:
        return "documentation"
    return "mutation" if entry.spec.changes else "read"


def literals_in(text: str) -> Literals:
    """Tokens of logins, ids of records, and the APIs whose call the text shows in full.

    >>> literals_in("Token pay-0123abcd; contacts.login(username, password); see payments.send_money")
    {'tokens': ('pay-0123abcd',), 'ids': (), 'signatures': ('contacts.login',)}
    """
    return {
        "tokens": tuple(dict.fromkeys(TOKEN.findall(text))),
        "ids": tuple(dict.fromkeys(RECORD_ID.findall(text))),
        "signatures": tuple(dict.fromkeys(name for name, whole in named_apis(text) if whole)),
    }


def named_apis(text: str) -> Iterator[tuple[str, bool]]:
    """Every mention of an API in a text, and whether it shows how the API is called.

    It does if every required argument stands in the parentheses after it; where none is required, the name is enough.
    """
    for app, api, inside in _NAMED_CALL.findall(text):
        name = f"{app}.{api}"
        if name in ENTRIES:
            required = [p.name for p in ENTRIES[name].spec.parameters if p.required]
            yield name, all(re.search(rf"\b{p}\b", inside) for p in required)
