"""The wire formats by name, and by the path that a request is sent to; and the statuses by which failures are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from recompact.agents.wire.anthropic import messages_stream, read_messages, write_messages
from recompact.agents.wire.gemini import contents_stream, read_contents, write_contents
from recompact.agents.wire.openai import (
    chat_stream,
    read_chat,
    read_responses,
    responses_stream,
    write_chat,
    write_responses,
)
from recompact.errors import RecompactError
from recompact.models import failures
from recompact.values.chat import Reply, Request

Body = Mapping[str, Any]


@dataclass(frozen=True)
class WireFormat:
    """How requests are read, and how replies are written, at once or as a stream of events."""

    name: str
    path: str  # how the paths of its requests end
    read: Callable[[Body], Request]
    write: Callable[[str, Request, Reply], dict[str, Any]]
    stream: Callable[[Body, Body], Iterator[bytes]]  # what was written, and the body that asked for it
    streams: bool = False  # always; else where the body asks for it
    waiting: bytes = b": wait\n\n"  # what may stand in a stream before the first event, again and again


CHAT = WireFormat("chat", "/chat/completions", read_chat, write_chat, chat_stream)
RESPONSES = WireFormat("responses", "/responses", read_responses, write_responses, responses_stream)
MESSAGES = WireFormat("messages", "/messages", read_messages, write_messages, messages_stream)
CONTENTS = WireFormat("contents", ":generateContent", read_contents, write_contents, contents_stream)
# Google's own client takes a comment for a broken event, and skips white space.
STREAMED_CONTENTS = replace(CONTENTS, path=":streamGenerateContent", streams=True, waiting=b"\n")
FORMATS = (CHAT, RESPONSES, MESSAGES, CONTENTS, STREAMED_CONTENTS)


def format_of(path: str) -> WireFormat | None:
    """The format of the requests that are sent to a path."""
    return next((each for each in FORMATS if path.rstrip("/").endswith(each.path)), None)


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
