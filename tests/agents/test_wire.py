"""The wire formats: what a client of ours writes is read as it was meant, and streams say what bodies say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from models_support import CALL_API, CONVERSATION

from recompact.agents.conversation import Threads
from recompact.agents.normalizer import Normalizer
from recompact.agents.wire.formats import (
    CHAT,
    CONTENTS,
    MESSAGES,
    RESPONSES,
    STREAMED_CONTENTS,
    WireFormat,
    format_of,
)
from recompact.models.anthropic import messages_body, read_messages
from recompact.models.endpoint import Endpoint
from recompact.models.openai_wire import chat_body, read_chat, read_responses, responses_body
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant, user

BODIES: dict[str, Any] = {
    "chat": chat_body,
    "responses": responses_body,
    "messages": messages_body,
    "contents": lambda endpoint, request: {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
}
READERS: dict[str, Any] = {"chat": read_chat, "responses": read_responses, "messages": read_messages}
ENDPOINT = Endpoint("m")

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(lambda text: text.strip())
calls = st.builds(
    lambda n, command: ToolCall(f"call_{n}", "shell", json.dumps({"command": command}, ensure_ascii=False)),
    st.integers(0, 99),
    texts,
)
replies = st.builds(
    lambda text, made: Message("assistant", text, tuple({call.id: call for call in made}.values())),
    texts,
    st.lists(calls, max_size=3),
)


@pytest.mark.parametrize("form", [CHAT, RESPONSES, MESSAGES], ids=lambda form: form.name)
def test_a_conversation_is_read_as_it_was_meant(form: WireFormat) -> None:
    seen = form.read(BODIES[form.name](ENDPOINT, CONVERSATION))
    assert [(m.role, m.content, m.call_id) for m in seen.messages] == [
        (m.role, m.content, m.call_id) for m in CONVERSATION.messages
    ]
    assert seen.tools == CONVERSATION.tools


@pytest.mark.parametrize("form", [CHAT, RESPONSES, MESSAGES], ids=lambda form: form.name)
@given(message=replies)
def test_a_reply_is_read_as_it_was_written(form: WireFormat, message: Message) -> None:
    request = Request((user("x"),), (CALL_API,))
    written = json.loads(json.dumps(form.write("m", request, Reply(message, Usage(1000, 10)))))
    reply = READERS[form.name](written, 1)
    assert reply.message.content == message.content
    assert [(c.id, c.name, c.parsed()) for c in reply.message.calls] == [
        (c.id, c.name, c.parsed()) for c in message.calls
    ]
    assert (reply.usage.input, reply.usage.output) == (1000, 10)


def events(form: WireFormat, message: Message) -> list[dict[str, Any]]:
    written = form.write("m", Request((user("x"),)), Reply(message, Usage(1000, 10)))
    lines = b"".join(form.stream(written, {})).decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@given(message=replies)
def test_streams_say_what_bodies_say(message: Message) -> None:
    arguments = [call.parsed() for call in message.calls]
    deltas = [choice["delta"] for event in events(CHAT, message) for choice in event["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == message.content
    pieces: dict[int, str] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", ()):
            pieces[call["index"]] = pieces.get(call["index"], "") + call["function"].get("arguments", "")
    assert [json.loads(piece) for piece in pieces.values()] == arguments

    done = [event["item"] for event in events(RESPONSES, message) if event["type"] == "response.output_item.done"]
    assert [json.loads(item["arguments"]) for item in done if item["type"] == "function_call"] == arguments

    blocks: dict[int, str] = {}
    for event in events(MESSAGES, message):
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]] = blocks.get(event["index"], "") + delta.get("text", delta.get("partial_json", ""))
    assert blocks.pop(0) == message.content
    assert [json.loads(block) for block in blocks.values()] == arguments


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/chat/completions", CHAT),
        ("/responses", RESPONSES),
        ("/v1/messages/", MESSAGES),
        ("/v1beta/models/m:generateContent", CONTENTS),
        ("/key/v1beta/models/m:streamGenerateContent", STREAMED_CONTENTS),
        ("/v1/nothing", None),
    ],
)
def test_formats_are_told_by_their_path(path: str, form: WireFormat | None) -> None:
    assert format_of(path) is form


def test_results_reminders_and_pictures_in_one_turn_of_anthropics() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}, {"type": "image"}]},
        {"type": "text", "text": "Remember."},
        {"type": "text", "text": "Twice."},
    ]
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."}]
    body = {"messages": [{"role": "assistant", "content": thinking}, {"role": "user", "content": blocks}]}
    assert MESSAGES.read(body).messages == (
        assistant("I look."),
        Message("tool", "ok\n[image]", (), "t1"),
        user("Remember.\nTwice."),
    )


@given(message=replies)
def test_a_reply_of_geminis_is_read_back_from_the_next_request(message: Message) -> None:
    (event,) = events(STREAMED_CONTENTS, message)
    results = [
        {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": f"result of {call.id}"}}}
        for call in message.calls
    ]
    turns = [
        {"role": "user", "parts": [{"text": "Look."}, {"text": "Now."}]},
        event["candidates"][0]["content"],
        {"role": "user", "parts": [*results, {"text": "Go on."}]},
    ]
    body = {"systemInstruction": {"parts": [{"text": "You are one."}]}, "contents": turns}
    system, asked, said, *after = CONTENTS.read(body).messages
    assert (system.content, asked) == ("You are one.", user("Look.\nNow."))
    assert (said.content, [(c.id, c.parsed()) for c in said.calls]) == (
        message.content,
        [(c.id, c.parsed()) for c in message.calls],
    )
    told = [Message("tool", f"result of {call.id}", (), call.id) for call in message.calls]
    assert after == [*told, user("Go on.")]


def test_calls_of_gemini_without_ids_get_their_results() -> None:
    made = [{"functionCall": {"name": "look", "args": {"at": n}}} for n in (1, 2)]
    results = [{"functionResponse": {"name": "look", "response": {"output": f"saw {n}", "n": n}}} for n in (1, 2)]
    thought = {"text": "hm", "thought": True}
    turns = [{"role": "user", "parts": [{"text": "Look."}]}, {"role": "model", "parts": [thought, *made]}]
    declared = {"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}
    read = CONTENTS.read({"contents": [*turns, {"role": "user", "parts": results}], "tools": [declared]})
    _, said, *told = read.messages
    assert said.content == ""
    assert [message.call_id for message in told] == [call.id for call in said.calls]
    assert len({call.id for call in said.calls}) == 2
    assert json.loads(told[1].content) == {"output": "saw 2", "n": 2}
    assert [tool.name for tool in read.tools] == ["look"]


def request(*messages: Message, tools: bool = True) -> Request:
    return Request(messages, (CALL_API,) if tools else ())


def test_threads() -> None:
    threads = Threads(lambda text: text.replace("12:00", "…").replace("12:01", "…"))
    task = user("Do it. It is 12:00.")
    title = threads.thread_of(request(user("Title?"), tools=False), {})
    main = threads.thread_of(request(task), {})
    assert threads.main is main is not title
    main.messages = (task,)
    called = assistant("", ToolCall("call_1", "shell", "{}"))
    result = Message("tool", "ok", (), "call_1")
    assert threads.thread_of(request(user("Do it. It is 12:01."), called, result), {}) is main
    assert threads.thread_of(request(task, called, result), {"x-parent-session-id": "1"}) is not main
    main.call_id = "call_1"
    assert threads.thread_of(request(user("All of it is rewritten."), called, result), {}) is main
    other = threads.thread_of(request(user("Another subagent.")), {})
    assert other not in (main, title)
    other.messages = (user("Another subagent."),)
    assert threads.thread_of(request(user("Another subagent."), assistant("yes"), user("go on")), {}) is other


def test_steadying() -> None:
    steadying = Normalizer({r"took \d+ ms": "took a while"}, [r"out-(\w+)\.txt", r"session (\d+)"])
    said = steadying.steady("It took 51 ms: out-9f3a.txt and out-77aa.txt, session 4711, again out-9f3a.txt")
    assert said == "It took a while: out-name0001.txt and out-name0002.txt, session 90000003, again out-name0001.txt"
    assert steadying.own({"command": "cat out-name0002.txt", "session": 90000003, "n": [1, True]}) == {
        "command": "cat out-77aa.txt",
        "session": 4711,
        "n": [1, True],
    }


def test_unknown_items_of_responses_pass_and_added_tools_are_offered() -> None:
    function = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    added = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}, function]}
    told = {"type": "novelty", "content": [{"type": "input_text", "text": "seen"}]}
    request = RESPONSES.read({"input": [added, told, {"type": "web_search_call"}, {"role": "user", "content": "go"}]})
    assert [tool.name for tool in request.tools] == ["look"]
    assert [message.content for message in request.messages] == ["seen", "[web_search_call]", "go"]
    with pytest.raises(ValueError, match="give the agent a model's name that it does not know"):
        RESPONSES.read({"input": [{**added, "tools": added["tools"][:1]}]})
