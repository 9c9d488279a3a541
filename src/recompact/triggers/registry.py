"""From the name of a trigger to the trigger: built in, installed, or the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from recompact.errors import InputError
from recompact.registry import Registry
from recompact.triggers.protocol import Trigger

TRIGGERS = Registry(
    "trigger",
    "recompact.triggers",
    {
        "budget": "recompact.triggers.budget:trigger",
        "turn": "recompact.triggers.turn:trigger",
        "phase": "recompact.triggers.phase:trigger",
        "interval": "recompact.triggers.interval:Interval",
        "tool": "recompact.triggers.tool:trigger",
    },
)
BUDGET = "budget"


def load_trigger(text: str, directory: Path = Path()) -> Trigger | None:
    """A built-in or installed trigger, `file.py:name` or `package.module:name`; `interval:8` is every eighth call.

    None is the default, which needs no call.
    """
    if text == BUDGET:
        return None
    head, colon, number = text.partition(":")
    numbered = bool(colon) and head in TRIGGERS.names()
    if numbered and (not number.isdecimal() or int(number) < 1):
        raise InputError(f"trigger {text!r}: what follows {head!r} must be a number of calls from 1 on")
    plugin = TRIGGERS.find(head if numbered else text, directory)
    if isinstance(plugin, type):
        if not numbered:
            raise InputError(f"trigger {text!r} needs a number of calls: write {text}:8")
        return cast(Trigger, plugin(int(number)))
    if not callable(plugin):
        raise InputError(f"trigger {text!r} is not a trigger: it needs to be a function of a recompact Moment")
    return cast(Trigger, plugin)
