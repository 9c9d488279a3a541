"""The ways in which a call to a model fails, as classes that a caller can tell apart.

A failure says whether trying again can help (`retryable`) and, where the server told, how long to wait. Its text names
the model and the way out; it never contains a key.
"""

from __future__ import annotations

from recompact.errors import RecompactError


class ModelFailure(RecompactError):
    """A call that brought no reply."""

    retryable = False
    kind = "failure"

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class RateLimited(ModelFailure):
    retryable = True
    kind = "rate limit"


class Overloaded(ModelFailure):
    """The server is up but cannot serve now (5xx)."""

    retryable = True
    kind = "overload"


class TimedOut(ModelFailure):
    retryable = True
    kind = "timeout"


class Unreachable(ModelFailure):
    """No connection, or one that was cut."""

    retryable = True
    kind = "unreachable"


class MalformedReply(ModelFailure):
    """The server answered with something that is not a reply (broken JSON, no choices)."""

    retryable = True
    kind = "malformed reply"


class ContextOverflow(ModelFailure):
    """The request is longer than the model's window: the same request will fail again."""

    kind = "context overflow"


class Refused(ModelFailure):
    """The provider's policy refused the request itself (a refusal in words is an ordinary reply)."""

    kind = "refusal"


class AuthenticationFailed(ModelFailure):
    kind = "authentication"


class UnknownModel(ModelFailure):
    kind = "unknown model"


class BadRequest(ModelFailure):
    """The server understood and said no: a parameter that this model does not take, for example."""

    kind = "bad request"


class CeilingReached(ModelFailure):
    """The run has spent what it was allowed to. Nothing is lost: it goes on when the ceiling is raised."""

    kind = "ceiling"
