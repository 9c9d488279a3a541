"""The client for OpenAI and every server that speaks like it: Chat Completions and Responses.

A request is sent exactly once and gives a reply or one of the failures of `recompact.models.failures`; whoever wraps
this waits and tries again. The key comes from the environment and stays inside. What a server answers is taken only
from where it was asked, and only up to a size, unpacked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2

from recompact.errors import InputError
from recompact.models import failures, text_calls
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ModelFailure, ServerError, explain, retry_after, shorten
from recompact.models.openai_wire import chat_body, count_of, read_chat, read_responses, responses_body
from recompact.models.secrets import reply_scrubber, scrubber, secrets_in
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage

if TYPE_CHECKING:
    from openai import APIStatusError

PATHS = {"chat": "/chat/completions", "responses": "/responses"}
CONNECT_SECONDS = 15.0


class OpenAIModel:
    """A `ChatModel` behind an OpenAI-compatible server.

    Chat Completions takes all of `Decoding`. Responses has neither `seed` nor `stop`, so with `api = "responses"` runs
    differ only by chance, and a text call's invented result is cut off here instead of by the server. Nothing is
    stored at the provider, so the hidden reasoning of earlier turns is not sent again.
    One instance belongs to one event loop; `aclose` it there.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        endpoint.check()
        self.endpoint = endpoint
        self._client: Any = None
        key = os.environ.get(endpoint.key_env, "").strip()
        self._has_key = bool(key)
        if not key and not endpoint.loopback:
            raise InputError(
                f"model {endpoint.id} needs a key for {endpoint.host}: set the variable {endpoint.key_env}."
            )
        if not (key.isascii() and key.isprintable()):
            # the HTTP library would quote it in its complaint
            raise InputError(f"the key in {endpoint.key_env} has characters that no key has: copy it again.")
        # closures, so that no attribute and no repr holds the key
        secrets = (key, *secrets_in(endpoint.extra_body))
        self._scrub: Callable[[str], str] = scrubber(*secrets)
        self._scrub_reply: Callable[[str], str] = reply_scrubber(*secrets)
        self._connect: Callable[[], Any] = lambda: self._connect_with(key or "none")

    @property
    def name(self) -> str:
        return self.endpoint.id

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def reply(self, request: Request) -> Reply:
        endpoint = self.endpoint
        as_text = endpoint.calls != "native"
        sent = text_calls.plain(request, force_schema=endpoint.calls == "schema") if as_text else request
        answer = await self._attempt(self._body(sent))
        reply = self._read(answer, len(request.messages)) if isinstance(answer, str) else answer
        if isinstance(reply, ModelFailure):
            raise reply  # outside of any except block: what it was made from holds the headers
        message, model = reply.message, self._scrub_reply(str(reply.model or endpoint.id))
        clean = _without_keys(message, self._scrub_reply)
        notes = (ECHO,) if clean != message or model != str(reply.model or endpoint.id) else ()
        if as_text and request.tools and not clean.calls:
            clean = text_calls.parse(clean.content, len(request.messages), request.tools)
        return Reply(clean, reply.usage, reply.finish, model, notes)

    # -- what depends on the API: its library, its path, its bodies and its replies

    _error = "OpenAIError"  # base class of the library's errors
    _models_path = "/models"

    def _library(self) -> Any:
        import openai

        return openai

    def _connect_with(self, key: str) -> Any:
        openai = self._library()
        http, timeout = http_client(openai, self.endpoint)
        url = self.endpoint.url
        return openai.AsyncOpenAI(api_key=key, base_url=url, timeout=timeout, max_retries=0, http_client=http)

    @property
    def _path(self) -> str:
        return PATHS[self.endpoint.api]

    def _body(self, request: Request) -> dict[str, Any]:
        return (chat_body if self.endpoint.api == "chat" else responses_body)(self.endpoint, request)

    def _parse_reply(self, data: Any, index: int) -> Reply:
        return (read_chat if self.endpoint.api == "chat" else read_responses)(data, index)

    def _place(self, body: Mapping[str, Any]) -> str:
        compacts = self.endpoint.api == "responses" and "store" not in body
        return f"{self._path}/compact" if compacts else self._path

    def _options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What else the library sends with this body."""
        return {}

    # -- one attempt

    async def _attempt(self, body: Mapping[str, Any]) -> str | ModelFailure:
        library = self._library()
        endpoint = self.endpoint
        at = f"{endpoint.id} at {endpoint.host}"
        try:
            client = self._client = self._client or self._connect()
            # the client's own timeout is per read, which a server that trickles never reaches
            async with asyncio.timeout(endpoint.timeout):
                text: str = await client.post(self._place(body), cast_to=str, body=body, options=self._options(body))
                return text
        except library.APIStatusError as error:
            return await self._refusal(error)
        except (TimeoutError, library.APITimeoutError) as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                text = f"no connection to {at} within {CONNECT_SECONDS:g} seconds: is the address right?"
                return self._failure(failures.Unreachable, text)
            text = f"{at} did not answer within {endpoint.timeout:g} seconds: raise timeout, or ask for less at a time."
            return self._failure(failures.TimedOut, text)
        except library.APIConnectionError as error:
            if isinstance(error.__cause__, UnusableAnswer | RefusedRedirect):
                return self._refuse(error.__cause__)
            if type(error.__cause__).__name__ == "TooManyRedirects":
                return self._refuse(RefusedRedirect("redirects requests in a circle"))
            cut = type(error.__cause__).__name__ not in ("ConnectError", "UnsupportedProtocol")
            what = "the connection was cut by" if cut else "no connection to"
            text = f"{what} {at} ({error.__cause__ or error}): is the server running, and base_url right?"
            failure = self._failure(failures.Unreachable, text)
            failure.paid = cut
            return failure
        except (UnusableAnswer, RefusedRedirect) as error:
            return self._refuse(error)
        except (getattr(library, self._error), TypeError, ValueError) as error:
            return self._failure(failures.BadRequest, f"the request to {at} could not be made: {error}")

    def _refuse(self, error: UnusableAnswer | RefusedRedirect) -> ModelFailure:
        """What becomes of an answer that was not taken."""
        at = f"{self.endpoint.id} at {self.endpoint.host}"
        if isinstance(error, UnusableAnswer):
            text = f"the answer of {at} cannot be read: {error}; if that recurs, check base_url."
            return self._failure(failures.MalformedReply, text)
        return self._failure(failures.BadRequest, f"{at} {error}: is base_url right?")

    async def _refusal(self, error: APIStatusError) -> ModelFailure:
        """The failure that an HTTP status and its body mean."""
        wait = retry_after(error.response.headers)
        server_error = ServerError.read(error.response.text, self._scrub)
        status = error.status_code
        if server_error.names_model(status):
            return self._unknown(await self._offered_models())
        if status == 404:
            # a wrong model and a wrong path look alike; the list of models tells which
            offered = await self._offered_models()
            if offered and self.endpoint.id not in offered:
                return self._unknown(offered)
            hint = "it may have the other api only." if offered else "is /v1 missing at the end of base_url?"
            failure = self._failure(
                failures.BadRequest, f"{self.endpoint.host} has no {self._path} below base_url (404): {hint}"
            )
            failure.ends_run = not offered  # with no list of models either, every other call would fail alike
            return failure
        failure = self._failure(*explain(self.endpoint, status, server_error, self._has_key), wait)
        failure.paid = failure.paid or status in _GAVE_UP
        return self._with_cost(failure, _json(error.response.text))

    def _unknown(self, offered: tuple[str, ...]) -> ModelFailure:
        listed = ", ".join(offered[:12]) + (", …" if len(offered) > 12 else "")
        hint = f"it offers {listed}." if offered else "check the name."
        text = f"{self.endpoint.host} has no model {self.endpoint.id}: {hint}"
        return self._failure(failures.UnknownModel, text)

    async def _offered_models(self) -> tuple[str, ...]:
        """What the server lists, if it does so quickly; only ever asked to make an error text helpful."""
        if self._client is None:
            return ()
        try:
            async with asyncio.timeout(2):
                data = json.loads(await self._client.get(self._models_path, cast_to=str))
            return tuple(str(entry["id"]) for entry in data["data"])
        except Exception:
            return ()

    def _read(self, answer: str, index: int) -> Reply | ModelFailure:
        at = f"{self.endpoint.id} at {self.endpoint.host}"
        try:
            data = json.loads(answer)
        except (ValueError, RecursionError):
            began = shorten(answer, 120, self._scrub)
            if answer.lstrip()[:1] == "<":
                text = (
                    f"{at} answered with a web page in place of JSON: is /v1 missing at the end of base_url? It says:"
                )
                return self._failure(failures.WebPage, f"{text} {began}")
            text = f"the answer of {at} is not JSON; if that recurs, check base_url: {began}"
            return self._failure(failures.MalformedReply, text)
        server_error = ServerError.read(data, self._scrub)
        if server_error.status:  # some servers answer 200 and put the error inside
            failure = self._failure(*explain(self.endpoint, server_error.status, server_error, self._has_key))
            return self._with_cost(failure, data)
        try:
            return self._parse_reply(data, index)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
            began = shorten(answer, 120, self._scrub)
            text = f"the answer of {at} holds no reply; if that recurs, check base_url and api: {began}"
            failure = self._failure(failures.MalformedReply, text)
            failure.usage = self._usage_in(data)
            return failure

    def _with_cost(self, failure: ModelFailure, data: Any) -> ModelFailure:
        """A failure with what the server says that it cost."""
        usage = self._usage_in(data)
        if usage.total:
            failure.paid, failure.usage = True, usage
        return failure

    def _usage_in(self, data: Any) -> Usage:
        """What a server says that an answer cost which is no reply: each API has the same names for it everywhere."""
        counts = data.get("usage") if isinstance(data, dict) else None
        names = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
        tokens_in, tokens_out = (max(count_of(counts, name) for name in each) for each in names)
        return Usage(tokens_in, tokens_out, calls=1) if tokens_in >= 0 and tokens_out >= 0 else Usage()

    def _failure(self, kind: type[ModelFailure], text: str, wait: float | None = None) -> ModelFailure:
        return kind(self._scrub(text), wait)


_GAVE_UP = (504, 524)  # what stands before a server and did not wait for it, while it may go on


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


ECHO = "it had the key of its server in it, which was taken out"


def _without_keys(message: Message, scrub: Callable[[str], str]) -> Message:
    """A message without the keys that a server has put into it."""
    if scrub is str:
        return message
    calls = tuple(
        ToolCall(*(scrub(part) if isinstance(part, str) else part for part in (call.id, call.name, arguments)))
        for call in message.calls
        for arguments in (_readable_without_keys(call.arguments, scrub),)
    )
    thoughts = message.thoughts if scrub(message.thoughts) == message.thoughts else ""  # half of them nobody accepts
    return Message(message.role, scrub(message.content), calls, message.call_id, thoughts)


def _readable_without_keys(arguments: Any, scrub: Callable[[str], str]) -> Any:
    """Arguments in which whoever reads them finds no key: escapes of JSON may hide one until then."""
    data = _json(arguments) if isinstance(arguments, str) and "\\" in arguments else None
    if data is None:
        return arguments
    try:
        plain = json.dumps(data, ensure_ascii=False)
    except RecursionError:
        return arguments
    clean = scrub(plain)
    return clean if clean != plain else arguments


def http_client(library: Any, endpoint: Endpoint) -> tuple[Any, Any]:
    """The connections of a client, and its timeout; the official libraries are alike in this."""
    for name in ("httpcore2", "httpcore"):  # at DEBUG it logs headers, and a server may send ours back
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.INFO))
    limits = type(library.DEFAULT_CONNECTION_LIMITS)(
        max_connections=None,  # how many calls run at a time is decided outside
        max_keepalive_connections=512,
        keepalive_expiry=30.0,
    )
    timeout = library.Timeout(endpoint.timeout, connect=min(CONNECT_SECONDS, endpoint.timeout), pool=None)
    # a proxy from the environment cannot reach this machine's own loopback
    trust = not endpoint.loopback
    hooks = {"request": [partial(_stay_at, httpx2.URL(endpoint.url))], "response": [guard]}
    client = library.DefaultAsyncHttpxClient(limits=limits, timeout=timeout, trust_env=trust, event_hooks=hooks)
    return client, timeout


MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, unpacked. The longest reply that is kept has a hundredth of it."""

_PART = 1 << 20


class UnusableAnswer(Exception):
    """An answer that goes on beyond its limit, or is not packed as it says."""


class RefusedRedirect(Exception):
    """A server that sends the request, and with it the prompt, to another one, nowhere, or round in circles."""


async def guard(response: httpx2.Response) -> None:
    """To be called with every response before its body is read or a redirect is followed."""
    if response.is_redirect and "location" in response.headers:
        try:
            target = response.url.join(response.headers["location"])
        except (httpx2.InvalidURL, ValueError):
            raise RefusedRedirect("sends requests on to something that is not an address") from None
        if _origin(target) != _origin(response.url):
            raise RefusedRedirect(
                f"sends requests on to {target.host}:{target.port or target.scheme}, which is refused"
            )
    response.stream = _Bounded(response.stream, response.headers.pop("content-encoding", ""))


async def _stay_at(base: httpx2.URL, request: httpx2.Request) -> None:
    """To be called with every request before it is sent: not all that the library makes of an address where a server
    says to go on is what `guard` made of it."""
    if _origin(request.url) != _origin(base):
        raise RefusedRedirect(f"sends requests on to port {request.url.port or request.url.scheme}, which is refused")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


class _Bounded(httpx2.AsyncByteStream):
    """A body, unpacked part by part, so that no part becomes larger than the limit."""

    def __init__(self, stream: Any, coding: str) -> None:
        self._stream, self._coding = stream, coding.strip().lower()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for part in self._unpack():
            total += len(part)
            if total > MOST_BYTES:
                raise UnusableAnswer(f"it has more than {MOST_BYTES:,} bytes")
            yield part

    async def _unpack(self) -> AsyncIterator[bytes]:
        if self._coding in ("", "identity"):
            async for part in self._stream:
                yield part
            return
        if self._coding not in ("gzip", "x-gzip", "deflate"):
            raise UnusableAnswer(f"it is packed as {self._coding[:40]!r}, so that its size is not known")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        async for part in self._stream:
            while part and not unpacker.eof:
                try:
                    yield unpacker.decompress(part, _PART)
                except zlib.error as error:
                    raise UnusableAnswer(f"it is not packed as {self._coding}, as it says ({error})") from None
                part = unpacker.unconsumed_tail

    async def aclose(self) -> None:
        await self._stream.aclose()
