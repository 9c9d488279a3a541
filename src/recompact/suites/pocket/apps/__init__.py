"""All apps together: the catalogue of APIs and, by full name, the functions behind them.

Here is also the app in which the others are found: which apps there are, which APIs they have, how one API is called.
It needs no login, and everything it says is derived from the specs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from recompact.suites.pocket.apps.account import ACCOUNT
from recompact.suites.pocket.apps.payments import PAYMENTS
from recompact.suites.pocket.apps.records import CALENDAR, CONTACTS, FILES, MAIL
from recompact.suites.pocket.spec import ApiError, App, Arguments, Entry, Parameter, Spec, need

DOCUMENTATION = App("documentation", "describes the apps and their APIs", [], token=False)
_APP = need("app", "string", "name of an app")


@DOCUMENTATION.read("List the apps.", "{app: what it is for}")
def show_apps(_: sqlite3.Connection, __: Arguments) -> Any:
    return dict(APPS)


@DOCUMENTATION.read("List the APIs of an app.", "{api: what it does}", _APP)
def show_apis(_: sqlite3.Connection, a: Arguments) -> Any:
    return {name: spec.description for name, spec in _of_app(a["app"]).items()}


@DOCUMENTATION.read(
    "Show how an API is called.",
    "{signature, description, parameters, returns, fails, example}",
    _APP,
    need("api", "string", "name of one of its APIs"),
)
def show_api(_: sqlite3.Connection, a: Arguments) -> Any:
    apis = _of_app(a["app"])
    if a["api"] not in apis:
        raise ApiError(f"{a['app']} has no API {a['api'][:40]!r}; it has: {', '.join(apis)}")
    return describe(apis[a["api"]])


_ALL = (DOCUMENTATION, ACCOUNT, CONTACTS, PAYMENTS, CALENDAR, MAIL, FILES)
APPS: Mapping[str, str] = {app.name: app.about for app in _ALL}
ENTRIES: Mapping[str, Entry] = {entry.spec.full_name: entry for app in _ALL for entry in app.entries}
CATALOGUE: tuple[Spec, ...] = tuple(entry.spec for entry in ENTRIES.values())


def _of_app(app: str) -> dict[str, Spec]:
    if app not in APPS:
        raise ApiError(f"there is no app {app[:40]!r}; the apps are: {', '.join(APPS)}")
    return {spec.name: spec for spec in CATALOGUE if spec.app == app}


def describe(spec: Spec) -> dict[str, Any]:
    """One API as the agent reads it."""
    example = {p.name: p.example for p in spec.parameters if p.required}
    return {
        "signature": spec.signature,
        "description": spec.description,
        "parameters": {p.name: _describe_parameter(p) for p in spec.parameters},
        "returns": spec.returns,
        "fails": _failures(spec),
        "example": {"app": spec.app, "api": spec.name, "arguments": example},
    }


def _failures(spec: Spec) -> str:
    """When a call fails."""
    causes = ["an argument is missing or has the wrong type"]
    if spec.needs_token:
        causes.append("the token is not valid")
    causes += [f"no record with this {p.name}" for p in spec.parameters if p.name.endswith("_id")]
    return "; ".join(causes)


def _describe_parameter(parameter: Parameter) -> str:
    need = "required" if parameter.required else "optional"
    return ", ".join(part for part in (need, parameter.description, " | ".join(parameter.choices)) if part)
