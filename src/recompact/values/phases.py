"""The phase of an agent's work that a turn ends: by what its last call did, and what came of it.

The classes of calls are those of the audit.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from recompact.values.call_effects import READING, effect_of
from recompact.values.context import Turn
from recompact.values.session import Call

Phase = Literal["user", "error", "read", "edit", "test", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
SAFE: frozenset[Phase] = frozenset({"user", "edit", "test"})
"""After these nothing hangs in the air: a user speaks, something was changed, a test was run without an error."""

_ERROR = re.compile(
    r'\s*(?:error\b|traceback \(|\{\s*"error")|.*\bexit (?:code|status):? [1-9]', re.IGNORECASE | re.DOTALL
)
_LOOKED_AT = 2_000  # characters of a result


def reports_error(text: str) -> bool:
    """Whether a result tells that its call failed.

    >>> reports_error('{"error": "no such file"}'), reports_error("fine\\nexit code 1"), reports_error("no errors")
    (True, True, False)
    """
    return _ERROR.match(text[:_LOOKED_AT]) is not None


def phase_of(turn: Turn | None) -> Phase:
    """What the agent was in the middle of after this turn.

    >>> from recompact.values.chat import Message, ToolCall, assistant, user
    >>> call = assistant("", ToolCall("1", "read_file", '{"path": "a.py"}'))
    >>> phase_of(Turn(call, (Message("tool", "text", call_id="1"),), 5)), phase_of(Turn(call, (user("go on"),), 5))
    ('read', 'user')
    """
    if turn is None:
        return "other"
    if turn.results and turn.results[-1].role == "user" and not turn.results[-1].content.startswith("Error:"):
        return "user"
    if any(reports_error(result.content) for result in turn.results):
        return "error"
    if not turn.message.calls:
        return "other"
    call = turn.message.calls[-1]
    try:
        kind = effect_of(Call(call.id, call.name, call.parsed())).kind
    except ValueError:  # the arguments are no object
        return "other"
    if kind in READING:
        return "read"
    return "edit" if kind == "vcs-change" else kind if kind in ("edit", "test") else "other"  # type: ignore[return-value]
