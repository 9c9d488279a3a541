"""Any chat model as an OpenAI-compatible server on loopback: Chat Completions, Responses and the list of models.

In comes what a real client sends over a real network path; out goes what the model replies, in the provider's form,
byte for byte the same for the same request. It counts what it received, can be slow, and can be told to fail.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from recompact.chat import Decoding, Message, Reply, Request, Role, ToolCall, ToolSpec, Usage, sha256
from recompact.errors import InputError
from recompact.models import failures
from recompact.models.protocol import ChatModel
from recompact.simulation import faults as faulty
from recompact.simulation.faults import Faults

if TYPE_CHECKING:
    from aiohttp import web

Latency = float | Callable[[Request], float]

_STATUS: dict[type[failures.ModelFailure], tuple[int, str]] = {
    failures.RateLimited: (429, "rate_limit_exceeded"),
    failures.ContextOverflow: (400, "context_length_exceeded"),
    failures.Refused: (400, "content_policy_violation"),
    failures.BadRequest: (400, "invalid_request"),
    failures.AuthenticationFailed: (401, "invalid_api_key"),
    failures.UnknownModel: (404, "model_not_found"),
}


@dataclass
class Server:
    """A running server: where it is, and what it has seen so far."""

    base_url: str = ""
    models: tuple[str, ...] = ()
    received: Counter[str] = field(default_factory=Counter)  # requests by digest, failed ones too
    replied: Counter[str] = field(default_factory=Counter)  # complete good replies by digest
    faults: Counter[str] = field(default_factory=Counter)  # by kind


@asynccontextmanager
async def serve(
    models: Mapping[str, ChatModel],
    host: str = "127.0.0.1",
    port: int = 0,
    faults: Faults | None = None,
    *,
    latency: Latency = 0.0,
    record_path: Path | None = None,
    require_key: str | None = None,
) -> AsyncIterator[Server]:
    """Serve models by name while the block runs; port 0 takes any free one.

    `record_path` gets one JSON line per received request and per reply that went out whole. `require_key` is the only
    key that is let in.
    """
    if host != "localhost" and not _is_loopback(host):
        raise InputError(f"the simulated models are served on loopback only, not on {host}: use 127.0.0.1.")
    try:
        from aiohttp import web
    except ImportError:
        raise InputError("the server needs aiohttp: pip install 'recompact[server]'.") from None
    with record_path.open("a", encoding="utf-8") if record_path else nullcontext() as record:
        handler = _Handler(dict(models), faults, latency, record, require_key)
        app = web.Application(client_max_size=1 << 28)
        app.router.add_get("/v1/models", handler.list_models)
        app.router.add_post("/v1/chat/completions", handler.chat)
        app.router.add_post("/v1/responses", handler.responses)
        app.router.add_route("*", "/{path:.*}", handler.no_such_path)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            handler.server.base_url = await _listen(web.TCPSite(runner, host, port), runner, host)
            yield handler.server
        finally:
            handler.stopping.set()
            await runner.cleanup()


async def _listen(site: web.TCPSite, runner: web.AppRunner, host: str) -> str:
    try:
        await site.start()
    except OSError as error:
        raise InputError(f"{site.name} cannot be used ({error.strerror or error}): choose another port.") from None
    return f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}/v1"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Handler:
    """What happens to one HTTP request."""

    def __init__(
        self,
        models: Mapping[str, ChatModel],
        faults: Faults | None,
        latency: Latency,
        record: TextIO | None,
        key: str | None,
    ) -> None:
        self.server = Server(models=tuple(models))
        self.stopping = asyncio.Event()
        self._models = models
        self._faults = faults
        self._latency = latency
        self._record = record
        self._key = key
        self._arrivals: Counter[tuple[str, str]] = Counter()

    async def list_models(self, http: web.Request) -> web.StreamResponse:
        if not self._let_in(http):
            return await _refuse(http, 401, "invalid_api_key", "Incorrect API key provided (simulated).")
        entries = [{"id": name, "object": "model", "created": 0, "owned_by": "recompact"} for name in self._models]
        return await _send_json(http, {"object": "list", "data": entries})

    async def no_such_path(self, http: web.Request) -> web.StreamResponse:
        return await _refuse(http, 404, "unknown_url", f"Invalid URL ({http.method} {http.path})")

    async def chat(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, "chat")

    async def responses(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, "responses")

    async def _answer(self, http: web.Request, api: str) -> web.StreamResponse:
        if not self._let_in(http):
            return await _refuse(http, 401, "invalid_api_key", "Incorrect API key provided (simulated).")
        try:
            body = await http.json()
            name = str(body["model"])
            request = read_chat(body) if api == "chat" else read_responses(body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return await _refuse(http, 400, "invalid_request", f"The request is not understood: {error!r}")
        if name not in self._models:
            return await _refuse(http, 404, "model_not_found", f"The model `{name}` does not exist.")
        digest = request.digest
        self._arrivals[name, digest] += 1
        self.server.received[digest] += 1
        self._note("request", digest, name, 0)
        kind = self._faults.of(digest, self._arrivals[name, digest]) if self._faults else None
        if kind:
            self.server.faults[kind] += 1
        await asyncio.sleep(self._latency(request) if callable(self._latency) else self._latency)
        status, response = await self._deliver(http, api, name, request, body, kind)
        if status:
            self._note("reply", digest, name, status)
            self.server.replied[digest] += status == 200
        return response

    async def _deliver(
        self, http: web.Request, api: str, name: str, request: Request, body: Any, kind: str | None
    ) -> tuple[int, web.StreamResponse]:
        """The status that went out whole (0 if none did) and the response, after the fault has had its way."""
        from aiohttp import web

        if kind == "hang":
            await faulty.hang(http, self.stopping)
        if kind in ("hang", "cut"):
            faulty.cut(http)
            return 0, web.Response()
        refused = faulty.refusal(self._faults, kind) if self._faults else None
        if refused:
            status, code, text, headers = refused
            return status, await _refuse(http, status, code, text, headers)
        try:
            reply = await self._models[name].reply(request)
        except failures.ModelFailure as failure:
            status, code = _STATUS.get(type(failure), (503, "overloaded"))
            wait = {} if failure.retry_after is None else {"Retry-After": f"{failure.retry_after:g}"}
            return status, await _refuse(http, status, code, str(failure), wait)
        if kind == "bad-arguments":
            reply = faulty.with_bad_arguments(reply, request)
        made = write_chat(name, request, reply) if api == "chat" else write_responses(name, request, reply)
        if kind == "empty":
            made["choices" if api == "chat" else "output"] = []
        pieces = [json.dumps(made).encode()]
        stream = bool(body.get("stream"))
        if stream:
            pieces = list(chat_stream(made, body) if api == "chat" else responses_stream(made))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream" if stream else "application/json"})
        return (200 if await faulty.send(http, response, pieces, kind, self._faults) else 0), response

    def _let_in(self, http: web.Request) -> bool:
        return self._key is None or http.headers.get("Authorization") == f"Bearer {self._key}"

    def _note(self, event: str, digest: str, model: str, status: int) -> None:
        if self._record is not None:
            entry = {"event": event, "digest": digest, "model": model, "status": status}
            self._record.write(json.dumps(entry) + "\n")
            self._record.flush()  # at once, because another process counts


async def _send_json(
    http: web.Request, value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    from aiohttp import web

    response = web.Response(
        body=json.dumps(value).encode(), status=status, headers=headers, content_type="application/json"
    )
    await response.prepare(http)
    await response.write_eof()
    return response


async def _refuse(
    http: web.Request, status: int, code: str, text: str, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    kind = "invalid_request_error" if status < 429 else "server_error"
    error = {"message": text, "type": kind, "param": None, "code": code}
    return await _send_json(http, {"error": error}, status, headers)


# ---- from the wire


def _text(content: Any) -> str:
    """A content as one text: it may come as parts, of which only texts are understood."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["refusal"] if part.get("type") == "refusal" else part["text"] for part in content)


def _role(name: str) -> Role:
    roles: dict[str, Role] = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
    return roles[name]


def _decoding(body: Mapping[str, Any], limit: int | None, effort: str | None, form: Any, stop: Any) -> Decoding:
    schema = form.get("schema") if isinstance(form, dict) else None
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return Decoding(limit, body.get("temperature"), body.get("top_p"), effort, body.get("seed"), stops, schema)


def read_chat(body: Mapping[str, Any]) -> Request:
    """The request that a body of Chat Completions means."""
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
    """The request that a body of Responses means. `seed` is not in that API, but is understood."""
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages = [Message("system", body["instructions"])] if body.get("instructions") else []
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
        elif kind != "reasoning":
            raise ValueError(f"input items of type {kind} are not known here")
    tools = tuple(_tool(tool) for tool in body.get("tools") or () if tool.get("type") == "function")
    effort = (body.get("reasoning") or {}).get("effort")
    form = (body.get("text") or {}).get("format")
    return Request(tuple(messages), tools, _decoding(body, body.get("max_output_tokens"), effort, form, None))


# ---- to the wire


def _id(name: str, request: Request) -> str:
    return sha256(f"{name}\n{request.digest}")[:24]


def _calls(name: str, request: Request, reply: Reply) -> Iterator[tuple[str, str, str]]:
    for n, call in enumerate(reply.message.calls):
        yield call.id or f"call_{_id(name, request)}_{n}", call.name, call.arguments


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
        "id": f"chatcmpl-{_id(name, request)}",
        "object": "chat.completion",
        "created": 0,
        "model": name,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(reply.usage, "prompt", "completion"),
    }


def write_responses(name: str, request: Request, reply: Reply) -> dict[str, Any]:
    own = _id(name, request)
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


def _event(value: Mapping[str, Any], named: bool = False) -> bytes:
    return (f"event: {value['type']}\n" if named else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


def _slices(text: str, size: int = 80) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def chat_stream(made: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A chat completion in chunks."""
    head = {key: made[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    for choice in made["choices"]:
        message = choice["message"]
        yield chunk({"role": "assistant", "content": ""})
        for key in ("content", "refusal"):
            yield from (chunk({key: piece}) for piece in _slices(message[key] or ""))
        for n, call in enumerate(message.get("tool_calls", ())):
            function = {"name": call["function"]["name"], "arguments": ""}
            yield chunk({"tool_calls": [{**call, "index": n, "function": function}]})
            for piece in _slices(call["function"]["arguments"]):
                yield chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
        yield chunk({}, choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": made["usage"]})
    yield b"data: [DONE]\n\n"


def responses_stream(made: Mapping[str, Any]) -> Iterator[bytes]:
    """A response as its events, numbered."""
    for number, event in enumerate(_response_events(made)):
        yield _event({**event, "sequence_number": number}, named=True)


def _response_events(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = {**made, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(made["output"]):
        at = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
        if item["type"] == "message":
            yield from _part_events(at | {"content_index": 0}, item["content"][0])
        else:
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", **at, "delta": piece} for piece in _slices(item["arguments"]))
            yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{made['status']}", "response": made}


def _part_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    key = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if key == "refusal" else "response.output_text"
    more: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **at, "part": {**part, key: ""}}
    yield from ({"type": f"{kind}.delta", **at, "delta": piece, **more} for piece in _slices(part[key]))
    yield {"type": f"{kind}.done", **at, key: part[key], **more}
    yield {"type": "response.content_part.done", **at, "part": part}
