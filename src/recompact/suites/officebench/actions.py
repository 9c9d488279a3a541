"""What the agent is told it can do, and from what it did to the action that it meant, what that is for, and which
literals a text holds.

All texts are made from the specs of the apps. As in ACON's harness, each observation repeats the actions of the open
app: this is much of what fills the history.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from recompact.environments.files import ActionError
from recompact.environments.protocol import Behaviour, Literals, tool
from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.apps.machine import SHELL
from recompact.suites.officebench.apps.spec import App
from recompact.suites.officebench.tree import Subtask
from recompact.values.trajectory import Action

ActionForm = Literal["tool", "text"]
SYSTEM_APP = "system"
SWITCH, FINISH = "switch_app", "finish_task"
_TOOL = "act"

_SYSTEM, _EXAMPLE = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").rstrip("\n") for name in ("prompt.txt", "example.txt")
)

_FORMS: dict[ActionForm, str] = {
    "tool": "Every action is a call of the tool act.",
    "text": "Write your reasoning between <think> and </think>, then one action as a JSON object between <action> and"
    " </action>.",
}

TOOLS = (
    tool(
        _TOOL,
        "Do one action in an app.",
        ["app", "action"],
        app={"type": "string", "description": "the app: system, or the one that is open"},
        action={"type": "string", "description": "the name of the action"},
        arguments={"type": "object", "description": "the arguments of the action, by name"},
    ),
)


def system_prompt(subtask: Subtask, form: ActionForm, *, example: bool = True) -> str:
    """With an example in words, unless worked ones follow as turns."""

    def shown(app: str, action: str, **arguments: object) -> str:
        return shown_action(form, app, action, arguments)

    return (f"{_SYSTEM}\n\n{_EXAMPLE}" if example else _SYSTEM).format(
        username=subtask.username,
        weekday=subtask.weekday,
        date=subtask.date,
        time=subtask.time,
        form=_FORMS[form],
        switch=f"{SYSTEM_APP}.{SWITCH}(target_app)",
        finish=f"{SYSTEM_APP}.{FINISH}(answer)",
        example_switch=shown(SYSTEM_APP, SWITCH, target_app="excel"),
        example_read=shown("excel", "read_file", file_path="data/costs.xlsx"),
        example_set=shown("excel", "set_cell", file_path="data/costs.xlsx", row_idx=4, column_idx=2, text="50"),
        example_finish=shown(SYSTEM_APP, FINISH, answer="None"),
    )


def task_message(subtask: Subtask, apps: Sequence[App]) -> str:
    lines = "\n".join(f"- {app.name}: {app.purpose}" for app in apps)
    return f"Task: {subtask.text}\n\nApps:\n{lines}\n- {SYSTEM_APP}: {SWITCH}(target_app), {FINISH}(answer)"


def app_instructions(app: App | None, apps: Sequence[App]) -> str:
    """What can be done next."""
    if app is None:
        return f"No app is open. Open one with {SYSTEM_APP}.{SWITCH}(target_app): {', '.join(a.name for a in apps)}."
    lines = "\n".join(f"- {app.name}.{action.signature}: {action.purpose}" for action in app.actions)
    others = ", ".join(other.name for other in apps if other != app)
    return (
        f"The app {app.name} is open. Its actions:\n{lines}\n"
        f"At any time:\n- {SYSTEM_APP}.{SWITCH}(target_app): open another app ({others})\n"
        f"- {SYSTEM_APP}.{FINISH}(answer): end the task"
    )


def shown_action(form: ActionForm, app: str, action: str, arguments: Mapping[str, object]) -> str:
    """An action as the agent is to write it."""
    if form == "text":
        return f"<action>{json.dumps({'app': app, 'action': action, **arguments})}</action>"
    return f"{_TOOL}{json.dumps({'app': app, 'action': action, 'arguments': dict(arguments)})}"


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
        "paths": tuple(_PATH.findall(text)),
        "addresses": tuple(_ADDRESS.findall(text)),
        "cells": tuple(_CELL.findall(text)),
        "signatures": tuple(
            f"{app}.{name}" for app, name, inside in _NAMED_CALL.findall(text) if _whole(app, name, inside)
        ),
    }


def _whole(app: str, name: str, inside: str) -> bool:
    action = APPS[app].action(name)
    return action is not None and all(re.search(rf"\b{p}\b", inside) for p in action.parameters)
