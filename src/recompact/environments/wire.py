"""Requests as JSON, for environments that ask the harness for a model from another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recompact.values.chat import Decoding, Message, Request, ToolSpec


def request_to_json(request: Request) -> dict[str, Any]:
    d = request.decoding
    return {
        "messages": [m.to_json() for m in request.messages],
        "tools": [t.to_json() for t in request.tools],
        "decoding": [
            d.max_output_tokens,
            d.temperature,
            d.top_p,
            d.reasoning_effort,
            list(d.stop),
            d.response_schema,
        ],
    }


def request_from_json(data: Mapping[str, Any]) -> Request:
    limit, temperature, top_p, effort, stop, schema = data["decoding"]
    return Request(
        tuple(Message.from_json(m) for m in data["messages"]),
        tuple(ToolSpec.from_json(t) for t in data["tools"]),
        Decoding(limit, temperature, top_p, effort, None, tuple(stop), schema),
    )
