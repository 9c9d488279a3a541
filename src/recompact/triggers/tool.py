"""When the agent asks for it, with a tool that the loop offers; at the latest over the budget."""

from __future__ import annotations

from recompact.triggers.protocol import Moment
from recompact.values.chat import ToolSpec

COMPACT = ToolSpec(
    "compact_context",
    "Have your earlier steps replaced by a shorter record of them. Call it where a part of the work is done, or where"
    " you have taken what you need from long results. Do not call it in the middle of a derivation or a change, after"
    " an error that you have not understood, or while you still need the exact text of what you have just read.",
)


class OwnTool:
    tools = (COMPACT,)

    def __call__(self, moment: Moment) -> bool:
        last = moment.context.last
        return moment.full or (last is not None and any(call.name == COMPACT.name for call in last.message.calls))


trigger = OwnTool()
