"""Anthropic's Messages. Several user turns of ours in a row are one of theirs, and results are part of a user turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recompact.agents.wire.openai import event, reply_id, slices
from recompact.models.openai_wire import arguments_of
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, ToolSpec, Usage, canonical

_NOT_SEEN = ("thinking", "redacted_thinking")  # blocks that belong to a reply but are not part of what was said


def read_messages(body: Mapping[str, Any]) -> Request:
    """The request in a body of Messages."""
    messages = [Message("system", text)] if (text := _text(body.get("system"))) else []
    for sent in body["messages"]:
        content = sent["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages += _assistant(blocks) if sent["role"] == "assistant" else _others(sent["role"], blocks)
    tools = tuple(
        ToolSpec(tool["name"], tool.get("description") or "", tool["input_schema"])
        for tool in body.get("tools") or ()
        if "input_schema" in tool  # the others run at the provider
    )
    stop = tuple(body.get("stop_sequences") or ())
    decoding = Decoding(body.get("max_tokens"), body.get("temperature"), body.get("top_p"), stop=stop)
    return Request(tuple(messages), tools, decoding)


def _assistant(blocks: list[Mapping[str, Any]]) -> list[Message]:
    used = [block for block in blocks if block["type"] == "tool_use"]
    calls = tuple(ToolCall(block["id"], block["name"], canonical(block["input"])) for block in used)
    texts = [block for block in blocks if block["type"] not in ("tool_use", *_NOT_SEEN)]
    return [Message("assistant", _text(texts), calls)]


def _others(role: str, blocks: list[Mapping[str, Any]]) -> list[Message]:
    """The results in a user turn, and what else it says, in the order of the turn."""
    messages: list[Message] = []
    for block in blocks:
        if block["type"] == "tool_result":
            messages.append(Message("tool", _text(block.get("content")), (), block["tool_use_id"]))
            continue
        text = _text([block])
        if messages and messages[-1].role != "tool":
            text = f"{messages.pop().content}\n{text}"
        messages.append(Message("system" if role == "system" else "user", text))
    return messages


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(block["text"]) if "text" in block else f"[{block['type']}]" for block in content)


def write_messages(name: str, request: Request, reply: Reply) -> dict[str, Any]:
    message = reply.message
    blocks: list[dict[str, Any]] = []
    if message.content or not message.calls:
        blocks.append({"type": "text", "text": message.content})
    for n, call in enumerate(message.calls):
        id = call.id or f"toolu_{reply_id(name, request)}_{n}"
        blocks.append({"type": "tool_use", "id": id, "name": call.name, "input": arguments_of(call)})
    ends = {"length": "max_tokens", "refusal": "refusal"}
    return {
        "id": f"msg_{reply_id(name, request)}",
        "type": "message",
        "role": "assistant",
        "model": name,
        "content": blocks,
        "stop_reason": ends.get(reply.finish, "tool_use" if message.calls else "end_turn"),
        "stop_sequence": None,
        "usage": _usage(reply.usage),
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def messages_stream(message: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A message as its events."""
    for each in _events(message):
        yield event(each, named=True)


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        begun = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        if block["type"] == "text":
            kind, key, text = "text_delta", "text", block["text"]
        else:
            kind, key, text = "input_json_delta", "partial_json", canonical(block["input"])
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for piece in slices(text):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}
