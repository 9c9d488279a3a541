"""Any chat model as a server on loopback: Chat Completions, Responses, Anthropic's Messages and the list of models.

The same request gets the same bytes. The server counts what it received, can be slow, and can be told to fail.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import sim_faults as faulty
from sim_faults import Faults

from recompact.agents.wire.formats import CHAT, MESSAGES, RESPONSES, WireFormat, status_of
from recompact.errors import InputError
from recompact.models import failures
from recompact.models.protocol import ChatModel
from recompact.values.chat import Request
from recompact.version import install_command

if TYPE_CHECKING:
    from aiohttp import web

_CONTENT = {"chat": "choices", "responses": "output", "messages": "content"}  # what an empty reply has nothing in

Latency = float | Callable[[Request], float]


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
        raise InputError(f"the server needs aiohttp: {install_command('server')}") from None
    with record_path.open("a", encoding="utf-8") if record_path else nullcontext() as record:
        handler = _Handler(dict(models), faults, latency, record, require_key)
        app = web.Application(client_max_size=1 << 28)
        app.router.add_get("/v1/models", handler.list_models)
        app.router.add_post("/v1/chat/completions", handler.chat)
        app.router.add_post("/v1/responses", handler.responses)
        app.router.add_post("/v1/messages", handler.messages)
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
        return await self._answer(http, CHAT)

    async def responses(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, RESPONSES)

    async def messages(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, MESSAGES)

    async def _answer(self, http: web.Request, api: WireFormat) -> web.StreamResponse:
        if not self._let_in(http):
            return await _refuse(http, 401, "invalid_api_key", "Incorrect API key provided (simulated).")
        try:
            body = await http.json()
            name = str(body["model"])
            request = api.read(body)
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
        self, http: web.Request, api: WireFormat, name: str, request: Request, body: Any, kind: str | None
    ) -> tuple[int, web.StreamResponse]:
        """The status of the complete response (0 if it was cut off) and the response, with its fault applied."""
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
            status, code = status_of(failure)
            wait = {} if failure.retry_after is None else {"Retry-After": f"{failure.retry_after:g}"}
            return status, await _refuse(http, status, code, str(failure), wait)
        if kind == "bad-arguments":
            reply = faulty.with_bad_arguments(reply, request)
        answer = api.write(name, request, reply)
        if kind == "empty":
            answer[_CONTENT[api.name]] = []
        pieces = [json.dumps(answer).encode()]
        stream = bool(body.get("stream"))
        if stream:
            pieces = list(api.stream(answer, body))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream" if stream else "application/json"})
        return (200 if await faulty.send(http, response, pieces, kind, self._faults) else 0), response

    def _let_in(self, http: web.Request) -> bool:
        bearer = http.headers.get("Authorization", "").removeprefix("Bearer ")
        return self._key is None or self._key in (bearer, http.headers.get("x-api-key"))

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
