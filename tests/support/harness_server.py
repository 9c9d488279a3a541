"""A model server on loopback for real harnesses: Chat Completions, Responses and Messages, streamed or not.

It keeps every request. One that holds a mark of the template is asked for a summary; any other is answered as an agent
that reads one page after the other and then says that it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from loopback import served_app

Json = dict[str, Any]


@dataclass
class Step:
    """What the model does next: call a tool, or say something."""

    text: str = ""
    tool: str = ""
    arguments: Json = field(default_factory=dict)


@dataclass
class ModelServer:
    """`mark` tells a request for a summary; `act` answers an agent's request by its number; `tokens` is what the usage
    of its request is said to be."""

    mark: str
    act: Callable[[int], Step]
    tokens: Callable[[int], int] = lambda number: 100
    requests: list[Json] = field(default_factory=list)
    url: str = ""

    @property
    def summaries(self) -> list[str]:
        """The requests for a summary, as text."""
        return [text for text in map(all_text, self.requests) if self.mark in text]

    @contextmanager
    def serving(self) -> Iterator[ModelServer]:
        with served_app(self._answer) as url:
            self.url = url
            yield self

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.json_response({"data": [{"id": "loop", "object": "model"}], "object": "list"})
        body = await request.json()
        if request.path.endswith("count_tokens"):
            return web.json_response({"input_tokens": 100})
        number = sum(self.mark not in all_text(each) for each in self.requests)
        self.requests.append(body)
        wanted = self.mark in all_text(body)
        count = len(self.summaries)
        step = Step(f"SUMMARY-{count} keeps FACT-{count}.") if wanted else self.act(number)
        tokens = 100 if wanted else self.tokens(number)
        kind = next((kind for kind in _WIRES if request.path.endswith(kind)), None)
        if kind is None:
            return web.json_response({"error": {"message": f"no such path: {request.path}"}}, status=404)
        whole, events = _WIRES[kind](step, tokens, len(self.requests))
        if not body.get("stream"):
            return web.json_response(whole)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if kind.endswith("chat/completions"):
            await response.write(b"data: [DONE]\n\n")
        return response


def all_text(value: Any) -> str:
    """Every text in a JSON value, joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(map(all_text, value.values()))
    return "\n".join(map(all_text, value)) if isinstance(value, list) else ""


def _chat(step: Step, tokens: int, number: int) -> tuple[Json, list[Json]]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    message: Json = {"role": "assistant", "content": step.text or None}
    if step.tool:
        message["tool_calls"] = [call]
    finish = "tool_calls" if step.tool else "stop"
    head = {"id": f"c{number}", "created": 1, "model": "loop"}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**head, "object": "chat.completion.chunk"}
    return whole, [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
    ]


def _responses(step: Step, tokens: int, number: int) -> tuple[Json, list[Json]]:
    if step.tool:
        arguments = json.dumps(step.arguments)
        item: Json = {"type": "function_call", "name": step.tool, "call_id": f"call_{number}", "arguments": arguments}
    else:
        text = {"type": "output_text", "text": step.text, "annotations": []}
        item = {"type": "message", "role": "assistant", "content": [text]}
    item.update(id=f"item_{number}", status="completed")
    usage = {
        "input_tokens": tokens,
        "output_tokens": 5,
        "total_tokens": tokens + 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole: Json = {
        "id": f"resp_{number}",
        "object": "response",
        "model": "loop",
        "status": "completed",
        "created_at": 1,
    }
    whole.update(output=[item], usage=usage)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    return whole, [
        {"type": "response.created", "response": begun, "sequence_number": 0},
        {"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 1},
        {"type": "response.output_item.done", "output_index": 0, "item": item, "sequence_number": 2},
        {"type": "response.completed", "response": whole, "sequence_number": 3},
    ]


def _messages(step: Step, tokens: int, number: int) -> tuple[Json, list[Json]]:
    usage = {"input_tokens": tokens, "output_tokens": 5}
    if step.tool:
        block: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": step.arguments}
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    else:
        block = {"type": "text", "text": step.text}
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}
    reason = "tool_use" if step.tool else "end_turn"
    whole: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "loop", "content": [block]}
    whole.update(stop_reason=reason, stop_sequence=None, usage=usage)
    return whole, [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


_WIRES: dict[str, Callable[[Step, int, int], tuple[Json, list[Json]]]] = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
}
