"""Where calls arrive: the API is looked up, the arguments are checked, and it is run.

Arguments come as a model wrote them. An `ApiError` says how to do better, and a call that errs has changed nothing.
"""

from __future__ import annotations

import difflib
import math
import re
import sqlite3
from collections.abc import Mapping
from datetime import date
from typing import Any

from recompact.suites.pocket.apps import APPS, ENTRIES
from recompact.suites.pocket.spec import ApiError, Arguments, Entry, Parameter, Spec

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def execute(db: sqlite3.Connection, app: object, api: object, arguments: object) -> Any:
    """Make one call."""
    entry = _find(app, api)
    valid = _validate(entry.spec, arguments)
    if entry.spec.needs_token:
        _check_token(db, entry.spec.app, valid["token"])
    return entry.run(db, valid)


def _find(app: object, api: object) -> Entry:
    if not isinstance(app, str) or app not in APPS:
        raise ApiError(f"there is no app {brief(app)}; the apps are: {', '.join(APPS)}")
    entry = ENTRIES.get(f"{app}.{api}") if isinstance(api, str) else None
    if entry is not None:
        return entry
    names = [e.spec.name for e in ENTRIES.values() if e.spec.app == app]
    near = difflib.get_close_matches(api[:60], names, n=1, cutoff=0.0) if isinstance(api, str) else []
    hint = f"did you mean {near[0]}? " if near else ""
    raise ApiError(f"{app} has no API {brief(api)}; {hint}documentation.show_apis with app={app!r} lists its APIs")


def _validate(spec: Spec, arguments: object) -> Arguments:
    if not isinstance(arguments, Mapping):
        raise ApiError(f"arguments must be a JSON object, not {brief(arguments)}; expected {spec.signature}")
    names = {p.name for p in spec.parameters}
    for name in arguments:
        if name not in names:
            raise ApiError(f"{spec.full_name} has no argument {brief(name)}; expected {spec.signature}")
    return {p.name: _value(spec, p, arguments) for p in spec.parameters}


def _value(spec: Spec, parameter: Parameter, arguments: Mapping[Any, Any]) -> Any:
    value = arguments.get(parameter.name)
    if value is None:
        if not parameter.required:
            return parameter.default
        if parameter.name == "token":
            raise ApiError(f"token is missing: {_how_to_log_in(spec.app)}")
        raise ApiError(f"argument {parameter.name} is missing; expected {spec.signature}")
    expectation = _mismatch(parameter, value)
    if expectation:
        raise ApiError(f"argument {parameter.name} must be {expectation}, not {brief(value)}")
    return value


def _mismatch(parameter: Parameter, value: Any) -> str:
    """What the value should have been; empty where it is right."""
    if parameter.kind == "integer":
        right = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9
        return "" if right else "an integer"
    if parameter.kind == "number":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if number and abs(value) < 10**9 and math.isfinite(value) else "a number"
    if not isinstance(value, str):
        return _WORDS[parameter.kind]
    if parameter.choices and value not in parameter.choices:
        return f"one of {', '.join(parameter.choices)}"
    if parameter.kind == "date" and not _is_date(value):
        return _WORDS["date"]
    if parameter.kind == "time" and not _TIME.fullmatch(value):
        return _WORDS["time"]
    if not _encodable(value):
        return "valid text"
    if parameter.required and not value.strip():
        return "a text that is not empty"
    return ""


_WORDS = {"string": "a string", "date": "a date like 2025-05-31", "time": "a time like 09:30"}


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _encodable(value: str) -> bool:
    """Lone surrogates, which JSON may carry, cannot be stored."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_token(db: sqlite3.Connection, app: str, token: str) -> None:
    row = db.execute("select app from logins where id = ?", (token,)).fetchone()
    if row is None or row[0] != app:
        raise ApiError(f"token {brief(token)} is not valid for {app}: {_how_to_log_in(app)}")


def _how_to_log_in(app: str) -> str:
    return f"get one with {app}.login; passwords are in account.show_passwords"


def brief(value: object) -> str:
    """A value as an error text quotes it: short, and always encodable."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print an integer of thousands of digits
        return "that number"
    short = text if len(text) <= 60 else text[:57] + "..."
    return short.encode("utf-8", "replace").decode("utf-8")
