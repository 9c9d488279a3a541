"""The client for Anthropic's Messages, with the official library: requests to bodies, and bodies to replies.

A conversation there alternates between user and assistant, results are part of a user turn, and no text is empty.
Failures are handled as for OpenAI's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.openai import OpenAIModel, http_client
from recompact.models.openai_wire import COMPACTION, arguments_of, count_of, has_count, thoughts_of
from recompact.values.chat import Finish, Message, Reply, Request, ToolCall, Usage, whole
from recompact.version import install_command


class AnthropicModel(OpenAIModel):
    """A `ChatModel` behind Anthropic's API or a server that speaks like it.

    There is no seed, so runs differ by chance. Thinking, where `extra_body` turns it on, stays with its message and is
    sent back with it. The system prompt and the end of each request are marked for the provider's cache.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._library()  # which says what is missing before anything is run
        super().__init__(endpoint)

    _error = "AnthropicError"
    _models_path = "/v1/models"

    def _library(self) -> Any:
        try:
            import anthropic
        except ImportError:
            raise InputError(f'api = "anthropic" needs its library: {install_command("anthropic")}') from None
        return anthropic

    def _connect_with(self, key: str) -> Any:
        anthropic = self._library()
        http, timeout = http_client(anthropic, self.endpoint)
        # the library puts /v1 into its paths, while our base_url usually ends in it
        url = self.endpoint.url.rstrip("/").removesuffix("/v1")
        return anthropic.AsyncAnthropic(api_key=key, base_url=url, timeout=timeout, max_retries=0, http_client=http)

    @property
    def _path(self) -> str:
        return "/v1/messages"

    def _body(self, request: Request) -> dict[str, Any]:
        return messages_body(self.endpoint, request)

    def _options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"headers": COMPACTION_HEADERS} if "context_management" in body else {}

    def _parse_reply(self, data: Any, index: int) -> Reply:
        return read_messages(data, index)


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
        {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": arguments_of(call)}
        for call in message.calls
    ]
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    thoughts = thoughts_of(message)
    if spoken := [block for block in thoughts if block.get("type") == "text"]:  # said before a thought: in this order
        if "".join(block["text"] for block in spoken) == message.content:
            return [*thoughts, *calls]
        thoughts = [block for block in thoughts if block not in spoken]
    blocks = [*thoughts, *text, *calls]
    return blocks if text or calls else [*blocks, {"type": "text", "text": _EMPTY}]


def _id(id: str) -> str:
    """The API limits the characters in ids."""
    return re.sub(r"[^\w-]", "_", id, flags=re.ASCII) or "_"


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
