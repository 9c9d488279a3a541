"""Anthropic's Messages as a client writes and reads it: requests to bodies, and bodies to replies.

A conversation there alternates between user and assistant, results are part of a user turn, and no text is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from recompact.models.endpoint import Endpoint
from recompact.models.openai_wire import COMPACTION, count_of, has_count
from recompact.values.chat import Finish, Message, Reply, Request, ToolCall, Usage, whole

_OUTPUT_TOKENS = 8192  # the API wants a limit, and gets this one where no other is given
_SCHEMA_TOOL = "reply"  # the call that a reply with a schema comes in
_CACHED = {"type": "ephemeral"}
_EMPTY = "(empty)"
COMPACTION_HEADERS = {"anthropic-beta": "compact-2026-01-12"}

Block = dict[str, Any]


def messages_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    system = [message.content for message in _leading(request.messages) if message.content.strip()]
    turns = _turns(request.messages[len(list(_leading(request.messages))) :])
    if turns:
        turns[-1]["content"][-1]["cache_control"] = _CACHED
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in request.tools
    ]
    schema = decoding.response_schema
    if schema is not None and not tools:
        tools = [{"name": _SCHEMA_TOOL, "description": "Give the reply.", "input_schema": dict(schema)}]
    body = {
        "model": endpoint.id,
        "max_tokens": decoding.max_output_tokens or _OUTPUT_TOKENS,
        "system": [{"type": "text", "text": "\n\n".join(system), "cache_control": _CACHED}] if system else None,
        "messages": turns,
        "tools": tools or None,
        "tool_choice": {"type": "tool", "name": _SCHEMA_TOOL} if schema is not None and not request.tools else None,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "stop_sequences": [text for text in decoding.stop if text.strip()] or None,
        "output_config": {"effort": decoding.reasoning_effort} if decoding.reasoning_effort else None,
        "context_management": _compacting(decoding.compact_over) if decoding.compact_over else None,
    }
    return {key: value for key, value in body.items() if value is not None} | dict(endpoint.extra_body)


def _compacting(tokens: int) -> dict[str, Any]:
    trigger = {"type": "input_tokens", "value": tokens}
    return {"edits": [{"type": "compact_20260112", "trigger": trigger, "pause_after_compaction": True}]}


def _leading(messages: Iterable[Message]) -> Iterable[Message]:
    for message in messages:
        if message.role != "system":
            return
        yield message


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Adjacent messages of one side are one turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [{"type": "text", "text": _EMPTY}]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += _blocks(message)
        else:
            turns.append({"role": role, "content": _blocks(message)})
    return turns


def _blocks(message: Message) -> list[Block]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": _id(message.call_id), "content": message.content}]
    calls = [
        {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": _input(call)} for call in message.calls
    ]
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    thoughts = _thoughts(message)
    if spoken := [block for block in thoughts if block.get("type") == "text"]:  # said before a thought: in this order
        if "".join(block["text"] for block in spoken) == message.content:
            return [*thoughts, *calls]
        thoughts = [block for block in thoughts if block not in spoken]
    blocks = [*thoughts, *text, *calls]
    return blocks if text or calls else [*blocks, {"type": "text", "text": _EMPTY}]


def _id(id: str) -> str:
    """The API limits the characters in ids."""
    return re.sub(r"[^\w-]", "_", id, flags=re.ASCII) or "_"


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        return call.parsed()
    except ValueError:
        return {"malformed": call.arguments}


def _thoughts(message: Message) -> list[Block]:
    try:
        blocks = json.loads(message.thoughts) if message.thoughts else []
    except ValueError:  # another provider's
        return []
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def read_messages(data: Any, index: int) -> Reply:
    texts: list[str] = []
    calls: list[ToolCall] = []
    thoughts: list[Block] = []
    spoken: list[Block] = []  # since the last thought
    for n, block in enumerate(data["content"]):
        if block["type"] == "text":
            texts.append(block["text"])
            spoken.append({"type": "text", "text": block["text"]})
        elif block["type"] == "tool_use":
            written = json.dumps(block["input"], ensure_ascii=False)
            calls.append(ToolCall(block.get("id") or f"call_{index}_{n}", block["name"], whole(written)))
        elif block["type"] == COMPACTION:
            texts.append(block["content"] or "")
            thoughts.append(block)
        elif block["type"] in ("thinking", "redacted_thinking"):
            thoughts += [*spoken, block]  # what was said between thoughts is kept among them, to go back in its place
            spoken = []
    if len(calls) == 1 and calls[0].name == _SCHEMA_TOOL:
        texts, calls = [calls[0].arguments], []
    ends: dict[str, Finish] = {
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "refusal",
    }
    if any(block["type"] == "text" for block in thoughts):
        thoughts += spoken
    thoughts_text = json.dumps(thoughts, ensure_ascii=False) if thoughts else ""
    message = Message("assistant", whole("".join(texts)), tuple(calls), thoughts=whole(thoughts_text))
    finish = ends.get(str(data.get("stop_reason")), "stop")
    return Reply(message, _usage(data.get("usage")), finish, data.get("model") or "")


def _usage(usage: Any) -> Usage:
    """Tokens read from the cache and written to it are counted apart from the rest there, and as part of it here."""
    counts: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    if isinstance(parts := counts.get("iterations"), list) and parts:  # with a compaction, the counts are of the rest
        return sum(map(_usage, parts), Usage(calls=1 - len(parts)))
    cached = count_of(counts, "cache_read_input_tokens")
    fresh, written = count_of(counts, "input_tokens"), count_of(counts, "cache_creation_input_tokens")
    tokens = fresh + written + cached if min(cached, fresh, written) >= 0 else -1
    reported = tokens if has_count(counts, "cache_read_input_tokens") else 0
    return Usage(tokens, count_of(counts, "output_tokens"), max(cached, 0), calls=1, cache_reported=reported)
