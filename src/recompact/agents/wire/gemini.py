"""Gemini's generateContent. Its calls need no ids: one that has none, and its result, get one by name and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recompact.agents.wire.openai import event, reply_id
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, ToolSpec, canonical


def read_contents(body: Mapping[str, Any]) -> Request:
    """The request in a body of generateContent."""
    system = _text((body.get("systemInstruction") or {}).get("parts") or ())
    messages = [Message("system", system)] if system else []
    open_calls: list[ToolCall] = []  # which have no result yet
    for content in body["contents"]:
        if content.get("role") == "model":
            reply_message = _model(content["parts"], len(messages))
            open_calls = list(reply_message.calls)
            messages.append(reply_message)
        else:
            messages += _user(content["parts"], open_calls)
    offered = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
    tools = tuple(ToolSpec(each["name"], each.get("description") or "", _schema(each)) for each in offered)
    config = body.get("generationConfig") or {}
    decoding = Decoding(
        config.get("maxOutputTokens"),
        config.get("temperature"),
        config.get("topP"),
        stop=tuple(config.get("stopSequences") or ()),
        response_schema=config.get("responseJsonSchema"),
    )
    return Request(tuple(messages), tools, decoding)


def _model(parts: list[Mapping[str, Any]], place: int) -> Message:
    requested = [part["functionCall"] for part in parts if "functionCall" in part]
    calls = tuple(
        ToolCall(call.get("id") or f"{call['name']}-{place}-{n}", call["name"], canonical(call.get("args") or {}))
        for n, call in enumerate(requested)
    )
    said = [part for part in parts if "functionCall" not in part and not part.get("thought")]
    return Message("assistant", _text(said), calls)


def _user(parts: list[Mapping[str, Any]], open_calls: list[ToolCall]) -> list[Message]:
    """The results in a turn, and what else it says, in order."""
    messages: list[Message] = []
    for part in parts:
        if result := part.get("functionResponse"):
            call = next((each for each in open_calls if each.name == result["name"]), None)
            if call is not None:
                open_calls.remove(call)
            id = result.get("id") or (call.id if call else result["name"])
            messages.append(Message("tool", _result(result.get("response")), (), id))
        elif messages and messages[-1].role == "user":
            messages.append(Message("user", f"{messages.pop().content}\n{_text([part])}"))
        else:
            messages.append(Message("user", _text([part])))
    return messages


def _result(response: Any) -> str:
    """A result is an object; the text in its only field is what a tool returned."""
    values = list(response.values()) if isinstance(response, dict) else [response]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else canonical(response)


def _text(parts: Any) -> str:
    return "\n".join(str(part["text"]) if "text" in part else f"[{next(iter(part), 'empty')}]" for part in parts)


def _schema(declaration: Mapping[str, Any]) -> dict[str, Any]:
    schema = declaration.get("parametersJsonSchema") or declaration.get("parameters")
    return dict(schema or {"type": "object", "properties": {}})


def write_contents(name: str, request: Request, reply: Reply) -> dict[str, Any]:
    message, own = reply.message, reply_id(name, request)
    parts: list[dict[str, Any]] = []
    if message.content or not message.calls:
        parts.append({"text": message.content})
    for n, call in enumerate(message.calls):
        id = call.id or f"{call.name}-{own}-{n}"
        parts.append({"functionCall": {"id": id, "name": call.name, "args": call.readable}})
    ends = {"length": "MAX_TOKENS", "refusal": "SAFETY"}
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": ends.get(reply.finish, "STOP"),
        "index": 0,
    }
    usage = {
        "promptTokenCount": reply.usage.input,
        "cachedContentTokenCount": reply.usage.cached,
        "candidatesTokenCount": reply.usage.output,
        "totalTokenCount": reply.usage.total,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": name, "responseId": own}


def contents_stream(answer: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A reply as one event: clients join the parts of several."""
    yield event(answer)
