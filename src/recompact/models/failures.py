"""The ways in which a call to a model fails, as classes that callers can distinguish, and what a server's error means:
from a status and a body of any kind to one of them.

A failure says whether trying again can help (`retryable`) and, where the server says, how long to wait; whether it is a
sign of an outage; and whether every other call would meet it too (`ends_run`). All others belong to the unit of work
that met them. Its text names the model and, where there is one, the way out; keys are taken out of it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from recompact.errors import RecompactError
from recompact.models.endpoint import Endpoint
from recompact.values.chat import Usage


class ModelFailure(RecompactError):
    """A call that brought no reply."""

    retryable = False
    outage = False  # such failures in a row, of different units, mean that the server is gone
    ends_run = False
    paid = False  # whether the server may have done the work, and charge for it
    kind = "failure"

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.usage = Usage()  # what the attempt cost, as far as that is known or can be estimated
        self.unit = ""  # the unit of work that met it


class RateLimited(ModelFailure):
    retryable = outage = True
    kind = "rate limit"


class Overloaded(ModelFailure):
    """The server is up but cannot serve now (5xx)."""

    retryable = outage = True
    kind = "overload"


class TimedOut(ModelFailure):
    retryable = outage = paid = True
    kind = "timeout"


class Unreachable(ModelFailure):
    """No connection, or one that was cut."""

    retryable = outage = True
    kind = "unreachable"


class MalformedReply(ModelFailure):
    """The server answered with something that is not a reply (broken JSON, no choices, no end)."""

    retryable = paid = True
    kind = "malformed reply"


class WebPage(MalformedReply):
    """The server answered with a page for people: mostly a wrong address, at times an outage."""


class ContextOverflow(ModelFailure):
    """The request is longer than the model's window: the same request will fail again."""

    kind = "context overflow"


class Refused(ModelFailure):
    """The provider's policy refused the request itself (a refusal in words is an ordinary reply)."""

    kind = "refusal"


class AuthenticationFailed(ModelFailure):
    ends_run = True
    kind = "authentication"


class QuotaExhausted(ModelFailure):
    """The account has no credit left, which affects every call."""

    ends_run = True
    kind = "quota"


class UnknownModel(ModelFailure):
    ends_run = True
    kind = "unknown model"


class BadRequest(ModelFailure):
    """The server understood and said no: a parameter that this model does not take, for example."""

    kind = "bad request"


class CeilingReached(ModelFailure):
    """The run has spent what it was allowed to. Nothing is lost: it resumes when the ceiling is raised."""

    ends_run = True
    kind = "ceiling"


class BrokenModel(ModelFailure):
    """A model of the user's own raised something other than these failures."""

    kind = "broken model"


class SetAside(ModelFailure):
    """A unit that cannot be finished: played again, it would fail the same way. The run remembers it."""

    kind = "set aside"


class UnreadableReply(SetAside):
    """A journaled reply that cannot be read. `ordinal` is its place among the calls of its unit."""

    def __init__(self, text: str, ordinal: int) -> None:
        super().__init__(text)
        self.ordinal = ordinal


@dataclass(frozen=True)
class ServerError:
    """An error body, whoever wrote it. `status` is what the body itself claims: 0 if it is no error at all."""

    code: str = ""
    message: str = ""
    status: int = 0

    @staticmethod
    def read(body: Any, scrub: Callable[[str], str] = str) -> ServerError:
        """`scrub` takes keys out of what is quoted."""
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except (ValueError, RecursionError):
                return ServerError(message=shorten(body, scrub=scrub))
        if not isinstance(body, dict):
            return ServerError()
        answered = "choices" in body or "output" in body
        bare = body.get("object") == "error" or ("detail" in body and not answered)
        error = body.get("error") or (body if bare else None)
        if not error:
            return ServerError()
        if not isinstance(error, dict):
            return ServerError(message=shorten(str(error), scrub=scrub), status=500)
        code, kind = error.get("code"), error.get("type")
        named = {"rate_limit_exceeded": 429, "server_error": 500}.get(str(code), 400)
        status = code if isinstance(code, int) and 400 <= code < 600 else named
        words = " ".join(str(value) for value in (code, kind) if value)
        message = str(error.get("message") or error.get("detail") or "")
        return ServerError(shorten(words, scrub=scrub), shorten(message, scrub=scrub), status)

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
    at = f"{endpoint.id} at {endpoint.host}"
    quoted = f" It says: {said.message}" if said.message else ""
    words = f"{said.code} {said.message}"
    if "insufficient_quota" in said.code or status == 402 or "credit balance is too low" in said.message:
        return QuotaExhausted, f"quota exhausted: {at} answers again when the account has credit.{quoted}"
    if status == 429 and "request too large" in said.message.lower():
        return BadRequest, f"one request is more than {at} allows per minute: use a smaller budget.{quoted}"
    if status == 429:
        return RateLimited, f"{at} limits the rate of requests (429): ask for less at a time.{quoted}"
    if status == 401:  # without what the server says, which quotes the key or a part of it
        held = f"does not accept the key in {endpoint.key_env}" if has_key else f"wants a key: set {endpoint.key_env}"
        return AuthenticationFailed, f"{at} {held} (401)."
    if _OVERFLOW.search(words):
        fix = "use a smaller budget, or a server with a larger window."
        return ContextOverflow, f"the request is longer than the window of {at}: {fix}{quoted}"
    if status >= 500:
        return Overloaded, f"{at} cannot serve now ({status}): try again later.{quoted}"
    if status == 408:
        return TimedOut, f"{at} gave up waiting (408): try again later.{quoted}"
    if _POLICY.search(words):
        return Refused, f"the provider's policy refuses this request to {at}: leave the task out.{quoted}"
    if status == 403:
        return AuthenticationFailed, f"the key in {endpoint.key_env} may not use {at} (403).{quoted}"
    return BadRequest, f"{at} does not take this request ({status}): change the setting it names.{quoted}"


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


def shorten(text: str, most: int = 300, scrub: Callable[[str], str] = str) -> str:
    """The beginning of a text as one line. Keys are taken out first: half a key is no longer recognised as one."""
    line = scrub(" ".join(text[:1_000_000].split())[: 100 * most])  # the rest is never shown, and may be endless
    return line if len(line) <= most else f"{line[:most]}…"
