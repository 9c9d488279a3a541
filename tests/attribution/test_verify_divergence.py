from __future__ import annotations

from recompact.attribution.divergence import actions_of, consumed, dropped, first_divergence, literals, repeated
from recompact.chat import ToolCall, assistant, user
from recompact.context import Context, Summary, Turn
from recompact.trajectory import Action, Boundary, Score, Trajectory

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
    assert repeated([A, B], [C, B, A, B]) == (1, 2, 3)
    assert repeated([], [A]) == ()
    assert repeated([Action("", text="hello")], [Action("", text="hello"), Action("", text="bye")]) == (0,)


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
    assert len(consumed(boundary())) == 2
    lost = dropped(boundary())
    assert lost.literals == ("99.10", "pay-7f3a9c21", "bearer", "2025-03-01")
    assert "Bills: 99.10" in lost.lines
    assert "I log in." in lost.lines
    assert "Nothing else." not in lost.lines
    assert not any(line.startswith("[assistant]") for line in lost.lines)


def test_literals_are_values_and_no_keys() -> None:
    assert literals('{"name": "Ada", "n": 4, "at": "12:30", "file": "f1862.txt"}') == ("Ada", "12:30", "f1862.txt")
    assert literals("it's Ada's 2 cents: 1,234.50 at 12:30 in v1.2") == ("1,234.50", "12:30", "v1.2")
    assert literals("") == ()
