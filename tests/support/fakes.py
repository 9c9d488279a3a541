"""What several tests need: a suite of pages, and models that are simple enough to foretell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from recompact.environments.functions import FunctionSuite, function_suite
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant

PAGES = 8


def look(page: int, state: dict[str, list[int]]) -> str:
    """Read one page."""
    state["seen"].append(page)
    return f"page {page} of {PAGES}: " + " ".join(f"word{page}x{n}" for n in range(40))


def read_all(answer: str, state: dict[str, list[int]]) -> bool:
    """Every page exactly once and in order: a lost or a doubled step fails."""
    return answer == "read" and state["seen"] == list(range(1, PAGES + 1))


def pages_suite(count: int = 4) -> FunctionSuite:
    tasks = {f"book-{n:03d}": (f"Read all pages of book {n}.", read_all) for n in range(count)}
    return function_suite("pages", [look], tasks, state={"seen": []})


pages_suite_4 = pages_suite(4)
pages_suite_20 = pages_suite(20)
pages_suite_40 = pages_suite(40)
pages_suite_200 = pages_suite(200)


class Reader:
    """An agent that reads the next page after the last one it sees anywhere in its context, then finishes."""

    name = "reader"

    def __init__(self, on_request: Callable[[Request], None] = lambda request: None) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        seen = [int(n) for m in request.messages for n in re.findall(rf"page (\d+) of {PAGES}", m.content)]
        page = max(seen, default=0) + 1
        name, arguments = ("look", {"page": page}) if page <= PAGES else ("finish", {"answer": "read"})
        call = ToolCall(f"call_{page}", name, json.dumps(arguments))
        size = sum(len(m.content) for m in request.messages) // 4
        return Reply(Message("assistant", "", (call,)), Usage(size, 10, 0, 0, 1), model="reader-1")


class Noter:
    """A compressor that notes the last page it sees."""

    name = "noter"

    def __init__(self, on_request: Callable[[Request], None] = lambda request: None) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        pages = re.findall(rf"page (\d+) of {PAGES}", "".join(m.content for m in request.messages))
        text = f"## Progress\nThe last page read was page {max(map(int, pages), default=0)} of {PAGES}."
        return Reply(assistant(text), Usage(100, 20, 0, 0, 1), model="noter-1")


class Scripted:
    """Answers with the given replies, one after the other, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *replies: Reply | str | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(assistant(reply), Usage(10, 5, 0, 0, 1)) if isinstance(reply, str) else reply


def calling(*calls: tuple[str, object], content: str = "") -> Reply:
    """A reply with tool calls; arguments that are a string go in as they are, valid JSON or not."""
    tool_calls = tuple(
        ToolCall(f"c{n}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for n, (name, arguments) in enumerate(calls)
    )
    return Reply(Message("assistant", content, tool_calls), Usage(10, 5, 0, 0, 1))
