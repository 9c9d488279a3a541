"""From what an agent did to the action that it meant: an app, a name and arguments."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.environments.files import ActionError
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
