"""What a request's digest depends on, and how arguments are read."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.values.chat import (
    DEEPEST,
    Decoding,
    Message,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
    Usage,
    assistant,
    canonical,
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
    (user("hello"),),
    (ToolSpec("look", "Look."),),
    Decoding(64, 0.5, 0.9, "low", 7, ("END",), {"type": "object"}, 50_000),
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
    "compact_over": 60_000,
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


@pytest.mark.parametrize(("levels", "deep"), [(DEEPEST, False), (DEEPEST + 1, True)])
def test_as_many_levels_as_may_be_are_not_too_many(levels: int, deep: bool) -> None:
    assert too_deep("[" * levels) is deep
    assert too_deep("{" * levels) is deep
    assert too_deep("[{" * (levels // 2) + "[" * (levels % 2)) is deep
    assert not too_deep("[]{}" * 200)  # many, but none within another
    assert DEEPEST == 100


@pytest.mark.parametrize(
    ("text", "levels"), [("", 0), ("[]", 1), ("[[]]", 2), ("[][]", 1), ("]]][", 0), ('"[', 0), ('{"a":[{}]}', 3)]
)
def test_levels_are_those_of_brackets_that_are_open_at_once(text: str, levels: int) -> None:
    assert nesting(text) == levels


def test_what_is_wrong_with_arguments_is_said_with_the_tools_name() -> None:
    def complaint(arguments: str) -> str:
        with pytest.raises(ValueError) as raised:
            ToolCall("c", "look", arguments).parsed()
        return str(raised.value)

    assert complaint("[1]").startswith("the arguments of look ")
    assert complaint("[1]").endswith("list")
    assert numbers_in(complaint("[" * 101)) == ["100"]
    assert complaint('{"a": 1' + "0" * 60 + "e400}").endswith(f"the number 1{'0' * 39} is out of range")
    assert "-Infinity" in complaint('{"a": -Infinity}')
    assert ToolCall("c", "look", "").parsed() == {}


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Message("user", "hi"), {"role": "user", "content": "hi"}),
        (
            Message("assistant", "", (ToolCall("c", "look", "{}"),)),
            {"role": "assistant", "content": "", "calls": [["c", "look", "{}"]]},
        ),
        (Message("tool", "seen", call_id="c"), {"role": "tool", "content": "seen", "call_id": "c"}),
        (Message("assistant", "x", thoughts="[1]"), {"role": "assistant", "content": "x", "thoughts": "[1]"}),
    ],
)
def test_a_message_in_json_has_only_what_it_has(message: Message, data: dict[str, Any]) -> None:
    assert message.to_json() == data
    assert Message.from_json(data) == message


def test_characters_are_those_that_a_model_reads_or_writes() -> None:
    calls = (ToolCall("id", "look", '{"a":1}'), ToolCall("id", "go", "{}"))
    assert Message("assistant", "hello", calls).characters == 5 + 4 + 7 + 2 + 2
    tool = ToolSpec("look", "Looks.", {"type": "object"})
    assert tool.characters == 4 + 6 + len("{'type': 'object'}")
    assert ToolSpec.from_json(tool.to_json()) == tool
    assert ToolSpec("a", "b").parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("usage", "counts", "share"),
    [
        (Usage(1, 2, 3, 4, 5), [1, 2, 3, 4, 5], None),
        (Usage(1, 2, 3, 4, 5, 6), [1, 2, 3, 4, 5, 6], None),
        (Usage(8, 2, 3, 4, 5, 0, 6), [8, 2, 3, 4, 5, 0, 6], 0.5),
        (Usage(8, 2, 0, 0, 1, 0, 8), [8, 2, 0, 0, 1, 0, 8], 0.0),
    ],
)
def test_usage_in_json_and_its_cached_share(usage: Usage, counts: list[int], share: float | None) -> None:
    assert usage.to_json() == counts
    assert usage.cached_share == share
    assert usage.total == usage.input + usage.output
    assert usage + usage == Usage(*(2 * count for count in counts))


def test_decoding_comes_back_from_json_and_seeds_are_put_in() -> None:
    decoding = Decoding(10, 0.5, stop=("a", "b"))
    assert Decoding.from_json({"max_output_tokens": 10, "temperature": 0.5, "stop": ["a", "b"]}) == decoding
    assert Decoding.from_json({}) == Decoding()
    assert decoding.seeded(3) == replace(decoding, seed=3)
    assert decoding.text == '{"max_output_tokens":10,"stop":["a","b"],"temperature":0.5}'
    assert decoding.text == replace(decoding).text


def test_the_json_text_of_a_value_is_one() -> None:
    assert canonical({"b": [1, 2], "a": "ä"}) == '{"a":"ä","b":[1,2]}'


@pytest.mark.parametrize(
    ("text", "shown"), [('{"a": 1}', {"a": 1}), ("", {}), ("{", {"input": "{"}), ("[1]", {"input": "[1]"})]
)
def test_arguments_are_shown_as_an_object_whatever_they_are(text: str, shown: dict[str, object]) -> None:
    assert ToolCall("1", "look", text).readable == shown
