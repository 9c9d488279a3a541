"""`api = "anthropic"` on answers that the real API gave: those that sessions of Claude Code have kept.

They are read from `../shared/data`, or from the directory in RECOMPACT_DATA.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from needs import TRANSCRIPTS, needs

from recompact.agents.wire.anthropic import read_messages as read_request
from recompact.models.anthropic import AnthropicModel, messages_body, read_messages
from recompact.models.endpoint import Endpoint
from recompact.values.chat import Message, Request, user

SESSIONS = sorted(TRANSCRIPTS.glob("claude-code/*.jsonl"))
ENDPOINT = Endpoint("claude", api="anthropic")

pytestmark = needs("transcripts")


def recorded(session: Path) -> Iterator[dict[str, Any]]:
    """The answers of a session. Each block stands in a line of its own there; the last line has the whole usage."""
    answers: dict[str, dict[str, Any]] = {}
    for line in session.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("type") == "assistant" and entry["message"]["model"] != "<synthetic>":
            message = entry["message"]
            before = answers.get(message["id"], {"content": []})
            answers[message["id"]] = {**message, "content": [*before["content"], *message["content"]]}
    yield from answers.values()


def sent_back(message: Message) -> list[Any]:
    """The blocks of a message as the next request holds them."""
    body = messages_body(ENDPOINT, Request((user("x"), message, user("go on"))))
    blocks: list[Any] = body["messages"][1]["content"]
    return blocks


def wanted(content: list[Any]) -> list[Any]:
    """What the API wants back: blocks in their order, texts in a row as one, and nothing that it added itself."""
    blocks: list[Any] = []
    for block in content:
        block = {key: value for key, value in block.items() if key != "caller"}
        if block["type"] == "text" and blocks and blocks[-1]["type"] == "text":
            blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + block["text"]}
        else:
            blocks.append(block)
    return blocks


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_recorded_answers_are_read_and_sent_back_as_they_were(session: Path) -> None:
    kinds: Counter[str] = Counter()
    for answer in recorded(session):
        reply = read_messages(answer, 0)
        content = answer["content"]
        kinds.update(block["type"] for block in content)
        assert reply.message.content == "".join(block["text"] for block in content if block["type"] == "text")
        assert [(call.id, call.name, call.parsed()) for call in reply.message.calls] == [
            (block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"
        ]
        usage = answer["usage"]
        read = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        assert (reply.usage.input, reply.usage.cached) == (read, usage["cache_read_input_tokens"])
        assert reply.usage.output == usage["output_tokens"]
        assert reply.finish == "stop"
        if any(block["type"] != "thinking" for block in content):
            assert sent_back(reply.message) == wanted(content)
            (seen,) = read_request({"messages": [{"role": "assistant", "content": content}]}).messages
            assert [call.id for call in seen.calls] == [call.id for call in reply.message.calls]
    assert min(kinds[kind] for kind in ("text", "tool_use", "thinking")) > 0


@pytest.mark.parametrize("session", SESSIONS[:1], ids=lambda path: path.stem)
async def test_the_official_client_reads_them_from_a_server(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    answers = list(recorded(session))[:40]
    waiting = iter(answers)

    async def answer(http: web.Request) -> web.Response:
        await http.read()
        return web.json_response({**next(waiting), "stop_reason": "tool_use"})

    app = web.Application()
    app.router.add_post("/v1/messages", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model = AnthropicModel(Endpoint("claude", f"http://127.0.0.1:{runner.addresses[0][1]}/v1", api="anthropic"))
    try:
        for recorded_answer in answers:
            reply = await asyncio.wait_for(model.reply(Request((user("x"),))), 30)
            assert reply.message == read_messages(recorded_answer, 1).message
            assert reply.usage == read_messages(recorded_answer, 1).usage
    finally:
        await model.aclose()
        await runner.cleanup()
