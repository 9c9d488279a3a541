"""The client over real HTTP: what it sends arrives as it was meant, and what comes back is read whole."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from models_support import ANSWER, CALL_API, CONVERSATION, HELLO, Scripted, ask, client, says
from sim_server import serve

from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.openai import OpenAIModel
from recompact.models.openai_wire import chat_body, read_chat, read_responses, responses_body
from recompact.models.text_calls import MARKER, call_schema, plain
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, Usage, assistant, system, user

CHAT = Endpoint("m")
RESPONSES = Endpoint("m", api="responses")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def test_chat_round_trip() -> None:
    reply, seen = asyncio.run(ask(CONVERSATION))
    assert seen.digest == CONVERSATION.digest
    assert reply == Reply(ANSWER.message, Usage(100, 20, 80, 5, calls=1, cache_reported=100), "stop", "sim")


def test_responses_round_trip_has_no_seed_and_no_stop() -> None:
    reply, seen = asyncio.run(ask(CONVERSATION, api="responses"))
    assert seen == replace(CONVERSATION, decoding=replace(CONVERSATION.decoding, seed=None, stop=()))
    assert reply == Reply(ANSWER.message, Usage(100, 20, 80, 5, calls=1, cache_reported=100), "stop", "sim")


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_schema_of_the_reply_arrives(api: str) -> None:
    request = Request((user("hi"),), (), Decoding(response_schema=SCHEMA))
    reply, seen = asyncio.run(ask(request, says('{"a": "b"}'), api=api))
    assert seen.decoding.response_schema == SCHEMA
    assert reply.message == assistant('{"a": "b"}')


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("calls", ["json", "schema"])
def test_calls_as_text(api: str, calls: str) -> None:
    written = says(f'Now:\n```json\n{{"name": "finish", "arguments": {{"answer": "42"}}}}\n```\n{MARKER}\nok')
    reply, seen = asyncio.run(ask(CONVERSATION, written, api=api, calls=calls))
    assert reply.message == assistant("Now:", ToolCall("call_9_0", "finish", '{"answer": "42"}'))
    assert seen.messages == plain(CONVERSATION).messages
    assert seen.tools == ()
    assert seen.decoding.response_schema == (call_schema(CONVERSATION.tools) if calls == "schema" else None)
    assert seen.decoding.stop == (("END", MARKER) if api == "chat" else ())


def test_a_summary_is_never_taken_for_a_call() -> None:
    text = 'Then I called {"name": "finish", "arguments": {}}.'
    reply, _ = asyncio.run(ask(replace(CONVERSATION, tools=()), says(text), calls="json"))
    assert reply.message == assistant(text)


def test_neighbouring_user_messages_are_merged_on_demand() -> None:
    _, seen = asyncio.run(ask(CONVERSATION, says("x"), calls="json", merge_roles=True))
    roles = [m.role for m in seen.messages[1:]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    assert seen.messages[3].content == f"{MARKER}\n41\n\n{MARKER}\n"


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("finish", ["length", "refusal", "stop"])
def test_finish(api: str, finish: Any) -> None:
    reply, _ = asyncio.run(ask(HELLO, Reply(assistant("I can't."), Usage(), finish), api=api))
    assert (reply.finish, reply.message.content) == (finish, "I can't.")


def test_seed_is_kept_back_on_demand() -> None:
    _, seen = asyncio.run(ask(HELLO, send_seed=False))
    assert seen.decoding.seed is None


def test_extra_body_reaches_the_server() -> None:
    _, seen = asyncio.run(ask(HELLO, extra_body={"top_p": 0.5}))
    assert seen.decoding.top_p == 0.5


def test_malformed_arguments_of_the_past_are_sent_as_valid_json() -> None:
    request = Request((user("x"), assistant("", ToolCall("c", "finish", '{"a": '))), (CALL_API,))
    _, seen = asyncio.run(ask(request))
    assert seen.messages[1].calls[0].parsed() == {"malformed": '{"a": '}


def test_chat_body() -> None:
    body = chat_body(CHAT, CONVERSATION)
    assert body["max_completion_tokens"] == 64  # OpenAI itself
    assert "max_tokens" not in body
    assert body["messages"][5]["content"] is None
    assert body["tools"][0] == {"type": "function", "function": CALL_API.to_json()}
    assert set(chat_body(CHAT, Request((user("x"),)))) == {"model", "messages", "prompt_cache_key"}
    assert chat_body(Endpoint("m", "http://127.0.0.1:1/v1"), CONVERSATION)["max_tokens"] == 64
    forced = Endpoint("m", "http://127.0.0.1:1/v1", max_tokens_field="max_completion_tokens")
    assert chat_body(forced, CONVERSATION)["max_completion_tokens"] == 64


def test_calls_about_one_task_have_a_key_of_their_own_at_openai_itself() -> None:
    def key(*messages: Message, **endpoint: Any) -> Any:
        where = Endpoint("m", **endpoint)
        bodies = [body(where, Request(messages)) for body in (chat_body, responses_body)]
        assert bodies[0].get("prompt_cache_key") == bodies[1].get("prompt_cache_key")
        return bodies[0].get("prompt_cache_key")

    task = (system("You are an agent."), user("Pay the bill."))
    assert key(*task) == key(*task, assistant("I will."), user("Go on.")) != key(task[0], user("Call Ann."))
    assert len(key(*task)) == len(key(*task[:1])) == 32
    assert (
        key(*task, base_url="http://127.0.0.1:1/v1") is key(*task, base_url="https://openai.com.example.net/v1") is None
    )
    assert key(*task, extra_body={"prompt_cache_key": "mine"}) == "mine"


def test_responses_body() -> None:
    body = responses_body(RESPONSES, CONVERSATION)
    assert body["store"] is False
    assert body["reasoning"] == {"effort": "low"}
    assert not {"instructions", "seed", "stop"} & set(body)
    assert [item["type"] for item in body["input"]] == [
        *("message", "message", "message", "function_call", "function_call", "function_call_output"),
        *("function_call_output", "function_call", "function_call_output", "message", "message"),
    ]
    assert body["tools"][0] == {"type": "function", **CALL_API.to_json(), "strict": False}


def test_strict_only_where_the_schema_allows_it() -> None:
    def strict(schema: dict[str, Any]) -> bool:
        body = chat_body(CHAT, Request((user("x"),), (), Decoding(response_schema=schema)))
        return bool(body["response_format"]["json_schema"]["strict"])

    assert strict(SCHEMA)
    assert not strict({"type": "object", "properties": {"a": {"type": "string"}}})
    assert not strict({**SCHEMA, "properties": {"a": {"type": "object", "properties": {}}}})
    assert not strict({"anyOf": [SCHEMA]})


CHAT_REPLIES: dict[str, tuple[dict[str, Any], Message]] = {
    "content in parts": ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, assistant("ab")),
    "no content": ({"content": None}, assistant("")),
    "call without an id": (
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        assistant("", ToolCall("call_3_0", "f", "{}")),
    ),
    "arguments as an object": (
        {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
        assistant("", ToolCall("c", "f", '{"a": 1}')),
    ),
    "half a character": ({"content": "a\ud83d"}, assistant("a�")),
}


@pytest.mark.parametrize(("message", "expected"), CHAT_REPLIES.values(), ids=CHAT_REPLIES.keys())
def test_chat_replies_of_other_servers(message: dict[str, Any], expected: Message) -> None:
    reply = read_chat({"choices": [{"message": message}]}, 3)
    assert reply == Reply(expected, Usage(calls=1))


def test_a_response_of_reasoning_alone_that_ran_out() -> None:
    reply = read_responses(
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "reasoning", "summary": []}],
            "usage": {"input_tokens": 5, "output_tokens": 16, "output_tokens_details": {"reasoning_tokens": 16}},
        },
        3,
    )
    assert reply == Reply(assistant(""), Usage(5, 16, 0, 16, 1), "length")


def test_128_calls_at_once() -> None:
    def echo(request: Request) -> Reply:
        return says(request.messages[0].content)

    async def run() -> None:
        async with serve({"sim": Scripted(echo)}, latency=0.05) as server, client(server) as model:
            requests = [Request((user(f"number {n}"),)) for n in range(128)]
            for _ in range(2):  # the second time over connections that are open already
                replies = await asyncio.gather(*(model.reply(request) for request in requests))
                assert [r.message.content for r in replies] == [f"number {n}" for n in range(128)]
            assert set(server.received.values()) == {2}

    asyncio.run(run())


def test_a_long_request_arrives() -> None:
    request = Request((user("x" * 3_000_000),))
    _, seen = asyncio.run(ask(request))
    assert seen == request


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    reply, _ = asyncio.run(ask(HELLO))
    assert reply.message == ANSWER.message


def test_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(InputError, match=r"model gpt .*example\.org:443.* MY_KEY"):
        OpenAIModel(Endpoint("gpt", "https://example.org/v1", key_env="MY_KEY"))
    OpenAIModel(Endpoint("gpt", "http://127.0.0.1:18150/v1", key_env="MY_KEY"))
    OpenAIModel(Endpoint("gpt", "http://localhost:18150/v1", key_env="MY_KEY"))


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InputError, match="base_url of model m"):
        OpenAIModel(Endpoint("m", url))


def test_base_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:7/v1")
    assert Endpoint("m").host == "127.0.0.1:7"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert Endpoint("m").host == "api.openai.com:443"


def test_closing_twice_is_fine() -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}) as server:
            model = OpenAIModel(Endpoint("sim", server.base_url))
            await model.aclose()
            assert json.loads((await model.reply(HELLO)).message.calls[0].arguments) == {"answer": "42"}
            await model.aclose()
            await model.aclose()

    asyncio.run(run())
