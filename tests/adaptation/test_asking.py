"""Asking an optimizer: what it is sent, how it is asked again, when asking ends, and what is kept of weak answers."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Scripted
from method_support import method_inputs

from recompact.adaptation.method import answers
from recompact.adaptation.optimizer import (
    COMPLAINT,
    PLAIN,
    SAME,
    SYSTEM,
    WARNINGS,
    Answer,
    Optimizer,
    Weak,
    ask,
    read_json,
)
from recompact.models.failures import ContextOverflow, Refused
from recompact.values.chat import Decoding, Reply, Request, Usage, assistant, user

SCHEMA = {"title": "answer", "type": "object"}


def asked(
    *replies: Reply | str | Exception, check: Any = None, redraws: int = 3, **more: Any
) -> tuple[Answer, Scripted]:
    model = Scripted(*replies)
    answer = asyncio.run(ask(Optimizer(model, redraws=redraws), "The question.", SCHEMA, check or good, **more))
    return answer, model


def good(value: Any) -> Any:
    """Accepts {"good": true}; anything with a use is weak."""
    if "use" in value:
        raise Weak(f"only of use {value['use']}", value["use"])
    if not value["good"]:
        raise ValueError(f"bad number {value.get('n', 0)}")
    return value


def bad(number: int) -> str:
    return json.dumps({"good": False, "n": number})


def contents(request: Request) -> list[str]:
    return [message.content for message in request.messages]


def test_an_answer_that_passes_is_asked_for_once() -> None:
    before = (user("earlier"), assistant("said"))
    answer, model = asked('{"good": true}', before=before)
    assert answer == Answer({"good": True}, ())
    (request,) = model.requests
    assert contents(request) == [SYSTEM, "earlier", "said", "The question."]
    assert request.tools == ()
    assert request.decoding == Decoding(max_output_tokens=16384, response_schema=SCHEMA)


def test_the_first_redraw_shows_the_answer_and_later_ones_begin_afresh() -> None:
    answer, model = asked(bad(1), bad(2), bad(3), bad(4), bad(5), '{"good": true}', redraws=5)
    assert answer.objections == tuple(f"bad number {n}" for n in range(1, 6))
    first, second, *later = map(contents, model.requests)
    assert second == [*first, bad(1), COMPLAINT.format(reason="bad number 1", form="one JSON object that")]
    for number, texts in enumerate(later):
        assert texts[:-1] == first[:-1]
        reasons = "; ".join(f"bad number {n}" for n in range(1, number + 3))
        assert texts[-1] == f"The question.\n\n{WARNINGS[number % 3].format(reasons=reasons)}"
    assert len(later) == 4  # so that the warnings come round again


def test_the_same_reason_is_given_once() -> None:
    _, model = asked(bad(7), bad(7) + " ", '{"good": true}')
    assert contents(model.requests[2])[-1].count("bad number 7") == 1


@pytest.mark.parametrize("redraws", [0, 1, 3])
def test_asking_ends_after_the_last_redraw(redraws: int) -> None:
    answer, model = asked(*(bad(n) for n in range(9)), redraws=redraws)
    assert answer.value is None
    assert len(model.requests) == len(answer.objections) == 1 + redraws


def test_the_same_answer_again_ends_it_whenever_it_was_given() -> None:
    answer, model = asked(bad(1), bad(2), bad(1), '{"good": true}')
    assert answer == Answer(None, ("bad number 1", "bad number 2", SAME))
    assert len(model.requests) == 3


def test_of_weak_answers_the_last_is_kept_and_a_bad_one_does_not_replace_it() -> None:
    weak, weaker = '{"use": 1}', '{"use": 2}'
    assert asked(weak, weaker, bad(1), bad(2))[0].value == 2
    assert asked(weak, '{"good": true}')[0] == Answer({"good": True}, ("only of use 1",))
    assert asked(weak, weak)[0] == Answer(1, ("only of use 1", SAME))


def test_a_request_that_is_too_long_or_refused_ends_it_with_what_there_is() -> None:
    answer, _ = asked('{"use": 1}', ContextOverflow("too long"))
    assert answer.value == 1
    assert answer.objections[0] == "only of use 1"
    assert answer.objections[1].startswith("too long")
    assert "[adapt] evidence_tokens" in answer.objections[1]
    answer, _ = asked('{"use": 1}', Refused("against the rules"))
    assert answer == Answer(1, ("only of use 1", "against the rules"))


def test_a_refusal_is_no_answer_even_if_it_reads_like_one() -> None:
    refusal = Reply(assistant('{"good": true}'), Usage(1, 1, 0, 0, 1), "refusal")
    answer, _ = asked(refusal, '{"good":true}')
    assert (answer.value, len(answer.objections)) == ({"good": True}, 1)


def test_nothing_at_all_is_shown_as_such() -> None:
    _, model = asked("", '{"good": true}')
    assert contents(model.requests[1])[-2] == "(nothing)"


def test_each_way_to_miss_the_form_has_its_words() -> None:
    answer, _ = asked("{}", check=lambda value: value["wanted"], redraws=0)
    assert "'wanted'" in answer.objections[0]
    answer, _ = asked("{}", check=lambda value: value + 1, redraws=0)
    assert "unsupported operand" in answer.objections[0]
    answer, _ = asked("{}", check=lambda value: value.missing, redraws=0)
    assert "'dict' object" in answer.objections[0]


def test_an_answer_that_is_no_json_is_read_in_its_own_way() -> None:
    def check(text: str) -> str:
        if text != "GOOD":
            raise ValueError("not good")
        return text

    answer, model = asked("poor", "good", check=check, read=str.upper)
    assert answer == Answer("GOOD", ("not good",))
    first, second = map(contents, model.requests)
    assert first[0] == PLAIN
    assert second[-1] == COMPLAINT.format(reason="not good", form="what")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('So: {"a": 1} and {"b": 2}', {"a": 1}),
        ('{"b": 2}\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a":\n1}\n```\n{"b": 2}', {"a": 1}),
        ('```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```', {"a": 1}),
    ],
)
def test_the_object_is_found_bare_or_in_a_fence(text: str, value: Any) -> None:
    assert read_json(text) == value


# --- which questions are asked again


@pytest.mark.parametrize(
    ("known", "asked", "then"),
    [
        ({}, ["a", "b"], ["new", "new"]),
        ({"a": "good"}, ["b"], ["good", "new"]),
        ({"a": "bad"}, ["b"], ["bad", "new"]),
        ({"a": "bad", "b": "good"}, [], ["bad", "good"]),
        ({"a": "bad", "b": "bad"}, ["a~2", "b~2"], ["new", "new"]),
        ({"a": "bad", "b": "bad", "a~2": "good"}, ["b~2"], ["good", "new"]),  # stopped halfway
        ({"a": "bad", "b": "bad", "a~2": "bad"}, ["b~2"], ["bad", "new"]),
        ({"a": "bad", "a~2": "good"}, ["b"], ["good", "new"]),
        ({"a": "bad", "b": "bad", "a~2": "bad", "b~2": "bad"}, ["a~3", "b~3"], ["new", "new"]),
        ({"a": "bad", "b": "poor"}, ["a~2"], ["new", "poor"]),  # only what failed
        ({"a": "poor", "b": "poor"}, [], ["poor", "poor"]),
    ],
)
def test_what_failed_is_asked_again_where_nothing_is_useful(
    known: dict[str, str], asked: list[str], then: list[str]
) -> None:
    results, new = dict(known), list[str]()
    records = SimpleNamespace(finished=lambda kind: set(results), result=lambda name: results[name])

    async def complete(stage: str, kind: str, units: Any) -> None:
        new.extend(unit.name for unit in units if unit.name not in results)
        results.update(dict.fromkeys(new, "new"))

    inputs = method_inputs(records=records, complete=complete)
    units = {key: key for key in "ab"}
    found = asyncio.run(
        answers(inputs, "s", "k", units, None, useful="good".__eq__, failed="bad".__eq__)  # type: ignore[arg-type]
    )
    assert (new, found) == (asked, dict(zip("ab", then, strict=True)))
