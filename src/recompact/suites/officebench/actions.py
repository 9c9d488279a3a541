"""From what an agent did to the action that it meant, what that is for, and which literals a text holds."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recompact.environments.files import ActionError
from recompact.environments.protocol import Behaviour, Literals
from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.apps.machine import SHELL
from recompact.suites.officebench.prompt import SWITCH, SYSTEM_APP
from recompact.values.trajectory import Action

_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)


@dataclass(frozen=True)
class Intent:
    """`dotted`: the app is in the action's name, as in excel.set_cell, which opens it."""

    app: str
    action: str
    arguments: Mapping[str, Any]
    dotted: bool = False


def intent_of(action: Action) -> Intent:
    """Arguments may be in `arguments` or beside app and action, as OfficeBench has them.

    >>> intent_of(Action("act", {"app": "excel", "action": "read_file", "file_path": "data/a.xlsx"}))
    Intent(app='excel', action='read_file', arguments={'file_path': 'data/a.xlsx'}, dotted=False)
    """
    arguments = dict(action.arguments) if action.name else _object_in(action.text)
    app, name = arguments.pop("app", None), arguments.pop("action", None)
    inner = _as_object(arguments.pop("arguments", None))
    if not isinstance(name, str) or not isinstance(app, str | None):
        raise ActionError('an action needs "app" and "action", both text')
    before, dot, after = name.partition(".")
    if dot and app in (None, before):
        return Intent(before, after, {**arguments, **inner}, dotted=True)
    if app is None:
        raise ActionError('an action needs "app" and "action", both text')
    return Intent(app, name, {**arguments, **inner})


def _as_object(arguments: Any) -> dict[str, Any]:
    """Some models leave the inner object out, or write it as text."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise ActionError('"arguments" must be a JSON object') from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ActionError('"arguments" must be a JSON object')
    return arguments


def _object_in(text: str) -> dict[str, Any]:
    """The action in a message: what is tagged, else everything from the first brace to the last."""
    tagged = _TAGGED.findall(text)
    inside = tagged[-1] if tagged else text[text.find("{") : text.rfind("}") + 1]
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(inside.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return {str(key): each for key, each in value.items()}
    raise ActionError("the message has no action: write one JSON object between <action> and </action>")


_PATH = re.compile(r"\b(?:data|emails|calendar)/[\w./ -]{0,120}?\w\.(?:xlsx|docx?|pdf|txt|eml|ics|jpg|png)\b")
_ADDRESS = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{0,64}\w")
_CELL = re.compile(r"\(\d+, \d+\): (?!\[Empty Cell\])[^\t\n]+")
_NAMED_CALL = re.compile(rf"\b({'|'.join(APPS)})\.(\w+)\(([^()]*)\)")
_CHANGING = re.compile(r">|\b(?:cp|mv|rm|mkdir|rmdir|touch|ln|tee|chmod|unzip|zip|tar|sed\s+-i|dd|install)\b")


def behaviour_of(action: Action) -> Behaviour | None:
    """Opening an app shows its actions, so it is documentation. A shell command is judged by the programs it names.

    >>> behaviour_of(Action("act", {"app": "excel", "action": "set_cell"}))
    'mutation'
    """
    try:
        intent = intent_of(action)
    except ActionError:
        return None
    if intent.app == SYSTEM_APP:
        return "documentation" if intent.action == SWITCH else None
    app = APPS.get(intent.app)
    app_action = app.action(intent.action) if app is not None else None
    if app_action is None:
        return None
    if app == SHELL and _CHANGING.search(str(intent.arguments.get("command", ""))):
        return "mutation"
    return app_action.behaviour


def literals_in(text: str) -> Literals:
    """Paths, addresses, cells with their values, and the actions whose call the text shows in full.

    >>> literals_in("Use excel.read_file(file_path) on data/a b.xlsx for bob@mail.com. (1, 2): 78")["paths"]
    ('data/a b.xlsx',)
    """
    return {
        "paths": _unique(_PATH.findall(text)),
        "addresses": _unique(_ADDRESS.findall(text)),
        "cells": _unique(_CELL.findall(text)),
        "signatures": _unique(
            f"{app}.{name}" for app, name, inside in _NAMED_CALL.findall(text) if _whole(app, name, inside)
        ),
    }


def _whole(app: str, name: str, inside: str) -> bool:
    action = APPS[app].action(name)
    return action is not None and all(re.search(rf"\b{p}\b", inside) for p in action.parameters)


def _unique(literals: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(literals))
