"""Compaction for your own loop: a list of plain message dicts in, a shorter list out.

Messages in OpenAI's form and in Anthropic's are read alike. The summary is written by the same compressor as in a run:
this module only says which messages make up the prefix, the previous summary and the turns.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from recompact.compressors.checked import Check, Checked, LacksFacts
from recompact.compressors.pinned import Pinned, check_pins
from recompact.compressors.protocol import SCOPES, CompressorInputs, CompressorKind, Scope
from recompact.compressors.registry import compose, compressor_kind, load_compressor
from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.limits import Retrying
from recompact.models.protocol import ChatModel, load_model
from recompact.models.shape import Shaped
from recompact.triggers.protocol import Schedule
from recompact.triggers.registry import BUDGET, load_trigger
from recompact.values.chat import Message, Reply, Request, Role, ToolCall
from recompact.values.context import Context, Summary, Turn, summary_message
from recompact.values.events import ContextCompacted, emit, tell
from recompact.values.receipt import Receipt, receipt
from recompact.values.template import Template, resolve
from recompact.values.tokens import TokenCounter, counter

MessageDict = Mapping[str, Any]
"""A message as the APIs of OpenAI and Anthropic take it."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_SUMMARY = re.compile(re.escape(summary_message("\0").content).replace("\0", "(.*)"), re.DOTALL)
_HIDDEN = ("thinking", "redacted_thinking", "reasoning")  # not what the agent said, and not shown to a compressor


@dataclass(frozen=True)
class Compactor:
    """Replaces the older part of a conversation by a summary once it is over its budget.

    `template` is a `Template`, a directory, or "default". `model` is a `ChatModel`, an `Endpoint`, or the id of a model
    at OPENAI_BASE_URL (or OpenAI itself) with the key in OPENAI_API_KEY. `budget` is in tokens and counts neither
    system messages nor what the user said before the first answer; all that always stays, as does the most recent turn.
    `pinned` are texts that are still there, word for word, after every compaction; they count in the budget. `kind`,
    `options` and `trigger` are those of [compressor]; a kind that asks no model does without one (None). `on_receipt`
    is called with the receipt of each compaction: what it dropped, kept, pinned and lost, and its cost. `check` says
    what must survive: "literals", "probes", or a function of the contexts before and after that returns what is
    missing. As much of that as fits is appended to the summary, once; where that is not all, `otherwise` accepts the
    compaction or keeps the old messages for one more turn. No check by default: see docs/strategies.md.
    """

    template: Template | Path | str
    model: ChatModel | Endpoint | str | None
    budget: int
    scope: Scope = "history"
    count: TokenCounter = field(default_factory=counter)
    pinned: Sequence[str] = ()
    kind: str = "prompted"
    options: Mapping[str, Any] = field(default_factory=dict)
    trigger: str = BUDGET
    on_receipt: Callable[[Receipt], object] | None = None
    check: str | Check | None = None
    otherwise: Literal["accept", "keep"] = "accept"

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise InputError(f"unknown scope {self.scope!r}: use one of {', '.join(SCOPES)}")
        if type(self.budget) is not int or self.budget < 1:
            raise InputError(f"budget {self.budget!r} is no whole number of tokens from 1 on")
        if self.otherwise not in ("accept", "keep"):
            raise InputError(f"unknown otherwise {self.otherwise!r}: use accept or keep")
        if isinstance(self.pinned, str) or not all(isinstance(text, str) for text in self.pinned):
            raise InputError("pinned must be a list of texts")
        check_pins(self.pinned, self.budget, self.count)
        if not isinstance(self.template, Template):
            object.__setattr__(self, "template", resolve(str(self.template), Path.cwd()))
        if self._kind.uses_template and self.model is None:
            raise InputError(f"kind {self.kind!r} asks a model for summaries: give one")
        load_trigger(self.trigger, Path.cwd())

    @property
    def _kind(self) -> CompressorKind:
        kinds = [load_compressor(self.kind, self.options, Path.cwd())]
        if self.check is not None:
            kinds.insert(0, compressor_kind(Checked, {"check": self.check, "otherwise": self.otherwise}))
        if self.pinned:
            pins = {"texts": tuple(self.pinned), "rules": False, "files": ()}
            kinds.insert(0, compressor_kind(Pinned, pins))
        return compose(kinds) if len(kinds) > 1 else kinds[0]

    def _due(self, context: Context) -> bool:
        return Schedule(load_trigger(self.trigger, Path.cwd())).due(context, self.budget, len(context.turns))

    def should_compact(self, messages: Sequence[MessageDict]) -> bool:
        """Whether a compaction is due, and the conversation has an older part that can be replaced."""
        return self._due(_Conversation.of(messages, self.count).context)

    async def compact(self, messages: Sequence[MessageDict]) -> list[MessageDict]:
        """The messages, with their older part replaced if a compaction is due and makes them fewer tokens; otherwise
        unchanged.

        Raises CompactionFailed where the model writes no summary, and a ModelFailure where it does not answer; the
        messages are then as good as before.
        """
        conversation = _Conversation.of(messages, self.count)
        if not self._due(conversation.context):
            return list(messages)
        assert isinstance(self.template, Template)
        async with self._connect() as model:
            inputs = CompressorInputs(model, self.template, self.count, task=conversation.task, scope=self.scope)
            compressor = self._kind.build(inputs)
            if compressor is None:
                return list(messages)
            began = time.perf_counter()
            try:
                compaction = await compressor.compress(conversation.context, self.budget)
            except LacksFacts:
                return list(messages)
        pre, post = conversation.context, compaction.context
        if post.size >= pre.size:
            return list(messages)
        seconds = time.perf_counter() - began
        slip = receipt(pre, post, compaction.usage, compaction.repaired)
        emit(ContextCompacted(pre, post, model.name, self.template.hash, compaction.usage, seconds, slip))
        if self.on_receipt is not None:
            tell(self.on_receipt, slip)
        return conversation.with_context(post)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[ChatModel]:
        """The model. A client of our own lives as long as one compaction, so that no loop has to close it."""
        if self.model is None:
            yield _NoModel()
            return
        if not isinstance(self.model, Endpoint | str):
            yield Shaped(self.model, self.count)
            return
        endpoint = Endpoint(self.model) if isinstance(self.model, str) else self.model
        client = load_model("openai", {}, endpoint, Path.cwd())
        async with AsyncExitStack() as stack:
            if (close := getattr(client, "aclose", None)) is not None:
                stack.push_async_callback(close)
            yield Retrying(Shaped(client, self.count))


@dataclass(frozen=True)
class _Conversation:
    """Messages and the context that they make up: what always stays, a previous summary, and the turns as groups."""

    prefix: tuple[MessageDict, ...]
    groups: tuple[tuple[MessageDict, ...], ...]
    context: Context

    @staticmethod
    def of(messages: Sequence[MessageDict], count: TokenCounter) -> _Conversation:
        read = [_read(message, place) for place, message in enumerate(messages)]
        opening = next((n for n, m in enumerate(read) if m.role in ("assistant", "tool")), len(read))
        summaries = {n: text for n in range(opening) if (text := _summary(read[n])) is not None}
        place = max(summaries, default=None)
        prefix_numbers = [n for n in range(opening) if n != place]
        groups = _groups(read, opening)
        turns = tuple(_turn([read[n] for n in group], count) for group in groups)
        prefix = tuple(message for n in prefix_numbers for message in read[n].messages)
        summary = None if place is None else Summary.measured(summaries[place], count)
        return _Conversation(
            tuple(messages[n] for n in prefix_numbers),
            tuple(tuple(messages[n] for n in group) for group in groups),
            Context(prefix, summary, turns),
        )

    @property
    def task(self) -> str:
        """What the user said before the first answer."""
        return "\n\n".join(message.content for message in self.context.prefix if message.role == "user")

    def with_context(self, post: Context) -> list[MessageDict]:
        """The messages of a smaller context: the prefix, the summary, pins, and the turns that are left. System
        messages among the dropped turns stay, in order."""
        dropped = len(self.groups) - len(post.turns)
        standing = [m for group in self.groups[:dropped] for m in group if _ROLES.get(_fields(m)["role"]) == "system"]
        summary = [summary_message(post.summary.text)] if post.summary else []
        added = [{"role": m.role, "content": m.content} for m in (*summary, *(pin.message for pin in post.pinned))]
        kept: list[MessageDict] = []
        for group, old, new in zip(self.groups[dropped:], self.context.turns[dropped:], post.turns, strict=True):
            kept += group if new == old else _with_results(group, old, new)
        return [*self.prefix, *standing, *added, *kept]


@dataclass(frozen=True)
class _NoModel:
    """Where a kind of compressor asks none."""

    name = "no model"

    async def reply(self, request: Request) -> Reply:
        raise InputError("this kind of compressor asks a model: give the Compactor one")


def _with_result(block: Mapping[str, Any], changed: Mapping[str, str]) -> Mapping[str, Any]:
    answer = str(block.get("tool_use_id"))
    return {**block, "content": changed[answer]} if answer in changed else block


def _with_results(group: Sequence[MessageDict], old: Turn, new: Turn) -> list[MessageDict]:
    """A turn's messages with other texts in place of some results."""
    changed = {now.call_id: now.content for was, now in zip(old.results, new.results, strict=True) if was != now}
    messages: list[MessageDict] = []
    for message in map(_fields, group):
        blocks = message.get("content")
        if message.get("role") in ("tool", "function"):
            answer = str(message.get("tool_call_id") or message.get("name") or "")
            message = {**message, "content": changed[answer]} if answer in changed else message
        elif any(str(block.get("tool_use_id")) in changed for block in _items(blocks)):
            message = {**message, "content": [_with_result(block, changed) for block in _items(blocks)]}
        messages.append(message)
    return messages


@dataclass(frozen=True)
class _Read:
    """A message as the compressor sees it. One of Anthropic's may hold several results, each a message of its own."""

    role: Role
    messages: tuple[Message, ...]


def _groups(read: Sequence[_Read], start: int) -> list[range]:
    """Turns as ranges of messages: each begins with an answer of the agent and reaches as far as the results of its
    calls do. So no result is ever separated from its call, even where results come late."""
    callers: dict[str, int] = {}
    reaches = list(range(len(read)))
    for place in range(start, len(read)):
        for message in read[place].messages:
            if message.role == "tool" and message.call_id in callers:
                reaches[callers[message.call_id]] = place
        callers.update((call.id, place) for message in read[place].messages for call in message.calls)
    groups: list[range] = []
    begin, reach = start, start
    for place in range(start, len(read)):
        if read[place].role == "assistant" and place > reach and place > begin:
            groups.append(range(begin, place))
            begin = place
        reach = max(reach, reaches[place])
    return [*groups, range(begin, len(read))] if begin < len(read) else groups


def _turn(read: Sequence[_Read], count: TokenCounter) -> Turn:
    """A group as one turn: what the agent said and called, put together, and everything that came back."""
    messages = [message for each in read for message in each.messages]
    spoken = [message for message in messages if message.role == "assistant"]
    text = "\n".join(message.content for message in spoken if message.content)
    calls = tuple(call for message in spoken for call in message.calls)
    results = tuple(message for message in messages if message.role not in ("assistant", "system"))
    return Turn.measured(Message("assistant", text, calls), results, count)


def _summary(read: _Read) -> str | None:
    """The text of a summary that an earlier compaction put there."""
    if read.role != "user" or len(read.messages) != 1:
        return None
    match = _SUMMARY.fullmatch(read.messages[0].content)
    return match[1] if match else None


# -- the two forms of a message --------------------------------------------------------------------------------------


def _fields(message: Any) -> Mapping[str, Any]:
    """A dict as it is; an object of a client library, which people append to their lists too, as a dict."""
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    fields = dump() if callable(dump) else None
    return fields if isinstance(fields, Mapping) else {}


def _read(message: Any, place: int) -> _Read:
    fields = _fields(message)
    role = _ROLES.get(str(fields.get("role")))
    if role is None:
        raise InputError(
            f"messages[{place}] is not a message: it must be a dict with content and a role, one of {', '.join(_ROLES)}"
        )
    blocks = fields.get("content")
    calls = [*_openai_calls(fields), *_anthropic_calls(blocks)]
    results = list(_anthropic_results(blocks))
    if role == "tool":
        answer = str(fields.get("tool_call_id") or fields.get("name") or "")
        return _Read(role, (Message("tool", _text(blocks), call_id=answer),))
    text = _text(blocks)
    spoken = [Message(role, text, tuple(calls))] if text or calls or not results else []
    return _Read(role, (*results, *spoken))


def _openai_calls(fields: Mapping[str, Any]) -> Iterator[ToolCall]:
    for call in _items(fields.get("tool_calls")):
        named = call.get("function") or call.get("custom")
        function: Mapping[str, Any] = named if isinstance(named, Mapping) else {}
        arguments = function.get("arguments", function.get("input"))
        yield ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), _json(arguments))
    if isinstance(older := fields.get("function_call"), Mapping):  # its result is known by the function's name alone
        name = str(older.get("name") or "")
        yield ToolCall(name, name, _json(older.get("arguments")))


def _anthropic_calls(blocks: Any) -> Iterator[ToolCall]:
    for block in _items(blocks):
        if str(block.get("type", "")).endswith("tool_use"):  # server_tool_use and mcp_tool_use too
            yield ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), _json(block.get("input")))


def _anthropic_results(blocks: Any) -> Iterator[Message]:
    for block in _items(blocks):
        if "tool_use_id" in block:
            yield Message("tool", _text(block.get("content")), call_id=str(block["tool_use_id"]))


def _text(content: Any) -> str:
    """The text of a content. What is not text is named by its kind."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        content = [content]
    pieces = []
    for block in _items(content):
        kind = str(block.get("type", ""))
        if isinstance(text := block.get("text") or block.get("refusal"), str):
            pieces.append(text)
        elif kind not in _HIDDEN and not kind.endswith("tool_use") and "tool_use_id" not in block:
            pieces.append(f"[{kind or 'something'}]")
    return "\n".join(pieces)


def _items(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list, and texts as blocks; anything else is not a list of blocks."""
    if not isinstance(value, list | tuple):
        return []
    blocks = ({"type": "text", "text": item} if isinstance(item, str) else item for item in value)
    return [block for block in blocks if isinstance(block, Mapping)]


def _json(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
