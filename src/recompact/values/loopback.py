"""Web servers on loopback: whether a request comes from where it may, and which of their troubles are worth a line.

Any page that a browser shows, and anybody on the machine, can send requests to a port of loopback.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

CONNECTIONS = 128
"""Open connections to one server, as a rule: each takes one of the files that this process may open."""


def foreign_origin(headers: Mapping[str, str], port: int, hosts: Iterable[str] = ()) -> str:
    """Why a request to this port of loopback may not be answered, or nothing: it was sent to another name, which may
    have been pointed here, or by a page that is not ours."""
    own = {f"{host}:{port}" for host in ("127.0.0.1", "localhost", *hosts)}
    if headers.get("Host", "") not in own:
        return "it is for another host"
    origin = headers.get("Origin")
    if origin is not None and origin.removeprefix("http://") not in own:
        return "a foreign page sent it"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "a foreign page sent it"
    return ""


def is_among(secret: str, candidates: Iterable[str]) -> bool:
    """Whether one of these is the secret, in a time that does not tell how much of it is right."""
    return any(secrets.compare_digest(each.encode(errors="replace"), secret.encode()) for each in candidates)


class LoopbackServer:
    """Serves an application on a listening socket. Where too many connections are open, the oldest goes on which no
    request was accepted; where there is none, the new one does."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._accepted: set[asyncio.BaseProtocol] = set()

    async def start(self, application: web.Application, listener: socket.socket) -> None:
        from aiohttp import web

        # It unpacks no body: aiohttp would unpack that of a refused request too, and do nothing else meanwhile.
        self._runner = web.AppRunner(
            application, access_log=None, logger=_server_log(), shutdown_timeout=0.5, auto_decompress=False
        )
        await self._runner.setup()
        self._listening = await asyncio.get_running_loop().create_server(self._admit, sock=listener)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def accept(self, http: web.Request) -> None:
        """To be called with a request that may be answered: its connection keeps its place."""
        self._accepted.add(http.protocol)

    def _admit(self) -> asyncio.BaseProtocol:
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        connected = [each for each in server.connections if each.transport and not each.transport.is_closing()]
        self._accepted.intersection_update(connected)
        if len(connected) >= CONNECTIONS:
            oldest = next((each for each in connected if each not in self._accepted), None)
            if oldest is None:
                return _Refusal()
            oldest.force_close()
        return server()


class _Refusal(asyncio.Protocol):
    """Closes a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _server_log() -> logging.Logger:
    """Where it writes its troubles: not for what somebody sends that is no HTTP, which is answered with 400 and no
    more."""
    log = logging.getLogger("recompact.http")
    if not log.filters:
        log.addFilter(_is_our_trouble)
    return log


def _is_our_trouble(record: logging.LogRecord) -> bool:
    from aiohttp.http_exceptions import HttpProcessingError
    from aiohttp.web import RequestPayloadError

    trouble = record.exc_info[1] if isinstance(record.exc_info, tuple) else record.exc_info
    return not isinstance(trouble, HttpProcessingError | RequestPayloadError)
