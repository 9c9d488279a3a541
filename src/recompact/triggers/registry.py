"""The triggers that are built in, and how any trigger is found by its name: built in, installed, or the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from recompact.errors import InputError
from recompact.registry import Registry
from recompact.triggers.protocol import Moment, Trigger
from recompact.values.call_effects import SAFE
from recompact.values.chat import ToolSpec
from recompact.values.tokens import TokenCounter

BUDGET = "budget"
TRIGGERS = Registry(
    "trigger",
    "recompact.triggers",
    {
        BUDGET: "recompact.triggers.protocol:over_budget",
        "turn": "recompact.triggers.registry:at_turn",
        "phase": "recompact.triggers.registry:at_phase",
        "interval": "recompact.triggers.registry:Interval",
        "tool": "recompact.triggers.registry:own_tool",
    },
)


def load_trigger(text: str, directory: Path = Path()) -> Trigger:
    """A built-in or installed trigger, `file.py:name` or `package.module:name`; `interval:8` is every eighth call."""
    head, colon, number = text.partition(":")
    numbered = bool(colon) and head in TRIGGERS.names()
    if numbered and (not number.isdecimal() or len(number) > 9 or int(number) < 1):
        raise InputError(f"trigger {text!r}: what follows {head!r} must be a number of calls from 1 on")
    plugin = TRIGGERS.find(head if numbered else text, directory)
    if numbered and not isinstance(plugin, type):
        raise InputError(f"trigger {text!r}: {head!r} takes no number")
    if isinstance(plugin, type):
        if not numbered:
            raise InputError(f"trigger {text!r} needs a number of calls: write {text}:8")
        return cast(Trigger, plugin(int(number)))
    if not callable(plugin):
        raise InputError(f"trigger {text!r} is not a trigger: it needs to be a function of a recompact Moment")
    return cast(Trigger, plugin)


def at_turn(moment: Moment) -> bool:
    """Where a user's turn begins, once the soft budget is exceeded; at the latest over the budget."""
    return moment.full or (moment.nearly_full and moment.phase == "user")


def at_phase(moment: Moment) -> bool:
    """At a safe point of the work, once the soft budget is exceeded; at the latest over the budget."""
    return moment.full or (moment.nearly_full and moment.phase in SAFE)


@dataclass(frozen=True)
class Interval:
    """Every so many calls, whatever the size: the fixed schedule that others are measured against."""

    calls: int

    def __call__(self, moment: Moment) -> bool:
        return moment.since >= self.calls


COMPACT = ToolSpec(
    "compact_context",
    "Have your earlier steps replaced by a shorter record of them. Call it where a part of the work is done, or where"
    " you have taken what you need from long results. Do not call it in the middle of a derivation or a change, after"
    " an error that you have not understood, or while you still need the exact text of what you have just read.",
)


class OwnTool:
    """When the agent asks for it, with a tool that the loop offers; at the latest over the budget."""

    tools = (COMPACT,)

    def __call__(self, moment: Moment) -> bool:
        last = moment.context.last
        return moment.full or (last is not None and any(call.name == COMPACT.name for call in last.message.calls))


own_tool = OwnTool()


@dataclass(frozen=True)
class LongObservation:
    """Where the last turn has an observation over the budget: the trigger of the scope `observation`, before the agent
    has read it. It looks at that turn alone, so it has work to do even where there is no other."""

    count: TokenCounter
    least_turns: int = 1

    def __call__(self, moment: Moment) -> bool:
        last = moment.context.last
        if last is None or last.tokens <= moment.budget:
            return False
        return any(self.count(result.content) > moment.budget for result in last.results)
