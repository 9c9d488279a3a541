"""Anthropic's Messages over real HTTP: requests arrive as they were meant, and replies are read whole."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, strategies as st
from loopback import served_app
from models_support import ANSWER, CALL_API, CONVERSATION, HELLO, ask, client, says

from recompact.agents.wire.anthropic import read_messages as read_request
from recompact.models import failures
from recompact.models.anthropic import AnthropicModel, messages_body, read_messages
from recompact.models.endpoint import Endpoint
from recompact.models.protocol import load_model
from recompact.models.shape import shape_reply
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, Usage, assistant, system, user

ENDPOINT = Endpoint("m", api="anthropic")
THINKING = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 85, "output_tokens": 20}


def test_round_trip() -> None:
    reply, seen = asyncio.run(ask(CONVERSATION, api="anthropic"))
    assert [message.role for message in seen.messages] == [message.role for message in CONVERSATION.messages]
    assert [message.content for message in seen.messages] == [message.content for message in CONVERSATION.messages]
    assert [c.parsed() for m in seen.messages for c in m.calls] == [
        c.parsed() for m in CONVERSATION.messages for c in m.calls
    ]
    assert seen.tools == CONVERSATION.tools
    assert seen.decoding == Decoding(64, 0.0, 0.9, stop=("END",))
    assert reply.message == replace(
        ANSWER.message, calls=(replace(ANSWER.message.calls[0], arguments='{"answer": "42"}'),)
    )
    assert (reply.usage, reply.finish, reply.model) == (Usage(100, 20, 80, 0, 1, 0, 100), "stop", "sim")


def test_a_schema_is_a_call_that_must_be_made() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    body = messages_body(ENDPOINT, Request((user("hi"),), (), Decoding(response_schema=schema)))
    assert body["tool_choice"] == {"type": "tool", "name": "reply"}
    called = {"content": [{"type": "tool_use", "id": "t", "name": "reply", "input": {"a": "b"}}]}
    assert read_messages(called, 1).message == assistant('{"a": "b"}')


@pytest.mark.parametrize("calls", ["json", "schema"])
def test_calls_as_text(calls: str) -> None:
    written = says('{"name": "finish", "arguments": {"answer": "42"}}')
    reply, seen = asyncio.run(ask(CONVERSATION, written, api="anthropic", calls="json"))
    assert reply.message.calls[0].name == "finish"
    assert seen.tools == ()


@pytest.mark.parametrize("finish", ["length", "refusal", "stop"])
def test_finish(finish: Any) -> None:
    reply, _ = asyncio.run(ask(HELLO, Reply(assistant("I can't."), Usage(), finish), api="anthropic"))
    assert (reply.finish, reply.message.content) == (finish, "I can't.")


def test_the_end_of_system_prompt_and_request_are_marked_for_the_cache() -> None:
    body = messages_body(ENDPOINT, CONVERSATION)
    marked = [block for turn in body["messages"] for block in turn["content"] if "cache_control" in block]
    assert marked == [body["messages"][-1]["content"][-1]]
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


def test_thinking_stays_with_its_turn_through_the_door() -> None:
    data = {"content": [THINKING, {"type": "tool_use", "id": "t1", "name": "finish", "input": {}}], "usage": USAGE}
    reply = shape_reply(read_messages(data, 1), HELLO)
    assert reply.usage == Usage(100, 20, 85, 0, 1, 0, 100)
    kept = Message.from_json(json.loads(reply.message.text))
    request = Request((user("x"), kept, Message("tool", "ok", (), "t1")), (CALL_API,))
    turns = messages_body(ENDPOINT, request)["messages"]
    assert turns[1]["content"][0] == THINKING
    assert [block["type"] for block in turns[1]["content"]] == ["thinking", "tool_use"]
    plain = Message(kept.role, kept.content, kept.calls)
    assert plain.digest != kept.digest


def test_odd_conversations_become_ones_that_the_api_takes() -> None:
    messages = (
        *(system("a"), system("b"), assistant("I begin."), user(""), user("two")),
        assistant("", ToolCall("call/1 ü", "finish", "not json")),
        Message("tool", "", (), "call/1 ü"),
        system("late"),
    )
    body = messages_body(ENDPOINT, Request(messages))
    assert body["system"][0]["text"] == "a\n\nb"
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["user", "assistant"] * 2 + ["user"]
    assert body["messages"][3]["content"][0] == {
        "type": "tool_use",
        "id": "call_1__",
        "name": "finish",
        "input": {"malformed": "not json"},
    }
    assert body["messages"][4]["content"][0]["tool_use_id"] == "call_1__"


texts = st.text(max_size=20)
turns = st.lists(st.tuples(st.sampled_from(["user", "assistant", "call"]), texts), max_size=8)


@given(turns)
def test_every_conversation_alternates_and_pairs_calls_with_results(drawn: list[tuple[str, str]]) -> None:
    messages: list[Message] = [user("begin")]
    for n, (kind, text) in enumerate(drawn):
        if kind == "call":
            messages += [assistant(text, ToolCall(f"c{n}", "t", "{}")), Message("tool", text, (), f"c{n}")]
        else:
            messages.append(Message("user" if kind == "user" else "assistant", text))
    body = messages_body(ENDPOINT, Request(tuple(messages)))
    roles = [turn["role"] for turn in body["messages"]]
    assert all(one != other for one, other in pairwise(roles))
    for before, after in pairwise(body["messages"]):
        used = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        given_back = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
        assert used == given_back
    assert all(block.get("text", "x").strip() for turn in body["messages"] for block in turn["content"])
    read_request({**body, "max_tokens": 5})


def answered(status: int, body: Any) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body, status=status, headers={"retry-after": "2"} if status == 429 else {})

    return served_app(answer)


@pytest.mark.parametrize(
    ("status", "kind", "message", "failure"),
    [
        (401, "authentication_error", "invalid x-api-key", failures.AuthenticationFailed),
        (403, "permission_error", "no", failures.AuthenticationFailed),
        (404, "not_found_error", "model: m", failures.BadRequest),
        (413, "request_too_large", "Request exceeds the maximum size", failures.BadRequest),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", failures.ContextOverflow),
        (400, "invalid_request_error", "Your credit balance is too low", failures.QuotaExhausted),
        (400, "invalid_request_error", "top_p: not with temperature", failures.BadRequest),
        (429, "rate_limit_error", "slow down", failures.RateLimited),
        (500, "api_error", "oops", failures.Overloaded),
        (529, "overloaded_error", "Overloaded", failures.Overloaded),
    ],
)
def test_errors_of_the_api(status: int, kind: str, message: str, failure: type[failures.ModelFailure]) -> None:
    async def run(url: str) -> None:
        async with client(url, api="anthropic") as model:
            await model.reply(HELLO)

    error = {"type": "error", "error": {"type": kind, "message": message}}
    with answered(status, error) as url, pytest.raises(failures.ModelFailure) as caught:
        asyncio.run(run(url))
    assert type(caught.value) is failure
    assert caught.value.retry_after == (2 if status == 429 else None)


def test_a_config_names_it_by_its_api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-4711")
    assert ENDPOINT.key_env == "ANTHROPIC_API_KEY"
    assert Endpoint("m").key_env == "OPENAI_API_KEY"
    model = load_model("openai", {}, ENDPOINT, tmp_path)
    assert isinstance(model, AnthropicModel)
    assert "canary" not in repr(vars(model))
