"""Model failures as a server reports them: an HTTP status, and a code that clients know."""

from __future__ import annotations

from recompact.errors import RecompactError
from recompact.models import failures

_STATUSES: dict[type[RecompactError], tuple[int, str]] = {
    failures.RateLimited: (429, "rate_limit_exceeded"),
    failures.ContextOverflow: (400, "context_length_exceeded"),
    failures.Refused: (400, "content_policy_violation"),
    failures.BadRequest: (400, "invalid_request"),
    failures.AuthenticationFailed: (401, "invalid_api_key"),
    failures.UnknownModel: (404, "model_not_found"),
}


def status_of(failure: RecompactError) -> tuple[int, str]:
    """The status and the code of a failure; what is not the client's doing is an overload."""
    return _STATUSES.get(type(failure), (503, "overloaded"))
