"""The official OpenAI client without a network: what it would send is answered in this process.

Its transport reads and writes the same wire formats as the gateway does over HTTP, so that everything built on the
client works with it: streams, the asynchronous client, and libraries that take an `httpx` client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx2

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
        return httpx2.Client(transport=_Transport(self._answer), timeout=None)

    @cached_property
    def async_http_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=_AsyncTransport(self._answer), timeout=None)

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


class _Transport(httpx2.BaseTransport):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        call = _ClientRequest(request, request.read())
        if call.request is None:
            return call.refused(call.problem)
        try:
            return call.answered(self._answer(call.request, call.headers).result())
        except RecompactError as failure:
            return call.failed(failure)


class _AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        call = _ClientRequest(request, await request.aread())
        if call.request is None:
            return call.refused(call.problem)
        try:
            return call.answered(await asyncio.wrap_future(self._answer(call.request, call.headers)))
        except RecompactError as failure:
            return call.failed(failure)


class _ClientRequest:
    """A request as the client wrote it, and how it is answered."""

    def __init__(self, http: httpx2.Request, content: bytes) -> None:
        self._http = http
        self._form: WireFormat | None = format_of(http.url.path) if http.method == "POST" else None
        self._body: dict[str, Any] = {}
        self.headers = {name.lower(): value for name, value in http.headers.items()}
        self.request: Request | None = None
        self.problem = f"there is no {http.method} {http.url.path}"
        if self._form is None:
            return
        try:
            self._body = json.loads(content)
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
