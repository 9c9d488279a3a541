"""OpenAI's two formats, Chat Completions and Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from recompact.values.chat import Decoding, Message, Reply, Request, Role, ToolCall, ToolSpec, Usage, sha256


def _text(content: Any) -> str:
    """Content as one text. It may have parts; of one that is not text, the kind is kept."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part(part) for part in content)


def _part(part: Mapping[str, Any]) -> str:
    if part.get("type") == "refusal":
        return str(part["refusal"])
    return str(part["text"]) if "text" in part else f"[{part['type']}]"


def _role(name: str) -> Role:
    roles: dict[str, Role] = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
    return roles[name]


def _decoding(body: Mapping[str, Any], limit: int | None, effort: str | None, form: Any, stop: Any) -> Decoding:
    schema = form.get("schema") if isinstance(form, dict) else None
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return Decoding(limit, body.get("temperature"), body.get("top_p"), effort, body.get("seed"), stops, schema)


def read_chat(body: Mapping[str, Any]) -> Request:
    """The request in a body of Chat Completions."""
    messages = []
    for sent in body["messages"]:
        content = _text(sent.get("content"))
        if sent["role"] == "tool":
            messages.append(Message("tool", content, (), sent.get("tool_call_id", "")))
            continue
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"].get("arguments", ""))
            for call in sent.get("tool_calls") or ()
        )
        messages.append(Message(_role(sent["role"]), content, calls))
    tools = tuple(_tool(tool["function"]) for tool in body.get("tools") or () if tool.get("type") == "function")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    form = (body.get("response_format") or {}).get("json_schema")
    return Request(tuple(messages), tools, _decoding(body, limit, body.get("reasoning_effort"), form, body.get("stop")))


def _tool(function: Mapping[str, Any]) -> ToolSpec:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(function["name"], function.get("description") or "", parameters)


def read_responses(body: Mapping[str, Any]) -> Request:
    """The request in a body of Responses. `seed` is not in that API, but is understood."""
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages = [Message("system", body["instructions"])] if body.get("instructions") else []
    offered = list(body.get("tools") or ())
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            messages.append(Message(_role(item["role"]), _text(item["content"])))
        elif kind == "function_call":
            call = ToolCall(item["call_id"], item["name"], item.get("arguments", ""))
            # the calls of one assistant message are items of their own, after its text
            before = messages.pop() if messages and messages[-1].role == "assistant" else Message("assistant", "")
            messages.append(Message("assistant", before.content, (*before.calls, call)))
        elif kind == "function_call_output":
            messages.append(Message("tool", _text(item["output"]), (), item["call_id"]))
        elif kind == "additional_tools":
            offered += item["tools"]
        elif kind != "reasoning":  # as with parts of a message: its text or, where it has none, its kind is kept
            messages.append(Message("user", _text(item.get("content") or item.get("output")) or f"[{kind}]"))
    tools = tuple(_tool(tool) for tool in offered if tool.get("type") == "function")
    if offered and not tools:
        kinds = ", ".join(dict.fromkeys(str(tool.get("type")) for tool in offered))
        raise ValueError(
            f"it offers no tool that is a function, only such ({kinds}) as its provider's own models can call: give the"
            " agent a model's name that it does not know, such as model, so that it offers functions"
        )
    effort = (body.get("reasoning") or {}).get("effort")
    form = (body.get("text") or {}).get("format")
    return Request(tuple(messages), tools, _decoding(body, body.get("max_output_tokens"), effort, form, None))


# ---- to the wire


def reply_id(name: str, request: Request) -> str:
    return sha256(f"{name}\n{request.digest}")[:24]


def _calls(name: str, request: Request, reply: Reply) -> Iterator[tuple[str, str, str]]:
    for n, call in enumerate(reply.message.calls):
        yield call.id or f"call_{reply_id(name, request)}_{n}", call.name, call.arguments


def _usage(usage: Usage, read: str, written: str) -> dict[str, Any]:
    return {
        f"{read}_tokens": usage.input,
        f"{read}_tokens_details": {"cached_tokens": usage.cached},
        f"{written}_tokens": usage.output,
        f"{written}_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def write_chat(name: str, request: Request, reply: Reply) -> dict[str, Any]:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
        for call_id, tool, arguments in _calls(name, request, reply)
    ]
    refused = reply.finish == "refusal"
    message: dict[str, Any] = {"role": "assistant", "content": None if refused else reply.message.content}
    message["refusal"] = reply.message.content if refused else None
    if calls:
        message |= {"content": message["content"] or None, "tool_calls": calls}
    finish = "length" if reply.finish == "length" else "tool_calls" if calls else "stop"
    return {
        "id": f"chatcmpl-{reply_id(name, request)}",
        "object": "chat.completion",
        "created": 0,
        "model": name,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(reply.usage, "prompt", "completion"),
    }


def write_responses(name: str, request: Request, reply: Reply) -> dict[str, Any]:
    own = reply_id(name, request)
    status = "incomplete" if reply.finish == "length" else "completed"
    output: list[dict[str, Any]] = []
    if reply.message.content or not reply.message.calls:
        part: dict[str, Any] = {"type": "output_text", "text": reply.message.content, "annotations": []}
        if reply.finish == "refusal":
            part = {"type": "refusal", "refusal": reply.message.content}
        output.append({"type": "message", "id": f"msg_{own}", "role": "assistant", "status": status, "content": [part]})
    for n, (call_id, tool, arguments) in enumerate(_calls(name, request, reply)):
        item = {"type": "function_call", "id": f"fc_{own}_{n}", "call_id": call_id, "status": status}
        output.append({**item, "name": tool, "arguments": arguments})
    return {
        "id": f"resp_{own}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if reply.finish == "length" else None,
        "model": name,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        "usage": _usage(reply.usage, "input", "output"),
    }


# ---- the same, as a stream of events


def event(value: Mapping[str, Any], named: bool = False) -> bytes:
    return (f"event: {value['type']}\n" if named else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


def slices(text: str, size: int = 80) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def chat_stream(completion: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A chat completion in chunks."""
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    for choice in completion["choices"]:
        message = choice["message"]
        yield chunk({"role": "assistant", "content": ""})
        for key in ("content", "refusal"):
            yield from (chunk({key: piece}) for piece in slices(message[key] or ""))
        for n, call in enumerate(message.get("tool_calls", ())):
            function = {"name": call["function"]["name"], "arguments": ""}
            yield chunk({"tool_calls": [{**call, "index": n, "function": function}]})
            for piece in slices(call["function"]["arguments"]):
                yield chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
        yield chunk({}, choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event({**head, "choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def responses_stream(response: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A response as its events, numbered."""
    for number, each in enumerate(_response_events(response)):
        yield event({**each, "sequence_number": number}, named=True)


def _response_events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(response["output"]):
        at = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
        if item["type"] == "message":
            yield from _part_events(at | {"content_index": 0}, item["content"][0])
        else:
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", **at, "delta": piece} for piece in slices(item["arguments"]))
            yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _part_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    key = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if key == "refusal" else "response.output_text"
    more: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **at, "part": {**part, key: ""}}
    yield from ({"type": f"{kind}.delta", **at, "delta": piece, **more} for piece in slices(part[key]))
    yield {"type": f"{kind}.done", **at, key: part[key], **more}
    yield {"type": "response.content_part.done", **at, "part": part}
