"""The gateway of one episode: it reads what an agent asks its model, and answers when there is a reply.

Streams are opened at once and kept alive with comments, and other answers with white space before their JSON, so that
no agent gives up while a model thinks, a rate limit is waited for or a history is compacted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recompact.agents.settings import MODEL, REQUEST_BYTES, REQUEST_VALUES, REQUESTS_AT_ONCE
from recompact.agents.wire.formats import FORMATS, WireFormat, format_of
from recompact.errors import InputError
from recompact.values.chat import Message, Reply, Request, Usage, whole
from recompact.values.loopback import LoopbackServer, foreign_origin, is_among
from recompact.version import install_command

if TYPE_CHECKING:
    from aiohttp import web

ALIVE = 10.0  # seconds between two signs of life to whoever waits
USAGE = Usage(1000, 10)
"""What agents are told a call has used: so little that none that goes by it compacts its history on its own."""
_ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what an odd body raises
_COUNTS = ("/count_tokens", ":countTokens")  # the ends of paths at which a count of tokens is asked for
_HOW = "send OPENAI_API_KEY or ANTHROPIC_API_KEY as the agent got it, or use OPENAI_BASE_URL or ANTHROPIC_BASE_URL"


@dataclass(eq=False)
class Exchange:
    """A request of an agent, and the message that it is to be answered with."""

    request: Request
    headers: Mapping[str, str]
    repeats: int = 0  # times that it was sent again
    mended: bool = False  # whether halves of characters were replaced in it
    answer: asyncio.Future[Message] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def deliver(self, message: Message) -> None:
        if not self.answer.done():
            self.answer.set_result(message)


@dataclass(frozen=True)
class AgentCallbacks:
    """Who hears of what an agent does: `arrive` gets each exchange and may return an earlier one that this one
    repeats; `misuse` gets the reason where an agent does what none may do, and `refuse` why a request is not taken for
    the agent's."""

    arrive: Callable[[Exchange], Exchange]
    misuse: Callable[[str], None]
    refuse: Callable[[str], None] = lambda reason: None


class Gateway:
    """An HTTP server on a listening socket. With a `key`, only requests that carry it are taken for the agent's."""

    def __init__(self, callbacks: AgentCallbacks, key: str = "", hosts: tuple[str, ...] = ()) -> None:
        self._callbacks, self._key = callbacks, key
        self._hosts = hosts  # by which it may be reached besides loopback
        self._server = LoopbackServer()
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._closing = asyncio.Event()

    async def listen(self, listener: socket.socket) -> None:
        try:
            from aiohttp import web
        except ImportError:
            raise InputError(f"agents that are commands need aiohttp: {install_command('agents')}") from None
        app = web.Application(client_max_size=REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        await self._server.start(app, listener)

    async def close(self) -> None:
        self._closing.set()
        await self._server.close()

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        if reason := self._foreign(http):
            self._callbacks.refuse(reason)
            return _refusal(403 if self._is_keyed(http) else 401, f"{reason}: {_HOW}")
        self._server.accept(http)
        async with self._room:
            return await self._answer(http)

    def _foreign(self, http: web.Request) -> str:
        """Why a request is not taken for the agent's, or nothing."""
        if not self._key:  # nobody else reaches this gateway
            return ""
        assert http.transport is not None
        port = http.transport.get_extra_info("sockname")[1]
        return foreign_origin(http.headers, port, self._hosts) or (
            "" if self._is_keyed(http) else "it has no key, or a wrong one"
        )

    def _is_keyed(self, http: web.Request) -> bool:
        """Whether a request has the key, wherever a wire format or our address puts it."""
        bearer = http.headers.get("Authorization", "").removeprefix("Bearer ")
        own = (http.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key"))
        return is_among(self._key, (bearer, *own, http.path.split("/")[1]))

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        from aiohttp import web

        form = format_of(http.path) if http.method == "POST" else None
        if form is None:
            if http.method == "POST" and not http.path.endswith(_COUNTS):
                self._callbacks.refuse(f"it was not sent to {', '.join(f'…{each.path}' for each in FORMATS)}")
            return _other(http.method, http.path.removeprefix(f"/{self._key}" if self._key else ""))
        try:
            sent = _unpack(await http.read(), http.headers.get("Content-Encoding", ""))
            if sum(map(sent.count, _STRUCTURE)) > 10 * REQUEST_VALUES:  # in texts as well; to read them takes memory
                raise OverflowError
            written = json.loads(sent)
            if _has_more_values(written, REQUEST_VALUES):
                raise OverflowError
            body = _mend(written) if any(each in sent for each in _HALVES) else written
            request = form.read(body)
        except (web.HTTPRequestEntityTooLarge, OverflowError):
            most = f"{REQUEST_BYTES:,} bytes or {REQUEST_VALUES:,} values"
            self._callbacks.misuse(f"it sent a request of more than {most}")
            return _refusal(413, "the request is too large")
        except ConnectionError:
            return _refusal(400, "the request did not end")  # which nobody reads
        except (*_ODD, zlib.error, web.RequestPayloadError) as error:
            self._callbacks.misuse(f"it sent a request that cannot be read ({form.path}: {_reason(error)})")
            return _refusal(400, "the request is not understood")
        headers = {name.lower(): value for name, value in http.headers.items()}
        exchange = Exchange(request, headers, mended=body != written)
        exchange = self._callbacks.arrive(exchange)
        if form.streams or body.get("stream"):
            return await self._kept_alive(
                http,
                exchange,
                lambda: b"".join(form.stream(_write_reply(form, exchange), body)),
                "text/event-stream",
                form.waiting,
            )
        if await self._wait_for_answer(exchange, ALIVE):
            return web.json_response(_write_reply(form, exchange))
        if self._closing.is_set():
            return _refusal(503, "the episode is over")
        return await self._kept_alive(http, exchange, lambda: json.dumps(_write_reply(form, exchange)).encode())

    async def _kept_alive(
        self,
        http: web.Request,
        exchange: Exchange,
        content: Callable[[], bytes],
        kind: str = "application/json",
        nothing: bytes = b"\n",  # white space before a value is JSON
    ) -> web.StreamResponse:
        """Begin to answer at once, and send bytes that mean nothing until there is an answer."""
        from aiohttp import web

        response = web.StreamResponse(headers={"Content-Type": kind, "Cache-Control": "no-cache"})
        with contextlib.suppress(ConnectionError):  # it may be gone; whoever asks again gets the same answer
            await response.prepare(http)
            while not await self._wait_for_answer(exchange, ALIVE):
                if self._closing.is_set():
                    response.force_close()
                    return response
                await response.write(nothing)
            await response.write(content())
            await response.write_eof()
        return response

    async def _wait_for_answer(self, exchange: Exchange, seconds: float | None = None) -> bool:
        """Wait for the answer, at most this long, and no longer than the episode lasts."""
        if not exchange.answer.done():
            closing = asyncio.ensure_future(self._closing.wait())
            try:
                await asyncio.wait((exchange.answer, closing), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                closing.cancel()
        return exchange.answer.done()


def _unpack(body: bytes, coding: str) -> bytes:
    """A body as it was before it was packed. Raises OverflowError where it is too large, and zlib.error."""
    if coding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    unpacked = unpacker.decompress(body, REQUEST_BYTES + 1)
    if len(unpacked) > REQUEST_BYTES:
        raise OverflowError
    return unpacked


_HALVES = (b"\\ud", b"\\uD", b"\xed")  # how halves of characters begin, and some whole ones


_STRUCTURE = (b"{", b"[", b",")


def _has_more_values(value: Any, most: int) -> bool:
    """Whether a value of JSON has more values in it: each costs the harness many times its bytes."""
    pending, seen = [value], 0
    while pending:
        each = pending.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        seen += len(inner)
        if seen > most:
            return True
        pending += inner
    return False


def _mend(value: Any) -> Any:
    """A value of JSON with whole characters only."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_mend(each) for each in value]
    if isinstance(value, dict):
        return {whole(name): _mend(each) for name, each in value.items()}
    return value


def _reason(error: Exception) -> str:
    """What is wrong with a body: in our words where they are ours, else with the kind of error."""
    return str(error)[:400] if type(error) is ValueError else repr(error)[:200]


def _write_reply(form: WireFormat, exchange: Exchange) -> dict[str, Any]:
    return form.write(MODEL, exchange.request, Reply(exchange.answer.result(), USAGE))


def _other(method: str, path: str) -> web.Response:
    """What else harnesses ask: the list of models, a count of tokens, whether anybody is there."""
    from aiohttp import web

    if path.endswith(_COUNTS):
        return web.json_response({"input_tokens": USAGE.input, "totalTokens": USAGE.input})
    if method == "GET" and path.rstrip("/").endswith("/models"):
        entry = {"id": MODEL, "object": "model", "type": "model", "created": 0, "owned_by": "recompact"}
        return web.json_response({"object": "list", "data": [entry], "has_more": False})
    if method in ("GET", "HEAD") and path.rstrip("/") in ("", "/v1"):
        return web.Response()
    return _refusal(404, f"there is no {method} {path}")


def _refusal(status: int, text: str) -> web.Response:
    from aiohttp import web

    error = {"message": text, "type": "invalid_request_error", "code": None}
    return web.json_response({"type": "error", "error": error}, status=status)
