"""What an action in OfficeBench is for, and which literals a text holds, for `recompact behaviour`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recompact.environments.files import ActionError
from recompact.environments.protocol import Behaviour, Literals
from recompact.suites.officebench.actions import intent_of
from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.apps.shell import SHELL
from recompact.suites.officebench.prompt import SWITCH, SYSTEM_APP
from recompact.values.trajectory import Action

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
