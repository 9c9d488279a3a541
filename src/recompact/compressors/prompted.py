"""A model is asked, with a template, to write the summary that replaces the history.

What it sees besides the history is the scope; how the prefix is shown to it is the rendering.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

from recompact.compressors.protocol import (
    Compaction,
    CompactionFailed,
    CompressorInputs,
    CompressorKind,
    room_beside_last,
)
from recompact.models.failures import ContextOverflow, Refused
from recompact.values.chat import Message, Request, ToolSpec, Usage, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import fill, placeholders
from recompact.values.tokens import TokenCounter

CUT = "[The summary was over its limit and ends here.]"
ABOVE = "(the messages above)"
SHORTENED = "[Shortened from {:,} tokens.]"
_NOTHING = Context(())


@dataclass(frozen=True)
class Prompted(CompressorInputs):
    """The compressor that a template induces (π_P in the paper).

    Scope `history`: the model sees the previous summary, the turns, and the task as a block of its own; where the agent
    was told no task, but somebody wrote to it, the messages that opened the conversation. Scope `prefix`: it sees the
    prefix too, either `quoted` as a block of the prompt, or `appended`, where the agent's own messages come first and
    the prompt is the last turn, so that a server can reuse its cache. Scope `observation`: it sees one observation with
    its call and the task, and what it writes takes the place of that observation, before the agent has read it.
    """

    async def compress(self, context: Context, budget: int) -> Compaction:
        if self.scope == "observation":
            return await self._shorten_observations(context, budget)
        limit = room_beside_last(context, budget)
        text, rest = await self._write(self.messages(context.before_last(), limit), limit)
        return replace(
            rest, context=replace(context, summary=Summary.measured(text, self.count), turns=context.turns[-1:])
        )

    async def _shorten_observations(self, context: Context, budget: int) -> Compaction:
        """Each observation of the last turn that is over the budget, by itself; everything else stays as it is."""
        turn, results = context.turns[-1], list(context.turns[-1].results)
        whole = Compaction(context)
        for n, result in enumerate(turn.results):
            if (size := self.count(result.content)) <= budget:
                continue
            alone = Context(context.prefix, None, (Turn(turn.message, (result,), size),))
            try:
                text, rest = await self._write(self.messages(alone, budget), budget)
            except CompactionFailed as failure:
                usage, notes = whole.usage + failure.usage, (*whole.notes, *failure.notes)
                raise CompactionFailed(str(failure), usage, notes) from None
            results[n] = replace(result, content=f"{SHORTENED.format(size)}\n{text}")
            whole = rest.following(whole)
        shorter = Turn.measured(turn.message, tuple(results), self.count)
        return replace(whole, context=replace(context, turns=(*context.turns[:-1], shorter)))

    async def _write(self, messages: tuple[Message, ...], limit: int) -> tuple[str, Compaction]:
        """A text within the limit, and what came of asking for it; the context is for the caller to set."""
        usage = Usage()
        notes: tuple[str, ...] = ()
        best: str | None = None
        for asked_again in (False, True):
            try:
                reply = await self.model.reply(Request(messages, self._tools, self.decoding))
            except (ContextOverflow, Refused) as failure:
                if not asked_again:
                    raise
                if best is None:
                    raise CompactionFailed(
                        f"the compressor wrote no summary, and then: {failure}", usage, notes
                    ) from None
                notes += (f"a shorter summary could not be asked for: {failure}",)
                break
            usage += reply.usage
            notes += reply.notes
            text = reply.message.content.strip()
            if text and reply.finish != "refusal":
                if reply.finish != "length" and self.count(text) <= limit:
                    return text, Compaction(_NOTHING, usage, asked_again, cut=False, notes=notes)
                best = text if best is None or len(text) < len(best) else best
            complaint = _too_long(self.count(text), limit) if text else _nothing(limit)
            messages = (*messages, assistant(text), user(complaint))
        if best is None:
            raise CompactionFailed("the compressor wrote no summary when asked twice", usage, notes)
        return cut(best, limit, self.count), Compaction(_NOTHING, usage, asked_again=True, cut=True, notes=notes)

    def messages(self, consumed: Context, limit: int) -> tuple[Message, ...]:
        """The prompt for a compaction: what the compressor model is sent."""
        part: Literal["first", "update"] = "first" if consumed.summary is None else "update"
        appended = self.scope == "prefix" and self.rendering == "appended"
        text = self.template.part(part) if appended and not self._self_framed(part) else self.template.framed(part)
        previous = consumed.summary.text if consumed.summary else ""
        values = {
            "history": ABOVE if appended else consumed.history,
            "previous_summary": ABOVE if appended else previous,
            "task": self.task if self._told_task(consumed.prefix) else _opening(consumed.prefix),
            "prefix": ABOVE if appended else quoted_prefix(consumed.prefix),
            "budget": str(limit),
        }
        instruction = fill(self._with_blocks(text, consumed.prefix, appended), values)
        if appended:
            spoken = "\n\n".join(filter(None, (self.template.system.strip(), instruction)))
            return (*consumed.messages, user(spoken))
        head = (system(self.template.system),) if self.template.system.strip() else ()
        return (*head, user(instruction))

    def _self_framed(self, part: Literal["first", "update"]) -> bool:
        return "history" in placeholders(self.template.part(part))

    def _told_task(self, prefix: tuple[Message, ...]) -> bool:
        """Whether the agent's own prefix has the task in it, whatever its line breaks."""
        return _in_one_line(self.task) in _in_one_line("\n".join(message.content for message in prefix))

    def _with_blocks(self, text: str, prefix: tuple[Message, ...], appended: bool) -> str:
        """Put what the scope shows before the prompt, unless the template has a place for it itself."""
        if appended:
            return text
        used = placeholders(text)
        if self.scope == "prefix":
            block = "<prefix>\n{{ prefix }}\n</prefix>\nThe prefix above stays in the agent's view unchanged.\n\n"
            return text if "prefix" in used else block + text
        if not self.task or "task" in used:
            return text
        if not self._told_task(prefix):
            opened = "The messages above opened the conversation and stay in the agent's view."
            return f"<opening>\n{{{{ task }}}}\n</opening>\n{opened}\n\n{text}" if _opening(prefix) else text
        return "<task>\n{{ task }}\n</task>\nThe task above is authoritative and stays in the agent's view.\n\n" + text

    @property
    def _tools(self) -> tuple[ToolSpec, ...]:
        # Tools are part of what a server caches, so the appended rendering must send the same ones.
        return self.tools if self.scope == "prefix" and self.rendering == "appended" else ()


def prompted(inputs: CompressorInputs) -> Prompted:
    """The compressor of one episode."""
    return Prompted(**vars(inputs))


KIND = CompressorKind(prompted, uses_template=True)


def quoted_prefix(prefix: tuple[Message, ...]) -> str:
    """The agent's fixed messages as text."""
    shown = []
    for message in prefix:
        calls = "".join(f"\n-> {c.name}({c.arguments})" for c in message.calls)
        shown.append(f"[{message.role}]\n{message.content}{calls}")
    return "\n\n".join(shown)


def _opening(prefix: tuple[Message, ...]) -> str:
    """What was said to the agent before its first step, besides its instructions."""
    return quoted_prefix(tuple(message for message in prefix if message.role != "system"))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def cut(text: str, limit: int, count: TokenCounter) -> str:
    """The longest run of whole first lines that fits together with the mark; the mark is always there."""
    lines = text.splitlines()
    kept = bisect_right(range(len(lines)), limit, key=lambda n: count("\n".join([*lines[: n + 1], CUT])))
    return "\n".join([*lines[:kept], CUT])


def _too_long(tokens: int, limit: int) -> str:
    return (
        f"That record has {tokens} tokens and its limit is {limit}. Write the whole record again within the limit:"
        " same headings, shorter entries, and keep what the next steps depend on."
    )


def _nothing(limit: int) -> str:
    return f"That was not a record. Write the record now, as plain text, within {limit} tokens."
