"""Tool calls as JSON in plain text: what is written for a model without them, and what is read from its answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given, strategies as st
from models_support import CALL_API, CONVERSATION, FINISH

from recompact.models.text_calls import MARKER, call_schema, parse, plain, tool_text
from recompact.values.chat import Decoding, Message, Request, ToolCall, ToolSpec, assistant, user

TOOLS = (CALL_API, FINISH)
MAIL = {"app": "mail", "api": "count"}
BARE = '{"name": "call_api", "arguments": {"app": "mail", "api": "count"}}'

ONE_CALL = {
    "bare": BARE,
    "json fence": f"```json\n{BARE}\n```",
    "fence without a language": f"```\n{BARE}\n```",
    "prose around it": f"I will count the mails first.\n\n{BARE}\n\nThen I will answer.",
    "fence in prose": f"Let me look:\n```json\n{BARE}\n```\nThis gives the number of mails.",
    "fence never closed": f"```json\n{BARE}",
    "two objects: the first": f'{BARE}\n{{"name": "finish", "arguments": {{"answer": "41"}}}}',
    "invented result and next call": f'{BARE}\n{MARKER}\n41\n{{"name": "finish", "arguments": {{"answer": "41"}}}}',
    "parameters": '{"name": "call_api", "parameters": {"app": "mail", "api": "count"}}',
    "args": '{"name": "call_api", "args": {"app": "mail", "api": "count"}}',
    "tool": '{"tool": "call_api", "arguments": {"app": "mail", "api": "count"}}',
    "tool as object": '{"tool": {"name": "call_api", "arguments": {"app": "mail", "api": "count"}}}',
    "tool_name": '{"tool_name": "call_api", "parameters": {"app": "mail", "api": "count"}}',
    "function": '{"function": {"name": "call_api", "arguments": {"app": "mail", "api": "count"}}}',
    "function by name": '{"function": "call_api", "arguments": {"app": "mail", "api": "count"}}',
    "as the API writes it": '{"id": "c1", "type": "function", "function": {"name": "call_api", "arguments": '
    '"{\\"app\\": \\"mail\\", \\"api\\": \\"count\\"}"}}',
    "tool_calls": '{"tool_calls": [{"name": "call_api", "arguments": {"app": "mail", "api": "count"}}]}',
    "thought beside it": '{"thought": "count {them}", "action": ' + BARE + "}",
    "arguments as a JSON string": json.dumps({"name": "call_api", "arguments": json.dumps(MAIL)}),
    "list of one": f"[{BARE}]",
    "list cut off by the output limit": f'[{BARE}, {{"name": "call_api", "argum',
    "tags of Qwen": f"<tool_call>\n{BARE}\n</tool_call>",
    "tag of Llama": f"<|python_tag|>{BARE}",
    "after a data object": f'The user is {{"name": "Alice", "id": 3}}. {BARE}',
    "after a list of data": f"[1, 2] and {{1, 2}} {BARE}",
    "endless text after it": BARE + "\n" + "and then " * 5000,
    "after thoughts with another call": f'<think>maybe {{"name": "finish", "arguments": {{}}}}?</think>\n{BARE}',
    "several lines": json.dumps(json.loads(BARE), indent=4),
}


@pytest.mark.parametrize("content", ONE_CALL.values(), ids=ONE_CALL.keys())
def test_one_call_is_read_from_any_shape(content: str) -> None:
    message = parse(content, 4, TOOLS)
    (call,) = message.calls
    assert (call.id, call.name, call.parsed()) == ("call_4_0", "call_api", MAIL)


NO_CALL = {
    "prose": "There are 41 mails.",
    "empty": "",
    "single quotes": "{'name': 'call_api', 'arguments': {'app': 'mail', 'api': 'count'}}",
    "python call": 'call_api(app="mail", api="count")',
    "cut off by the output limit": '```json\n{"name": "call_api", "arguments": {"app": "mail", "text": "and so on',
    "one brace short": '{"name": "call_api", "arguments": {"app": "mail", "arguments": {"to": "Bob"}}',
    "data with a name": '{"name": "Alice", "id": 3}',
    "a list of data": '[{"name": "Alice"}, {"name": "Bob"}]',
    "trailing comma": '{"name": "call_api", "arguments": {"app": "mail",}}',
    "not a number": '{"name": "call_api", "arguments": {"n": NaN}}',
    "name is no text": '{"name": 3, "arguments": {}}',
    "thoughts that never end": f"<think>I could say {BARE} and",
    "endless braces": "{" * 20_000,
    "endless brackets": '[{"a":' * 20_000,
    "deep nesting": '{"tool":' * 900 + "1" + "}" * 900,
}


@pytest.mark.parametrize("content", NO_CALL.values(), ids=NO_CALL.keys())
def test_what_holds_no_call_stays_content(content: str) -> None:
    assert parse(content, 4, TOOLS) == assistant(content)


def test_what_is_kept_of_the_prose() -> None:
    assert parse(f"First I count.\n```json\n{BARE}\n```\nDone!", 0).content == "First I count."
    assert parse(BARE, 0).content == ""
    assert parse(f"I know it already. {MARKER}\n41", 0).content == "I know it already."


def test_several_calls_are_numbered() -> None:
    message = parse(f"```json\n[{BARE},\n{BARE.replace('count', 'list')}]\n```", 6, TOOLS)
    assert [call.id for call in message.calls] == ["call_6_0", "call_6_1"]
    assert [call.parsed()["api"] for call in message.calls] == ["count", "list"]


def test_an_invented_tool_is_kept() -> None:
    (call,) = parse('{"name": "send_email", "arguments": {"to": "bob"}}', 0, TOOLS).calls
    assert call.name == "send_email"


def test_a_name_alone_is_a_call_only_of_a_known_tool() -> None:
    (call,) = parse('{"name": "finish"}', 0, TOOLS).calls
    assert call.parsed() == {}
    assert not parse('{"name": "finish"}', 0).calls


def test_braces_and_line_ends_inside_strings() -> None:
    (call,) = parse('Use {this}: {"name": "finish", "arguments": {"answer": "a } b { \\" c\nnext"}}', 0).calls
    assert call.parsed() == {"answer": 'a } b { " c\nnext'}


def test_arguments_that_are_no_object_are_left_to_the_environment() -> None:
    (call,) = parse('{"name": "finish", "arguments": "forty-one"}', 0).calls
    with pytest.raises(ValueError, match="not valid JSON"):
        call.parsed()


def test_the_request_becomes_plain_text() -> None:
    text = plain(CONVERSATION)
    assert text.tools == ()
    assert [m.role for m in text.messages] == [
        *("system", "user", "assistant", "user", "user", "assistant", "user", "assistant", "user")
    ]
    assert not any(m.calls or m.call_id for m in text.messages)
    assert text.messages[0].content.startswith("You are an agent.\n\n")
    assert (
        '- call_api(app: "mail" | "files", api: string, arguments?: object): Call an API.' in text.messages[0].content
    )
    assert "    api: Name of the API." in text.messages[0].content
    assert MARKER not in text.messages[0].content
    assert text.messages[3].content == f"{MARKER}\n41"
    assert text.messages[5].content == '{"name": "call_api", "arguments": {"app": "mail", "api": "unread"}}'
    assert text.decoding.stop == ("END", MARKER)
    assert text.decoding.response_schema is None


def test_a_request_without_tools_is_told_of_none() -> None:
    bare = replace(CONVERSATION, tools=())
    text = plain(bare, force_schema=True)
    assert text.messages[0] == bare.messages[0]
    assert text.decoding == bare.decoding
    assert not any(m.calls for m in text.messages)


def test_tools_are_told_also_without_a_system_prompt() -> None:
    text = plain(Request((user("hi"),), TOOLS))
    assert [m.role for m in text.messages] == ["system", "user"]
    assert text.messages[0].content == tool_text(TOOLS)


def test_malformed_arguments_are_shown_as_written() -> None:
    text = plain(Request((assistant("", ToolCall("c", "finish", '{"answer": ')),)))
    assert json.loads(text.messages[0].content) == {"name": "finish", "arguments": '{"answer": '}


@examples(30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["call_api", "finish", "other"]),
            st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["", "Let me see.", "First: {a}"]),
)
def test_what_is_written_is_read_again(calls: list[tuple[str, dict[str, object]]], prose: str) -> None:
    made = tuple(ToolCall(f"call_2_{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(calls))
    if any(MARKER in call.arguments for call in made):
        return
    (written,) = plain(Request((Message("assistant", prose, made),))).messages
    read = parse(written.content, 2)
    assert read.content == prose
    assert [(c.id, c.name, c.parsed()) for c in read.calls] == [(c.id, c.name, c.parsed()) for c in made]


def test_the_schema_lets_one_call_through() -> None:
    schema = call_schema(TOOLS)
    assert [option["properties"]["name"]["const"] for option in schema["anyOf"]] == ["call_api", "finish"]
    assert schema["anyOf"][0]["properties"]["arguments"] == CALL_API.parameters
    assert call_schema((FINISH,))["properties"]["name"]["const"] == "finish"


def test_definitions_move_to_the_root_of_the_schema() -> None:
    item = {"type": "object", "properties": {"id": {"type": "string"}}}
    parameters = {"type": "object", "properties": {"item": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": item}}
    schema = call_schema((FINISH, ToolSpec("buy", "", parameters)))
    assert schema["$defs"] == {"Item": item}
    assert "$defs" not in schema["anyOf"][1]["properties"]["arguments"]


def test_a_schema_of_the_request_stays() -> None:
    own = {"type": "object"}
    request = Request((user("hi"),), TOOLS, Decoding(response_schema=own))
    assert plain(request, force_schema=True).decoding.response_schema == own
    forced = plain(replace(request, decoding=Decoding()), force_schema=True)
    assert forced.decoding.response_schema == call_schema(TOOLS)
