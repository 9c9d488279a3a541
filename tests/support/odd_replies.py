"""Odd replies of a server, one kind for each place of a reply and each odd value in that place, for three APIs; and a
suite whose tasks name the kind that they are to be answered with."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from loopback import served_app

from recompact.environments.functions import FunctionSuite, function_suite

MISSING = object()


def _nested(levels: int, bracket: str = "[") -> str:
    return bracket * levels + ("]" if bracket == "[" else "}") * levels


def _lists(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -7,
    "fraction": 1.5,
    "huge number": 10**40,
    "infinite": float("inf"),
    "empty text": "",
    "text": "an odd value",
    "half a character": "a\ud800b",
    "control characters": "\x00\x1b[2J\u202e",
    "980 brackets": _nested(980),
    "100 000 brackets": "[" * 100_000,
    "half a character, escaped": '{"a": "\\ud800", "\\udfff": 1}',
    "numbers that are none": '{"a": NaN, "b": 1e999, "c": -Infinity}',
    "4,301 digits": '{"a": ' + "9" * 4301 + "}",
    "empty list": [],
    "list of odd things": [None, 1, "x", [], {}],
    "lists in lists": _lists(90),
    "empty object": {},
    "object": {"type": "odd", "a": {"b": []}},
    "endless": "word " * 500_000,
}
"""What may stand in any place of a reply."""

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 1}'}}
CHAT: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion",
    "model": "odd-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": "", "refusal": None, "tool_calls": [CALL]},
        }
    ],
    "usage": {
        "prompt_tokens": 30,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
RESPONSES: dict[str, Any] = {
    "id": "x",
    "object": "response",
    "status": "completed",
    "model": "odd-1",
    "incomplete_details": None,
    "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1, "b": 1}'},
    ],
    "usage": {
        "input_tokens": 30,
        "output_tokens": 10,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}
MESSAGES: dict[str, Any] = {
    "id": "x",
    "type": "message",
    "role": "assistant",
    "model": "odd-1",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1, "b": 1}},
    ],
    "usage": {"input_tokens": 30, "output_tokens": 10, "cache_read_input_tokens": 5},
}
BODIES = {"chat": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}

ERRORS: dict[str, Any] = {
    "error inside": {"error": {"message": "no", "code": "odd"}},
    "error 409 inside": {"error": {"message": "conflict", "code": 409}},
    "error as a text": {"error": "out of order"},
    "error as a list": {"error": [1, 2]},
    "detail": {"detail": [{"loc": ["body"]}]},
}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, the whole first."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*at, key))


def with_value(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The body with another value in one place."""
    if not place:
        return None if value is MISSING else value
    changed = copy.deepcopy(body)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


def kinds(api: str) -> dict[str, bytes]:
    """All odd replies of an API, by what is odd about them, as the bytes that a server sends."""
    body = BODIES[api]
    replies = {
        f"{'.'.join(map(str, place)) or 'all of it'}: {name}": with_value(body, place, value)
        for place in places(body)
        for name, value in VALUES.items()
    }
    written = {kind: json.dumps(reply).encode() for kind, reply in (replies | ERRORS).items()}
    raw = {"nothing": b"", "no JSON": b"<html>", "cut": json.dumps(body).encode()[:60], "not UTF-8": b'{"a": "\xff"}'}
    return written | raw | {"5,000 levels": b"[" * 5000 + b"]" * 5000}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def odd_suite(names: list[str]) -> FunctionSuite:
    return function_suite("odd", [add], {f"task-{n:04d}": (f"Kind: {name}", "4") for n, name in enumerate(names)})


def some_kinds(api: str) -> list[str]:
    """A handful from all over, and good tasks among them."""
    every = [kind for kind in kinds(api) if "endless" not in kind]
    return [name for kind in every[:: len(every) // 30] for name in (kind, "good")]


some_odd_chat = odd_suite(some_kinds("chat"))
some_odd_responses = odd_suite(some_kinds("responses"))


two_tasks = odd_suite(["good", "good too"])


def finishing_reply(api: str) -> Any:
    """A reply that ends a task with the right answer."""
    call = {"name": "finish", "arguments": json.dumps({"answer": "4"})}
    if api == "chat":
        return with_value(CHAT, ("choices", 0, "message", "tool_calls", 0, "function"), call)
    if api == "responses":
        return with_value(RESPONSES, ("output", 1), {**RESPONSES["output"][1], **call})
    used = {**MESSAGES["content"][1], "name": "finish", "input": {"answer": "4"}}
    return with_value(MESSAGES, ("content", 1), used)


@contextmanager
def odd_server(api: str) -> Iterator[str]:
    """A server that gives the first reply to a task in the kind that it names, and then ends the task."""
    replies = kinds(api)
    finish = finishing_reply(api)

    async def answer(http: web.Request) -> web.Response:
        data = json.loads(await http.text())
        messages = data["messages"] if api == "chat" else data["input"]
        kind = next(m["content"] for m in messages if m.get("role") == "user").removeprefix("Kind: ")
        first = not any(m.get("role") == "assistant" or m.get("type") == "function_call" for m in messages)
        body = replies[kind] if first and kind in replies else json.dumps(finish).encode()
        return web.Response(body=body, content_type="application/json")

    with served_app(answer) as url:
        yield url
