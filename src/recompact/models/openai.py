"""The client for OpenAI and every server that speaks like it: Chat Completions and Responses.

In goes a request, out comes the reply to exactly one attempt, or one of the failures of `recompact.models.failures`;
waiting and trying again is the business of whoever wraps this. The key comes from the environment and stays inside.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

from recompact.chat import Decoding, Finish, Message, Reply, Request, ToolCall, Usage
from recompact.errors import InputError
from recompact.models import failures, text_calls
from recompact.models.failures import ModelFailure

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

PATHS = {"chat": "/chat/completions", "responses": "/responses"}
CONNECT_SECONDS = 15.0


@dataclass(frozen=True)
class Endpoint:
    """Which model, where, and what has to be known about its server."""

    model: str
    base_url: str | None = None  # None: OPENAI_BASE_URL, else OpenAI itself
    api: Literal["chat", "responses"] = "chat"
    key_env: str = "OPENAI_API_KEY"
    calls: Literal["native", "json", "schema"] = "native"
    timeout: float = 600.0  # seconds for the whole attempt
    send_seed: bool = True
    merge_roles: bool = False  # for servers whose chat template wants user and assistant to alternate
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    @property
    def host(self) -> str:
        """host:port, which is all of the address that texts show."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    @property
    def loopback(self) -> bool:
        name = urlsplit(self.url).hostname or ""
        try:
            return name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    @property
    def tokens_field(self) -> str:
        """OpenAI's newer models refuse max_tokens; many other servers know nothing else."""
        if self.max_tokens_field != "auto":
            return self.max_tokens_field
        hosted = (urlsplit(self.url).hostname or "").endswith((".openai.com", ".openai.azure.com"))
        return "max_completion_tokens" if hosted else "max_tokens"

    def check(self) -> None:
        try:
            parts = urlsplit(self.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise InputError(f"base_url of model {self.model} must be like https://host:port/v1")
        if "@" in parts.netloc:
            raise InputError(
                f"base_url of model {self.model} contains a user or password: put the key into {self.key_env} instead."
            )


class OpenAIModel:
    """A `ChatModel` behind an OpenAI-compatible server.

    Chat Completions takes all of `Decoding`. Responses has neither `seed` nor `stop`, so with `api = "responses"` runs
    differ by chance only, and a text call's invented result is cut off here instead of by the server. Nothing is
    stored at the provider, so the hidden reasoning of earlier turns is not sent again.
    One instance belongs to one event loop; `aclose` it there.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        endpoint.check()
        self.endpoint = endpoint
        self._client: AsyncOpenAI | None = None
        key = os.environ.get(endpoint.key_env, "").strip()
        self._has_key = bool(key)
        if not key and not endpoint.loopback:
            raise InputError(
                f"model {endpoint.model} needs a key for {endpoint.host}: set the variable {endpoint.key_env}."
            )
        if not (key.isascii() and key.isprintable()):
            # the HTTP library would quote it in its complaint
            raise InputError(f"the key in {endpoint.key_env} holds characters that no key has: copy it there again.")
        # closures, so that no attribute and no repr holds the key
        self._scrub: Callable[[str], str] = scrubber(key)
        self._connect: Callable[[], AsyncOpenAI] = lambda: _connect(endpoint, key or "none")

    @property
    def name(self) -> str:
        return self.endpoint.model

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def reply(self, request: Request) -> Reply:
        endpoint = self.endpoint
        as_text = endpoint.calls != "native"
        sent = text_calls.plain(request, force_schema=endpoint.calls == "schema") if as_text else request
        body = chat_body(endpoint, sent) if endpoint.api == "chat" else responses_body(endpoint, sent)
        answer = await self._attempt(body)
        reply = self._read(answer, len(request.messages)) if isinstance(answer, str) else answer
        if isinstance(reply, ModelFailure):
            raise reply  # outside of any except block: what it was made from holds the headers
        message = reply.message
        if as_text and request.tools and not message.calls:
            message = text_calls.parse(message.content, len(request.messages), request.tools)
        return Reply(message, reply.usage, reply.finish, reply.model or endpoint.model)

    async def _attempt(self, body: Mapping[str, Any]) -> str | ModelFailure:
        import openai

        endpoint = self.endpoint
        at = f"{endpoint.model} at {endpoint.host}"
        try:
            client = self._client = self._client or self._connect()
            # the client's own timeout is per read, which a server that trickles never reaches
            async with asyncio.timeout(endpoint.timeout):
                return await client.post(PATHS[endpoint.api], cast_to=str, body=body)
        except openai.APIStatusError as error:
            return await self._refusal(error)
        except (TimeoutError, openai.APITimeoutError) as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                text = f"no connection to {at} within {CONNECT_SECONDS:g} seconds: is the address right?"
                return self._failure(failures.Unreachable, text)
            text = f"{at} did not answer within {endpoint.timeout:g} seconds: raise timeout, or ask for less at a time."
            return self._failure(failures.TimedOut, text)
        except openai.APIConnectionError as error:
            cut = type(error.__cause__).__name__ not in ("ConnectError", "UnsupportedProtocol")
            what = "the connection was cut by" if cut else "no connection to"
            text = f"{what} {at} ({error.__cause__ or error}): is the server running, and base_url right?"
            return self._failure(failures.Unreachable, text)
        except (openai.OpenAIError, TypeError, ValueError) as error:
            return self._failure(failures.BadRequest, f"the request to {at} could not be made: {error}")

    async def _refusal(self, error: APIStatusError) -> ModelFailure:
        """The failure that an HTTP status and its body mean."""
        wait = retry_after(error.response.headers)
        said = ServerError.read(error.response.text)
        status = error.status_code
        if said.names_model(status):
            return self._unknown(await self._offered())
        if status == 404:
            # a wrong model and a wrong path look alike; the list of models tells them apart
            offered = await self._offered()
            if offered and self.endpoint.model not in offered:
                return self._unknown(offered)
            hint = "it may have the other api only." if offered else "base_url mostly ends in /v1."
            text = f"{self.endpoint.host} has no {PATHS[self.endpoint.api]} below base_url (404): {hint}"
            return self._failure(failures.BadRequest, text)
        return self._failure(*explain(self.endpoint, status, said, self._has_key), wait)

    def _unknown(self, offered: tuple[str, ...]) -> ModelFailure:
        listed = ", ".join(offered[:12]) + (", …" if len(offered) > 12 else "")
        hint = f"it offers {listed}." if offered else "check the name."
        text = f"{self.endpoint.host} has no model {self.endpoint.model}: {hint}"
        return self._failure(failures.UnknownModel, text)

    async def _offered(self) -> tuple[str, ...]:
        """What the server lists, if it does so quickly; only ever asked to make an error text helpful."""
        if self._client is None:
            return ()
        try:
            async with asyncio.timeout(2):
                data = json.loads(await self._client.get("/models", cast_to=str))
            return tuple(str(entry["id"]) for entry in data["data"])
        except Exception:
            return ()

    def _read(self, answer: str, index: int) -> Reply | ModelFailure:
        at = f"{self.endpoint.model} at {self.endpoint.host}"
        try:
            data = json.loads(answer)
        except ValueError:
            text = f"the answer of {at} is not JSON; if that goes on, check base_url: {_short(answer, 120)}"
            return self._failure(failures.MalformedReply, text)
        said = ServerError.read(data)
        if said.status:  # some servers answer 200 and put the error inside
            return self._failure(*explain(self.endpoint, said.status, said, self._has_key))
        try:
            return read_chat(data, index) if self.endpoint.api == "chat" else read_responses(data, index)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            text = f"the answer of {at} holds no reply; if that goes on, check base_url and api: {_short(answer, 120)}"
            return self._failure(failures.MalformedReply, text)

    def _failure(self, kind: type[ModelFailure], text: str, wait: float | None = None) -> ModelFailure:
        return kind(self._scrub(text), wait)


def _connect(endpoint: Endpoint, key: str) -> AsyncOpenAI:
    import openai

    for library in ("httpcore2", "httpcore"):  # at DEBUG it logs headers, and a server may send ours back
        logger = logging.getLogger(library)
        logger.setLevel(max(logger.level, logging.INFO))
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=None,  # how many calls run at a time is decided outside
        max_keepalive_connections=512,
        keepalive_expiry=30.0,
    )
    timeout = openai.Timeout(endpoint.timeout, connect=min(CONNECT_SECONDS, endpoint.timeout), pool=None)
    # a proxy from the environment has no way to this machine's own loopback
    http = openai.DefaultAsyncHttpxClient(limits=limits, timeout=timeout, trust_env=not endpoint.loopback)
    return openai.AsyncOpenAI(api_key=key, base_url=endpoint.url, timeout=timeout, max_retries=0, http_client=http)


def scrubber(key: str) -> Callable[[str], str]:
    """Takes the key, and whatever else looks like one, out of a text."""
    forms = {key, quote(key, safe=""), json.dumps(key)[1:-1]} if len(key) >= 4 else set()
    pattern = re.compile("|".join([*map(re.escape, sorted(forms, key=len, reverse=True)), r"\bsk-[\w*.-]{4,}"]))
    return lambda text: pattern.sub("[key]", text)


# ---- what a server's error means


@dataclass(frozen=True)
class ServerError:
    """An error body, whoever wrote it. `status` is what the body itself claims: 0 if it is no error at all."""

    code: str = ""
    message: str = ""
    status: int = 0

    @staticmethod
    def read(body: Any) -> ServerError:
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except ValueError:
                return ServerError(message=_short(body))
        if not isinstance(body, dict):
            return ServerError()
        error = body.get("error") or (body if body.get("object") == "error" or "detail" in body else None)
        if not error:
            return ServerError()
        if not isinstance(error, dict):
            return ServerError(message=_short(str(error)), status=500)
        code, kind = error.get("code"), error.get("type")
        named = {"rate_limit_exceeded": 429, "server_error": 500}.get(str(code), 400)
        status = code if isinstance(code, int) and 400 <= code < 600 else named
        words = " ".join(str(value) for value in (code, kind) if value)
        return ServerError(words, _short(str(error.get("message") or error.get("detail") or "")), status)

    def names_model(self, status: int) -> bool:
        """Whether it is the model that is missing."""
        return "model_not_found" in self.code or (status in (400, 404) and bool(_NO_MODEL.search(self.message)))


_NO_MODEL = re.compile(r"\bmodel\b.{0,120}(does not exist|not found)|invalid model (id|name)", re.I)
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|(maximum|max) (context|model) length"
    r"|exceed\w*\b.{0,40}context (size|length|window)|context (size|length|window)\b.{0,20}exceeded"
    r"|(prompt|input)( is)? too long|too long to fit|longer than the (model|maximum)|context the overflows"
    r"|input token count.{0,40}exceed|max_new_tokens. must be",
    re.I,
)
_POLICY = re.compile(r"content.(filter|policy|management)|policy_violation|usage polic|invalid_prompt|flagged", re.I)


def explain(endpoint: Endpoint, status: int, said: ServerError, has_key: bool) -> tuple[type[ModelFailure], str]:
    """Class and text of the failure that an error status and its body mean."""
    at = f"{endpoint.model} at {endpoint.host}"
    quoted = f" It says: {said.message}" if said.message else ""
    words = f"{said.code} {said.message}"
    if "insufficient_quota" in said.code or status == 402:
        return failures.BadRequest, f"quota exhausted: {at} answers again when the account has credit.{quoted}"
    if status == 429 and "request too large" in said.message.lower():
        return failures.BadRequest, f"one request is more than {at} allows per minute: use a smaller budget.{quoted}"
    if status == 429:
        return failures.RateLimited, f"{at} limits the rate of requests (429): ask for less at a time.{quoted}"
    if status == 401:  # without what the server says, which quotes the key or a part of it
        held = f"does not accept the key in {endpoint.key_env}" if has_key else f"wants a key: set {endpoint.key_env}"
        return failures.AuthenticationFailed, f"{at} {held} (401)."
    if _OVERFLOW.search(words):
        fix = "use a smaller budget, or a server with a larger window."
        return failures.ContextOverflow, f"the request is longer than the window of {at}: {fix}{quoted}"
    if status >= 500:
        return failures.Overloaded, f"{at} cannot serve now ({status}): try again later.{quoted}"
    if status == 408:
        return failures.TimedOut, f"{at} gave up waiting (408): try again later.{quoted}"
    if _POLICY.search(words):
        return failures.Refused, f"the provider's policy refuses this request to {at}: leave the task out.{quoted}"
    if status == 403:
        return failures.AuthenticationFailed, f"the key in {endpoint.key_env} may not use {at} (403).{quoted}"
    return failures.BadRequest, f"{at} does not take this request ({status}): change the setting it names.{quoted}"


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); None where it says nothing."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _short(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


# ---- the two wire formats


def chat_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    schema = decoding.response_schema
    messages = _merged(request.messages) if endpoint.merge_roles else request.messages
    body = {
        "model": endpoint.model,
        "messages": [_chat_message(message) for message in messages],
        "tools": [{"type": "function", "function": tool.to_json()} for tool in request.tools] or None,
        endpoint.tokens_field: decoding.max_output_tokens,
        "reasoning_effort": decoding.reasoning_effort,
        "seed": decoding.seed if endpoint.send_seed else None,
        "stop": list(decoding.stop) or None,
        "response_format": {"type": "json_schema", "json_schema": _format(schema)} if schema else None,
    }
    return _given(body, decoding, endpoint)


def _given(body: dict[str, Any], decoding: Decoding, endpoint: Endpoint) -> dict[str, Any]:
    body |= {"temperature": decoding.temperature, "top_p": decoding.top_p}
    return {key: value for key, value in body.items() if value is not None} | dict(endpoint.extra_body)


def _chat_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if not message.calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
        for call in message.calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


def _arguments(call: ToolCall) -> str:
    """Several servers parse the arguments of past calls and reject the whole request if one is malformed."""
    try:
        call.parsed()
    except ValueError:
        return json.dumps({"malformed": call.arguments}, ensure_ascii=False)
    return call.arguments or "{}"


def _merged(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    merged: list[Message] = []
    for message in messages:
        if merged and message.role == "user" == merged[-1].role:
            merged[-1] = Message("user", f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(message)
    return tuple(merged)


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`strict` only where the schema obeys OpenAI's rules for it, since otherwise the request is refused."""
    strict = schema.get("type") == "object" and _strict(schema)
    return {"name": "reply", "schema": dict(schema), "strict": strict}


def _strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or set(schema.get("properties", ())) != set(schema.get("required", ()))
    ):
        return False
    return all(_strict(value) for value in schema.values())


def responses_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    decoding = request.decoding
    schema = decoding.response_schema
    messages = _merged(request.messages) if endpoint.merge_roles else request.messages
    body = {
        "model": endpoint.model,
        "input": [item for message in messages for item in _items(message)],
        # strict defaults to true here, which would rewrite the schemas of the tools
        "tools": [{"type": "function", **tool.to_json(), "strict": False} for tool in request.tools] or None,
        "store": False,
        "max_output_tokens": decoding.max_output_tokens,
        "reasoning": {"effort": decoding.reasoning_effort} if decoding.reasoning_effort else None,
        "text": {"format": {"type": "json_schema", **_format(schema)}} if schema else None,
    }
    return _given(body, decoding, endpoint)


def _items(message: Message) -> list[dict[str, Any]]:
    """The input items of one message. The system prompt keeps its role: both names of it are taken, by all servers."""
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.call_id, "output": message.content}]
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": _arguments(call)}
        for call in message.calls
    ]
    said = [{"type": "message", "role": message.role, "content": message.content}]
    return said + calls if message.content or not calls else calls


def read_chat(data: Any, index: int) -> Reply:
    choice = data["choices"][0]
    message = choice["message"]
    calls = tuple(
        _call(call.get("id"), call["function"], index, n) for n, call in enumerate(message.get("tool_calls") or ())
    )
    refusal = message.get("refusal")
    ends: dict[Any, Finish] = {"length": "length", "content_filter": "refusal"}
    finish = "refusal" if refusal else ends.get(choice.get("finish_reason"), "stop")
    said = Message("assistant", _clean(message.get("content") or refusal or ""), calls)
    return Reply(said, _usage(data.get("usage"), "prompt", "completion"), finish, data.get("model") or "")


def read_responses(data: Any, index: int) -> Reply:
    reason = (data.get("incomplete_details") or {}).get("reason")
    finish: Finish = "stop"
    if data.get("status") == "incomplete":
        finish = "refusal" if reason == "content_filter" else "length"
    texts: list[str] = []
    calls: list[ToolCall] = []
    for item in data["output"]:
        if item["type"] == "function_call":
            calls.append(_call(item.get("call_id"), item, index, len(calls)))
        elif item["type"] == "message":
            parts = item["content"]
            texts.append(_clean(parts))
            if any(part["type"] == "refusal" for part in parts):
                finish = "refusal"
    if not data["output"] and finish == "stop":
        raise ValueError("no output")
    usage = _usage(data.get("usage"), "input", "output")
    return Reply(Message("assistant", "\n".join(texts), tuple(calls)), usage, finish, data.get("model") or "")


def _call(call_id: str | None, function: Mapping[str, Any], index: int, n: int) -> ToolCall:
    arguments = function.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id or f"call_{index}_{n}", str(function["name"]), _clean(text))


def _clean(content: Any) -> str:
    """Content as one text, whether it came as a text or as parts, without halves of characters (nobody takes those)."""
    if isinstance(content, list):
        content = "".join(part.get("text") or part.get("refusal") or "" for part in content)
    return str(content).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _usage(usage: Any, input_name: str, output_name: str) -> Usage:
    usage = usage or {}
    read = usage.get(f"{input_name}_tokens_details") or {}
    written = usage.get(f"{output_name}_tokens_details") or {}
    return Usage(
        input=usage.get(f"{input_name}_tokens") or 0,
        output=usage.get(f"{output_name}_tokens") or 0,
        cached=read.get("cached_tokens") or 0,
        reasoning=written.get("reasoning_tokens") or 0,
        calls=1,
    )
