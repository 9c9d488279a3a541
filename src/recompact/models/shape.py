"""The door that every reply comes through: whatever a model returns is brought into shape before it is journaled.

What passes can be stored, sent back and read again; what had to be changed is noted in the reply. What is not a reply
is a failure of the call, and so of the unit that made it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args

from recompact.errors import RecompactError
from recompact.models.failures import BrokenModel, MalformedReply, ModelFailure
from recompact.models.protocol import ChatModel, Wrapper
from recompact.models.secrets import scrubber
from recompact.values.chat import (
    DEEPEST,
    Finish,
    Message,
    Reply,
    Request,
    ToolCall,
    Usage,
    canonical,
    nesting,
    too_deep,
    whole,
)
from recompact.values.tokens import TokenCounter, counter

LONGEST_TEXT = 1_000_000  # characters of a content, or of the arguments of one call
LONGEST_NAME = 256  # characters of an id or a name
MOST_CALLS = 128  # in one message
MOST_OUTPUT = 1_000_000  # tokens that a server can claim to have written in one call
SERVER_TOKENS = 20_000  # what a server may add to a request: its own prompt, and the frames of messages and tools


_FINISHES = get_args(Finish)
_scrub = scrubber()  # of what looks like a key: which ones a model has, only the model knows


class Shaped(Wrapper):
    """Any model behind the door. What it raises besides our failures becomes one of them."""

    def __init__(self, model: ChatModel, count: TokenCounter | None = None) -> None:
        super().__init__(model)
        self._count = count

    async def reply(self, request: Request) -> Reply:
        try:
            return shape_reply(await self._model.reply(request), request, self._count, self.name)
        except ModelFailure as failure:
            if failure.paid:
                failure.usage = _lost_usage(failure.usage, request, self._count)
            raise
        except RecompactError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise BrokenModel(f"the model {self.name} cancelled its own call") from None
        except Exception as error:
            raise BrokenModel(f"the model {self.name} raised {type(error).__name__}: {_scrub(_line(error))}") from error


def shape_reply(reply: object, request: Request, count: TokenCounter | None = None, name: str = "") -> Reply:
    """The reply as it may be journaled. Missing or impossible usage is estimated with `count`."""
    if not isinstance(reply, Reply) or not isinstance(reply.message, Message):
        inner = "" if not isinstance(reply, Reply) else f" with a message of type {type(reply.message).__name__}"
        model = f"the model {name}" if name else "the model"
        raise MalformedReply(f"{model} returned {type(reply).__name__}{inner}, not a recompact Reply with a Message")
    notes: list[str] = []
    message = _message(reply.message, len(request.messages), notes)
    finish: Finish = "stop"
    if _is_finish(reply.finish):
        finish = reply.finish
    else:
        notes.append('how it ended is not known, and was taken to be "stop"')
    usage = _usage(reply.usage, request, message, count)
    kept = tuple(note for note in reply.notes if isinstance(note, str)) if isinstance(reply.notes, tuple) else ()
    return Reply(message, usage, finish, _text(reply.model, LONGEST_NAME, "the model's name", []), (*kept, *notes))


def in_shape(reply: Reply) -> bool:
    """Whether a reply is one that came through here."""
    notes: list[str] = []
    same = _message(reply.message, 0, notes) is reply.message and not notes
    counts = reply.usage.to_json()
    return same and _is_finish(reply.finish) and type(reply.model) is str and None not in map(_whole_number, counts)


def request_tokens(request: Request, count: TokenCounter) -> int:
    """Our own count of what a request sends."""
    tools = sum(_count_tokens(canonical(tool.to_json()), count) for tool in request.tools)
    return tools + sum(_message_tokens(message, count) for message in request.messages)


# A conversation is sent again with every step: only its new messages are counted.
@lru_cache(maxsize=2048)
def _message_tokens(message: Message, count: TokenCounter) -> int:
    texts = [message.content, *(text for call in message.calls for text in (call.name, call.arguments))]
    return 4 + sum(count(text) for text in texts)


@lru_cache(maxsize=512)
def _count_tokens(text: str, count: TokenCounter) -> int:
    return count(text)


def _message(message: Message, index: int, notes: list[str]) -> Message:
    content = _text(message.content, LONGEST_TEXT, "the content", notes)
    calls = tuple(_calls(message.calls, index, notes))
    thoughts = _thoughts(message.thoughts, notes)
    same = (content, calls, "assistant", "", thoughts) == (
        *(message.content, message.calls, message.role),
        *(message.call_id, message.thoughts),
    )
    return message if same else Message("assistant", content, calls, thoughts=thoughts)


def _thoughts(value: object, notes: list[str]) -> str:
    """Kept whole or not at all: a provider refuses what was cut."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or whole(value) != value:
        notes.append("its thoughts could not be kept and were left out")
        return ""
    return value


def _is_finish(value: object) -> bool:
    return isinstance(value, str) and value in _FINISHES


# ---- texts


def _text(value: object, longest: int, what: str, notes: list[str]) -> str:
    """Any value as a text that can be stored: a str of at most `longest` whole characters."""
    if type(value) is str:
        text = value
    elif value is None:
        text = ""
    else:
        text = str.__str__(value) if isinstance(value, str) else _write_value(value)
        notes.append(f"{what} was of type {type(value).__name__} and was written as text")
    if (clean := whole(text)) != text:
        notes.append(f"{what} had halves of characters, which were replaced")
    if len(clean) > longest:
        notes.append(f"{what} had {len(clean):,} characters and was cut to {longest:,}")
        mark = f"… [cut: it had {len(clean):,} characters]"
        clean = clean[: longest - len(mark)] + mark
    return clean


def _write_value(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except Exception:  # nested without end, non-text keys, a repr that raises
        return f"({type(value).__name__})"


def _line(error: BaseException) -> str:
    try:
        return whole(" ".join(str(error).split()))[:300]
    except Exception:
        return "(it cannot be written)"


# ---- calls


def _calls(calls: object, index: int, notes: list[str]) -> Iterable[ToolCall]:
    if not isinstance(calls, Iterable) or isinstance(calls, str | bytes):
        notes.append(f"its calls were of type {type(calls).__name__} and were left out")
        return
    ids: set[str] = set()
    for n, call in enumerate(calls):
        if n >= MOST_CALLS:
            notes.append(f"it made more than {MOST_CALLS} calls at once, and those after them were left out")
            return
        if not isinstance(call, ToolCall):
            notes.append(f"call {n + 1} was of type {type(call).__name__} and was left out")
            continue
        shaped_call = _call(call, f"call_{index}_{n}", n, ids, notes)
        ids.add(shaped_call.id)
        yield shaped_call


def _call(call: ToolCall, own_id: str, n: int, ids: set[str], notes: list[str]) -> ToolCall:
    what = f"of call {n + 1}"
    id = call.id
    if type(id) is not str or not id or len(id) > LONGEST_NAME or whole(id) != id or id in ids:
        notes.append(f"the id {what} could not be used and became {own_id}")
        id = own_id if own_id not in ids else f"{own_id}_again"
    name = _text(call.name, LONGEST_NAME, f"the name {what}", notes)
    arguments = _text(call.arguments, LONGEST_TEXT, f"the arguments {what}", notes)
    if too_deep(arguments):
        levels = nesting(arguments)
        notes.append(f"the arguments {what} were nested {levels:,} levels deep and were cut")
        arguments = f"{arguments[:DEEPEST]}… (cut: nested {levels:,} levels deep)"
    same = (id, name, arguments) == (call.id, call.name, call.arguments)
    return call if same else ToolCall(id, name, arguments)


# ---- usage


def _usage(usage: object, request: Request, message: Message, count: TokenCounter | None) -> Usage:
    """The server's count where that is possible, and our own where it is not."""
    reported_usage = usage if isinstance(usage, Usage) else Usage()
    cached, reasoning = _whole_number(reported_usage.cached), _whole_number(reported_usage.reasoning)
    reported = _whole_number(reported_usage.cache_reported)
    calls = min(_whole_number(reported_usage.calls) or 1, MOST_CALLS)
    tokens_in, tokens_out = _whole_number(reported_usage.input), _whole_number(reported_usage.output)
    estimated = 0
    # Some count cached input or reasoning separately: then neither number can be trusted.
    if not tokens_in or _too_many(tokens_in / calls, request) or cached is None or cached > tokens_in:
        tokens_in, cached, reported, estimated = request_tokens(request, count or counter()), 0, 0, 1
    if cached or reported:  # whoever counts what was cached counts all of it
        reported = tokens_in
    if reasoning is None or reasoning > MOST_OUTPUT:
        reasoning, estimated = 0, 1
    silent = not tokens_out and bool(message.content or message.calls)
    if tokens_out is None or silent or tokens_out > calls * MOST_OUTPUT or reasoning > tokens_out:
        tokens_out, estimated = _message_tokens(message, count or counter()) + reasoning, 1
    result = Usage(tokens_in, tokens_out, cached, reasoning, calls, cache_reported=reported or 0)
    if (already := _whole_number(reported_usage.estimated)) or estimated:
        result = replace(result, estimated=max(estimated, already or 0))
    return result


def _lost_usage(usage: Usage, request: Request, count: TokenCounter | None) -> Usage:
    """What a call cost that brought no reply: as the server says if that is possible, otherwise all that was sent and
    all that it was allowed to write."""
    if usage.total and not _too_many(usage.input, request) and usage.output <= MOST_OUTPUT:
        return usage
    longest = request.decoding.max_output_tokens or 0
    return Usage(request_tokens(request, count or counter()), longest, calls=1, estimated=1)


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and type(value) is not bool and value >= 0 else None


def _too_many(tokens: float, request: Request) -> bool:
    """Whether a request cannot have so many tokens: each is at least a byte. It stops at the first message by which
    they are possible, so that a long conversation is not measured again with every step."""
    left = tokens - SERVER_TOKENS - 4 * sum(tool.characters for tool in request.tools)
    for message in reversed(request.messages):
        if left <= 0:
            break
        left -= 4 * message.characters
    return left > 0
