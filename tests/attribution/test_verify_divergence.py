from __future__ import annotations

import pytest

from recompact.attribution.divergence import (
    actions_of,
    consumed_turns,
    find_dropped,
    first_divergence,
    literal_spans,
    literals,
    needed_facts,
    repeated_actions,
    strings_in,
    visible_text,
)
from recompact.values.chat import ToolCall, assistant, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.trajectory import Action, Boundary, Score, Trajectory

A, B, C = (Action("look", {"page": n}) for n in (1, 2, 3))


def test_the_first_divergence_is_where_two_lists_part() -> None:
    assert first_divergence([A, B], [A, B]) is None
    assert first_divergence([], []) is None
    assert first_divergence([A, B, C], [A, C, C]) == 1
    assert first_divergence([A], [A, B]) == 1
    assert first_divergence([], [A]) == 0
    same_but_for_order = Action("f", {"x": 1, "y": 2}), Action("f", {"y": 2, "x": 1})
    assert first_divergence([same_but_for_order[0]], [same_but_for_order[1]]) is None


def test_repeated_work_is_what_was_done_before_to_the_argument() -> None:
    assert repeated_actions([A, B], [C, B, A, B]) == (1, 2, 3)
    assert repeated_actions([], [A]) == ()
    assert repeated_actions([Action("", text="hello")], [Action("", text="hello"), Action("", text="bye")]) == (0,)


def test_actions_are_calls_also_those_that_cannot_be_read_and_text() -> None:
    calls = (ToolCall("1", "look", '{"page": 1}'), ToolCall("2", "look", "{page"))
    turns = (Turn(assistant("", *calls), (), 1), Turn(assistant("I am done."), (user("Error"),), 1))
    trajectory = Trajectory("t", turns, (), "finished", Score.of(True), Context(()))
    assert actions_of(trajectory) == (A, Action("look", text="{page"), Action("", text="I am done."))


def boundary() -> Boundary:
    turns = tuple(Turn(assistant(text), (user(result),), 10) for text, result in (
        ("I log in.", '{"token": "pay-7f3a9c21", "kind": "bearer"}'),
        ("I look for Ada.", '{"name": "Ada Lovelace", "phone": "555-280-4324", "since": "2025-03-01"}'),
        ("I go on.", '{"total": 12.5}'),
    ))  # fmt: skip
    pre = Context((user("Pay $12.50."),), Summary("Bills: 99.10\nNothing else.", 9), turns)
    post = Context(pre.prefix, Summary("Nothing else.\nAda Lovelace has 555-280-4324.", 9), turns[2:])
    return Boundary(1, 3, pre, post, None, ())


def test_what_was_dropped_is_what_stands_nowhere_in_post() -> None:
    assert len(consumed_turns(boundary())) == 2
    lost = find_dropped(boundary())
    assert lost.literals == ("99.10", "pay-7f3a9c21", "bearer", "2025-03-01")
    assert "Bills: 99.10" in lost.lines
    assert "I log in." in lost.lines
    assert "Nothing else." not in lost.lines
    assert not any(line.startswith("[assistant]") for line in lost.lines)


def test_literals_are_values_and_no_keys() -> None:
    assert literals('{"name": "Ada", "n": 4, "at": "12:30", "file": "f1862.txt"}') == ("Ada", "12:30", "f1862.txt")
    assert literals("it's Ada's 2 cents: 1,234.50 at 12:30 in v1.2") == ("1,234.50", "12:30", "v1.2")
    assert literals("") == ()


def used(*turns: Turn) -> Trajectory:
    return Trajectory("t", turns, (), "finished", Score.of(True), Context(()))


def said(text: str) -> Turn:
    return Turn(assistant(text), (), 1)


def called(arguments: str) -> Turn:
    return Turn(assistant("", ToolCall("1", "pay", arguments)), (), 1)


@pytest.mark.parametrize(
    ("turn", "needed"),
    [
        (called('{"token": "pay-7f3a9c21"}'), ("pay-7f3a9c21",)),
        (called('{"deep": [{"when": "2025-03-01"}]}'), ("2025-03-01",)),
        (called('{"text": "use pay-7f3a9c21, please"}'), ("pay-7f3a9c21",)),
        (called('{"text": "it is a bearer of news"}'), ("bearer",)),
        (called('{"text": "forbearer"}'), ()),  # a part of a longer word
        (called('{"amount": 99.10}'), ()),  # JSON has it as 99.1
        (called('{"amount": "99.10"}'), ("99.10",)),
        (called('{"amount": "x99.10"}'), ()),  # a bare number counts only by itself
        (said("I paid 99.10 with pay-7f3a9c21."), ("99.10", "pay-7f3a9c21")),
        (said("Ada Lovelace has 555-280-4324."), ()),  # the summary has it
        (said("Nothing."), ()),
    ],
)
def test_facts_that_were_dropped_and_used_before_the_compaction_were_needed(
    turn: Turn, needed: tuple[str, ...]
) -> None:
    assert needed_facts(boundary(), [used(turn)]) == needed
    assert needed_facts(boundary(), []) == ()


def test_all_texts_of_a_value_are_found() -> None:
    assert list(strings_in({"a": "x", "b": ["y", {"c": "z"}, 3, None]})) == ["x", "y", "z"]
    assert list(strings_in("alone")) == ["alone"]
    assert list(strings_in(7)) == []


def test_what_the_agent_sees_is_the_prefix_the_summary_and_the_turns() -> None:
    context = Context((user("Pay."), user("Now.")), Summary("so far", 2), (said("one"), said("two")))
    assert visible_text(context) == "Pay.\nNow.\nso far\n[assistant]\none\n[assistant]\ntwo"
    assert visible_text(Context((user("Pay."),))) == "Pay."


def test_a_run_of_hundreds_of_characters_is_no_literal() -> None:
    assert literals("id" + "7" * 397) == ("id" + "7" * 397,)
    assert literals("id" + "7" * 398) == ()
    assert literals("a1 " + "b" * 400 + "7 c2") == ("a1", "c2")
    assert list(literal_spans('say "Ada" to t12')) == [(5, 8), (13, 16)]
