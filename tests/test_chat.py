"""What a request's digest depends on, and how arguments are read."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.chat import (
    DEEPEST,
    Decoding,
    Message,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
    Usage,
    assistant,
    chain_digest,
    nesting,
    too_deep,
    user,
    whole,
)


def test_a_digest_that_is_known_already_is_no_part_of_a_request() -> None:
    messages = (user("hello"),)
    assert Request(messages) == Request(messages, chain=chain_digest("", messages))
    assert Request(messages).digest == Request(messages, chain=chain_digest("", messages)).digest


ASK = Request(
    (user("hello"),), (ToolSpec("look", "Look."),), Decoding(64, 0.5, 0.9, "low", 7, ("END",), {"type": "object"})
)

OTHERS: dict[str, Request] = {
    "another message": replace(ASK, messages=(user("hallo"),)),
    "another role": replace(ASK, messages=(assistant("hello"),)),
    "one more message": replace(ASK, messages=(user("hello"), user(""))),
    "a call": replace(ASK, messages=(assistant("hello", ToolCall("c", "look", "{}")),)),
    "no tools": replace(ASK, tools=()),
    "another tool": replace(ASK, tools=(ToolSpec("peek", "Look."),)),
    "another description": replace(ASK, tools=(ToolSpec("look", "Look there."),)),
    "other parameters": replace(ASK, tools=(ToolSpec("look", "Look.", {"type": "object"}),)),
    "two tools": replace(ASK, tools=(*ASK.tools, *ASK.tools)),
}
CHANGED: dict[str, Any] = {
    "max_output_tokens": 65,
    "temperature": 0.6,
    "top_p": 0.8,
    "reasoning_effort": "high",
    "seed": 8,
    "stop": ("STOP",),
    "response_schema": {"type": "array"},
}


def test_the_digest_of_a_request_depends_on_everything_that_decides_the_reply() -> None:
    assert CHANGED.keys() == {each.name for each in fields(Decoding)}
    decoded = {key: replace(ASK, decoding=replace(ASK.decoding, **{key: value})) for key, value in CHANGED.items()}
    nothing: dict[str, Any] = dict.fromkeys(CHANGED.keys() - {"stop"})
    absent = {f"no {key}": replace(ASK, decoding=replace(ASK.decoding, **{key: nothing[key]})) for key in nothing}
    zero = {"temperature of zero": replace(ASK, decoding=replace(ASK.decoding, temperature=0.0))}
    every = {"as it is": ASK, **OTHERS, **decoded, **absent, **zero}
    digests = {name: request.digest for name, request in every.items()}
    assert len(set(digests.values())) == len(digests), digests
    assert replace(ASK, messages=(user("hello"),)).digest == ASK.digest


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("[" * 980 + "]" * 980, f"nested more than {DEEPEST} levels"),
        ('{"a": ' + "[" * 50_000, f"nested more than {DEEPEST} levels"),
        ('{"a": NaN}', "NaN is not a number in JSON"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("[1]", "must be a JSON object, not list"),
        ("{", "not valid JSON"),
    ],
)
def test_arguments_that_cannot_be_used_are_a_mistake_of_the_model(arguments: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ToolCall("c", "look", arguments).parsed()


def test_halves_of_characters_in_arguments_are_replaced() -> None:
    assert ToolCall("c", "look", '{"a\\udfff": ["\\ud800", "\\ud83d\\ude00"]}').parsed() == {"a�": ["�", "😀"]}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), values, max_size=4), st.booleans())
def test_good_arguments_are_read_as_they_are(arguments: dict[str, Any], escaped: bool) -> None:
    import json

    text = json.dumps(arguments, ensure_ascii=escaped)
    assert not too_deep(text)
    assert ToolCall("c", "look", text).parsed() == arguments


@given(st.integers(1, 300), st.text(alphabet='[]{}"\\\\x', max_size=30))
def test_brackets_inside_texts_are_no_levels(levels: int, text: str) -> None:
    import json

    assert nesting("[" * levels + json.dumps(text) + "]" * levels) == levels


@given(st.text(st.characters(codec=None)))
def test_whole_texts_can_be_encoded_and_stay(text: str) -> None:
    whole(text).encode()
    assert whole(whole(text)) == whole(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert whole(text) == text


def test_estimated_calls_add_up_and_do_not_show_where_there_are_none() -> None:
    assert Usage(1, 2, 0, 0, 1, 1) + Usage(1, 2, 0, 0, 1) + Usage(1, 2, 0, 0, 1, 1) == Usage(3, 6, 0, 0, 3, 2)
    assert Usage(1, 2, 3, 4, 5).to_json() == [1, 2, 3, 4, 5]
    assert Usage(*Usage(1, 2, 3, 4, 5, 6).to_json()) == Usage(1, 2, 3, 4, 5, 6)


def test_a_reply_comes_back_with_its_notes() -> None:
    reply = Reply(Message("assistant", "x"), Usage(1, 2, 0, 0, 1, 1), "length", "m", ("cut",))
    assert Reply.from_json(reply.to_json()) == reply
    assert "notes" not in Reply(Message("assistant", "x")).to_json()
