"""The app in which the others are found: which apps there are, which APIs they have, how one API is called.

Needs no login. Everything it says is derived from the specs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from recompact.suites.pocket.spec import ApiError, Arguments, Entry, Parameter, Spec, need

ABOUT = "describes the apps and their APIs"

_APP = need("app", "string", "name of an app")
_OWN = (
    Spec("documentation", "show_apps", (), "List the apps.", "{app: what it is for}"),
    Spec("documentation", "show_apis", (_APP,), "List the APIs of an app.", "{api: what it does}"),
    Spec(
        "documentation",
        "show_api",
        (_APP, need("api", "string", "name of one of its APIs")),
        "Show how an API is called.",
        "{signature, description, parameters, returns, fails, example}",
    ),
)


def entries(about: Mapping[str, str], others: tuple[Spec, ...]) -> tuple[Entry, ...]:
    """The entries of this app, which describe themselves as well."""
    specs = (*_OWN, *others)

    def of_app(app: str) -> dict[str, Spec]:
        if app not in about:
            raise ApiError(f"there is no app {app[:40]!r}; the apps are: {', '.join(about)}")
        return {spec.name: spec for spec in specs if spec.app == app}

    def show_apps(_: sqlite3.Connection, __: Arguments) -> Any:
        return dict(about)

    def show_apis(_: sqlite3.Connection, arguments: Arguments) -> Any:
        return {name: spec.description for name, spec in of_app(arguments["app"]).items()}

    def show_api(_: sqlite3.Connection, arguments: Arguments) -> Any:
        apis = of_app(arguments["app"])
        if arguments["api"] not in apis:
            raise ApiError(f"{arguments['app']} has no API {arguments['api'][:40]!r}; it has: {', '.join(apis)}")
        return describe(apis[arguments["api"]])

    return tuple(Entry(spec, run) for spec, run in zip(_OWN, (show_apps, show_apis, show_api), strict=True))


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
