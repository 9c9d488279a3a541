"""Agents in this process: the official OpenAI client without a network, and functions that get one.

The transport of the client reads and writes the same wire formats as the gateway does over HTTP, so that everything
built on the client works with it: streams, the asynchronous client, and libraries that take an `httpx` client. A
function runs in a thread with the rights of its caller. A thread cannot be killed: at the end of an episode its next
call raises `LoopEnded`, and a function that makes none keeps running.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from recompact.agents.process import AgentDirectories
from recompact.agents.server import USAGE, AgentCallbacks, Exchange
from recompact.agents.settings import KEY, MODEL
from recompact.agents.wire.formats import WireFormat, format_of, status_of
from recompact.errors import RecompactError
from recompact.values.chat import Reply, Request

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from openai.resources.chat import Chat
    from openai.resources.responses import Responses


BASE_URL = "http://recompact.invalid/v1"
"""An address that leads nowhere: a client that does not use our transport fails at once."""

_FREE = (None, "auto", {"type": "auto"})

Answer = Callable[[Request, Mapping[str, str]], "Future[Reply]"]
"""Answers a request with its headers, from any thread."""


class InProcessClient:
    """`chat` and `responses` are those of the official client, and `asynchronous` is its asynchronous twin. Libraries
    that build their own client get `base_url`, `api_key` and `http_client` or `async_http_client`."""

    base_url = BASE_URL
    api_key = KEY

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @cached_property
    def http_client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._respond), timeout=None)

    @cached_property
    def async_http_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._respond_later), timeout=None)

    @cached_property
    def synchronous(self) -> OpenAI:
        """The official client; failures are retried behind it already."""
        from openai import OpenAI

        return OpenAI(base_url=BASE_URL, api_key=KEY, http_client=self.http_client, max_retries=0)

    @cached_property
    def asynchronous(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=BASE_URL, api_key=KEY, http_client=self.async_http_client, max_retries=0)

    @property
    def chat(self) -> Chat:
        return self.synchronous.chat

    @property
    def responses(self) -> Responses:
        return self.synchronous.responses

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        call = _ClientRequest(request)
        if call.request is None:
            return call.refused(call.problem)
        try:
            return call.answered(self._answer(call.request, call.headers).result())
        except RecompactError as failure:
            return call.failed(failure)

    async def _respond_later(self, request: httpx2.Request) -> httpx2.Response:
        call = _ClientRequest(request)
        if call.request is None:
            return call.refused(call.problem)
        try:
            return call.answered(await asyncio.wrap_future(self._answer(call.request, call.headers)))
        except RecompactError as failure:
            return call.failed(failure)


class _ClientRequest:
    """A request as the client wrote it, and how it is answered."""

    def __init__(self, http: httpx2.Request) -> None:
        self._http = http
        self._form: WireFormat | None = format_of(http.url.path) if http.method == "POST" else None
        self._body: dict[str, Any] = {}
        self.headers = {name.lower(): value for name, value in http.headers.items()}
        self.request: Request | None = None
        self.problem = f"there is no {http.method} {http.url.path}"
        if self._form is None:
            return
        try:
            self._body = json.loads(http.content)
            self.request = self._form.read(self._body)
            self._check()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self.request, self.problem = None, f"the request is not understood: {error!r:.300}"

    def _check(self) -> None:
        """Refuse what would not be answered the way it asks for."""
        if self._body.get("n") not in (None, 1):
            raise ValueError(f"n = {self._body['n']}: there is one answer to a request")
        if (choice := self._body.get("tool_choice")) not in _FREE:
            raise ValueError(f"tool_choice = {choice}: a model behind recompact.gateway chooses by itself")

    def answered(self, reply: Reply) -> httpx2.Response:
        assert self._form is not None
        assert self.request is not None
        name = str(self._body.get("model") or MODEL)
        written = self._form.write(name, self.request, reply)
        if not self._body.get("stream"):
            return httpx2.Response(200, json=written, request=self._http)
        content = b"".join(self._form.stream(written, self._body))
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=content, request=self._http)

    def failed(self, failure: RecompactError) -> httpx2.Response:
        status, code = status_of(failure)
        return self._refusal(status, code, str(failure))

    def refused(self, text: str) -> httpx2.Response:
        return self._refusal(400 if self._form else 404, "invalid_request", text)

    def _refusal(self, status: int, code: str, text: str) -> httpx2.Response:
        error = {"message": text, "type": "invalid_request_error" if status < 429 else "server_error", "code": code}
        return httpx2.Response(status, json={"error": {**error, "param": None}}, request=self._http)


AgentFunction = Callable[[str, Path, InProcessClient], Awaitable[object] | object]
"""Gets the task's text, its workspace and a client; may be asynchronous. What it returns is ignored."""

_END = 10.0  # seconds for a function to notice that its episode is over

_log = logging.getLogger(__name__)


class LoopEnded(BaseException):
    """The episode is over, and nothing more is answered. No `except Exception` catches it, so that loops that
    retry end too."""


def name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


@dataclass(frozen=True)
class Function:
    """Starts a function in its own thread."""

    function: AgentFunction

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> FunctionAgent:
        return FunctionAgent(self.function, task, directories.workspace, callbacks)


class FunctionAgent:
    """A running function."""

    def __init__(self, function: AgentFunction, task: str, workspace: Path, callbacks: AgentCallbacks) -> None:
        self._function, self._callbacks = function, callbacks
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.last_line = ""
        client = InProcessClient(self._ask)
        self._thread = threading.Thread(target=self._run, args=(task, workspace, client), name="agent", daemon=True)
        self._thread.start()

    def excess(self) -> str:
        return ""

    def kill(self) -> None: ...

    async def end(self) -> None:
        self._closing.set()
        await asyncio.to_thread(self._thread.join, _END)
        if self._thread.is_alive():
            _log.warning("%s goes on in its thread although its episode is over", name_of(self._function))

    def _run(self, task: str, workspace: Path, client: InProcessClient) -> None:
        code = 0
        try:
            result = self._function(task, workspace, client)
            if inspect.isawaitable(result):
                asyncio.run(_await_result(result))
        except LoopEnded:
            pass
        except BaseException as error:
            code, self.last_line = 1, f"{type(error).__name__}: {error}"[:300]
        with contextlib.suppress(RuntimeError):  # the harness may be gone
            self._loop.call_soon_threadsafe(self._note_end, code)

    def _note_end(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)

    def _ask(self, request: Request, headers: Mapping[str, str]) -> Future[Reply]:
        return asyncio.run_coroutine_threadsafe(self._answer(request, headers), self._loop)

    async def _answer(self, request: Request, headers: Mapping[str, str]) -> Reply:
        if self._closing.is_set():
            raise LoopEnded
        exchange = self._callbacks.arrive(Exchange(request, headers))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((exchange.answer, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
        if not exchange.answer.done():
            raise LoopEnded
        return Reply(exchange.answer.result(), USAGE)


async def _await_result(result: Awaitable[object]) -> object:
    return await result
