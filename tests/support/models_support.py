"""A scripted model, a conversation with everything in it, and short ways to a server and a client on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sim_faults import Faults
from sim_server import Server, serve

from recompact.models.anthropic import AnthropicModel
from recompact.models.endpoint import Endpoint
from recompact.models.openai import OpenAIModel
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, ToolSpec, Usage, assistant, system, user

CALL_API = ToolSpec(
    "call_api",
    "Call an API.",
    {
        "type": "object",
        "properties": {
            "app": {"type": "string", "enum": ["mail", "files"]},
            "api": {"type": "string", "description": "Name of the API."},
            "arguments": {"type": "object"},
        },
        "required": ["app", "api"],
    },
)
FINISH = ToolSpec("finish", "End the task.", {"type": "object", "properties": {"answer": {"type": "string"}}})

CONVERSATION = Request(
    (
        system("You are an agent."),
        user("How many mails? Größe “7” \U0001f4e8"),
        assistant(
            "Both at once.",
            ToolCall("call_a", "call_api", '{"app": "mail", "api": "count"}'),
            ToolCall("call_b", "call_api", '{"app": "files", "api": "list"}'),
        ),
        Message("tool", "41", (), "call_a"),
        Message("tool", "", (), "call_b"),
        assistant("", ToolCall("call_c", "call_api", '{"app": "mail", "api": "unread"}')),
        Message("tool", "1", (), "call_c"),
        assistant("Thinking aloud."),
        user("error: no tool call"),
    ),
    (CALL_API, FINISH),
    Decoding(max_output_tokens=64, temperature=0.0, top_p=0.9, reasoning_effort="low", seed=7, stop=("END",)),
)
HELLO = Request((user("hello"),), (), Decoding(seed=1))

ANSWER = Reply(
    assistant("Done.", ToolCall("call_9", "finish", '{"answer": "42"}')), Usage(100, 20, cached=80, reasoning=5)
)


class Scripted:
    """Says what its script says, and remembers what it was asked."""

    def __init__(self, script: Callable[[Request], Reply] | Reply = ANSWER, name: str = "sim") -> None:
        self._script = script
        self._name = name
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        return self._name

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        return self._script if isinstance(self._script, Reply) else self._script(request)


def says(text: str) -> Reply:
    return Reply(assistant(text), Usage(10, 2))


@asynccontextmanager
async def client(server: Server | str, **settings: Any) -> AsyncIterator[OpenAIModel]:
    """The client of the API that the settings name."""
    url = server if isinstance(server, str) else server.base_url
    kind = AnthropicModel if settings.get("api") == "anthropic" else OpenAIModel
    model = kind(replace(Endpoint("sim", url, timeout=60.0), **settings))
    try:
        yield model
    finally:
        await model.aclose()


async def ask(
    request: Request, script: Callable[[Request], Reply] | Reply = ANSWER, faults: str = "", **settings: Any
) -> tuple[Reply, Request]:
    """One call over HTTP: the reply, and the request as the model behind the server saw it."""
    model = Scripted(script)
    chosen = Faults.parse(faults) if faults else None
    async with serve({"sim": model}, faults=chosen) as server, client(server, **settings) as remote:
        reply = await remote.reply(request)
        return reply, model.asked[-1]
