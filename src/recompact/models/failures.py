"""The ways in which a call to a model fails, as classes that callers can distinguish.

A failure says whether trying again can help (`retryable`) and, where the server says, how long to wait; whether it is a
sign of an outage; and whether every other call would meet it too (`ends_run`). All others belong to the unit of work
that met them. Its text names the model and, where there is one, the way out; keys are taken out of it.
"""

from __future__ import annotations

from recompact.errors import RecompactError
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
