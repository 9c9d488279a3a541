"""The two wire formats, Chat Completions and Responses: a request as a body, and an answer as a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recompact.models.endpoint import Endpoint
from recompact.values.chat import Finish, Message, Reply, Request, ToolCall, Usage, chain_digest, whole

COMPACTION = "compaction"
"""The kind of item or block that holds a provider's own compaction; it stays among the thoughts of its message."""


def chat_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    schema = decoding.response_schema
    messages = _merge_messages(request.messages) if endpoint.merge_roles else request.messages
    body = {
        "model": endpoint.id,
        "messages": [_chat_message(message) for message in messages],
        "tools": [{"type": "function", "function": tool.to_json()} for tool in request.tools] or None,
        endpoint.tokens_field: decoding.max_output_tokens,
        "reasoning_effort": decoding.reasoning_effort,
        "seed": decoding.seed if endpoint.send_seed else None,
        "stop": list(decoding.stop) or None,
        "response_format": {"type": "json_schema", "json_schema": _format(schema)} if schema else None,
    }
    return _complete_body(body, request, endpoint)


def _complete_body(body: dict[str, Any], request: Request, endpoint: Endpoint) -> dict[str, Any]:
    body |= {"temperature": request.decoding.temperature, "top_p": request.decoding.top_p}
    if endpoint.routes_by_key:
        body["prompt_cache_key"] = _cache_key(request.messages)
    return {key: value for key, value in body.items() if value is not None} | dict(endpoint.extra_body)


def _cache_key(messages: tuple[Message, ...]) -> str:
    """The same for all of an agent's calls about one task, different for each task: calls with the same key go to the
    same machine, which has their beginning cached. Without a key they go by the first words alone, which all tasks of a
    suite share, and are too many for one machine."""
    first = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    return chain_digest("", messages[: first + 1])[:32]


def _chat_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if not message.calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
        for call in message.calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


def _arguments(call: ToolCall) -> str:
    arguments = arguments_of(call)
    broken = arguments == {_MALFORMED: call.arguments}
    return json.dumps(arguments, ensure_ascii=False) if broken else call.arguments or "{}"


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Several servers parse the arguments of past calls and reject the whole request if one is malformed."""
    try:
        return call.parsed()
    except ValueError:
        return {_MALFORMED: call.arguments}


_MALFORMED = "malformed"


def _merge_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    merged: list[Message] = []
    for message in messages:
        if merged and message.role == "user" == merged[-1].role:
            merged[-1] = Message("user", f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(message)
    return tuple(merged)


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`strict` only where the schema obeys OpenAI's rules for it, since otherwise the request is refused."""
    strict = schema.get("type") == "object" and _strict(schema)
    return {"name": "reply", "schema": dict(schema), "strict": strict}


def _strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or set(schema.get("properties", ())) != set(schema.get("required", ()))
    ):
        return False
    return all(_strict(value) for value in schema.values())


def responses_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    schema = decoding.response_schema
    messages = _merge_messages(request.messages) if endpoint.merge_roles else request.messages
    items = [item for message in messages for item in _items(message)]
    if decoding.compact_over:
        return {"model": endpoint.id, "input": items}  # for /responses/compact, which takes no more
    body = {
        "model": endpoint.id,
        "input": items,
        # strict defaults to true here, which would rewrite the schemas of the tools
        "tools": [{"type": "function", **tool.to_json(), "strict": False} for tool in request.tools] or None,
        "store": False,
        "max_output_tokens": decoding.max_output_tokens,
        "reasoning": {"effort": decoding.reasoning_effort} if decoding.reasoning_effort else None,
        "text": {"format": {"type": "json_schema", **_format(schema)}} if schema else None,
    }
    return _complete_body(body, request, endpoint)


def _items(message: Message) -> list[dict[str, Any]]:
    """The input items of one message. The system prompt keeps its role: all servers accept both names of it. A
    compaction that the provider wrote goes back as it came, in place of the sentence that stands for it."""
    if compaction := [item for item in thoughts_of(message) if item.get("type") == COMPACTION]:
        return compaction
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.call_id, "output": message.content}]
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": _arguments(call)}
        for call in message.calls
    ]
    texts = [{"type": "message", "role": message.role, "content": message.content}]
    return texts + calls if message.content or not calls else calls


def thoughts_of(message: Message) -> list[dict[str, Any]]:
    try:
        items = json.loads(message.thoughts) if message.thoughts else []
    except ValueError:  # another provider's
        return []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def read_chat(data: Any, index: int) -> Reply:
    choice = data["choices"][0]
    message = choice["message"]
    calls = tuple(
        _call(call.get("id"), call["function"], index, n) for n, call in enumerate(message.get("tool_calls") or ())
    )
    refusal = message.get("refusal")
    ends: dict[Any, Finish] = {"length": "length", "content_filter": "refusal"}
    finish = "refusal" if refusal else ends.get(str(choice.get("finish_reason")), "stop")
    reply_message = Message("assistant", _clean(message.get("content") or refusal or ""), calls)
    return Reply(reply_message, _usage(data.get("usage"), "prompt", "completion"), finish, data.get("model") or "")


def read_responses(data: Any, index: int) -> Reply:
    details = data.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    finish: Finish = "stop"
    if data.get("status") == "incomplete":
        finish = "refusal" if reason == "content_filter" else "length"
    texts: list[str] = []
    calls: list[ToolCall] = []
    if compacted := [item for item in data["output"] if item["type"] == COMPACTION]:
        thoughts = whole(json.dumps(compacted, ensure_ascii=False))  # what else is there are messages as they were
        usage = _usage(data.get("usage"), "input", "output")
        return Reply(Message("assistant", "", thoughts=thoughts), usage, finish, data.get("model") or "")
    for item in data["output"]:
        if item["type"] == "function_call":
            calls.append(_call(item.get("call_id"), item, index, len(calls)))
        elif item["type"] == "message":
            parts = item["content"]
            texts.append(_clean(parts))
            if isinstance(parts, list) and any(part.get("type") == "refusal" for part in parts):
                finish = "refusal"
    if not data["output"] and finish == "stop":
        raise ValueError("no output")
    usage = _usage(data.get("usage"), "input", "output")
    return Reply(Message("assistant", "\n".join(texts), tuple(calls)), usage, finish, data.get("model") or "")


def _call(call_id: str | None, function: Mapping[str, Any], index: int, n: int) -> ToolCall:
    arguments = function.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id or f"call_{index}_{n}", function["name"], _clean(text))


def _clean(content: Any) -> str:
    """Content as one text, whether it came as a text or as parts, without half characters (nobody accepts those)."""
    if isinstance(content, list):
        content = "".join(part.get("text") or part.get("refusal") or "" for part in content)
    return whole(str(content))


def _usage(usage: Any, input_name: str, output_name: str) -> Usage:
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get(f"{input_name}_tokens_details")
    tokens = count_of(usage, f"{input_name}_tokens")
    return Usage(
        input=tokens,
        output=count_of(usage, f"{output_name}_tokens"),
        cached=count_of(details, "cached_tokens"),
        reasoning=count_of(usage.get(f"{output_name}_tokens_details"), "reasoning_tokens"),
        calls=1,
        cache_reported=tokens if has_count(details, "cached_tokens") else 0,
    )


def has_count(counts: Any, name: str) -> bool:
    """Whether the server said anything under this name."""
    return isinstance(counts, dict) and counts.get(name) is not None


def count_of(counts: Any, name: str) -> int:
    """A count as the server gave it: 0 where it gave none, -1 if it is not a count (then somebody else decides)."""
    value = counts.get(name) if isinstance(counts, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return 0 if value is None else -1
