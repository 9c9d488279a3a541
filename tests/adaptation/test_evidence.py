"""What the optimizer gets to see of a boundary: both contexts, both arms; what is cut is marked and counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from recompact.adaptation.evidence import LEVELS, BoundaryEvidence, described
from recompact.attribution.cases import Continuation, Evidence
from recompact.attribution.divergence import actions_of, dropped, needed_facts, repeated
from recompact.attribution.effects import effect_of
from recompact.attribution.findings import Finding
from recompact.chat import Message, ToolCall, system, user
from recompact.context import Context, Summary, Turn
from recompact.outcome import BoundaryId, Outcome, Outcomes
from recompact.store.runs import BoundaryRow, ContinuationRow
from recompact.tokens import counter
from recompact.trajectory import Boundary, Ending, Score, Trajectory

COUNT = counter()
PREFIX = (system("The rules of the house."), user("Task: pay Ann Miller."))
TASK = "Pay Ann Miller what you owe her."
LONG_RESULT = "first words " + "x" * 5_000 + " last words"


def turn(name: str, arguments: str, result: str) -> Turn:
    return Turn.measured(
        Message("assistant", "", (ToolCall("c", name, arguments),)), (Message("tool", result, call_id="c"),), COUNT
    )


LOGIN = turn("login", '{"user": "ann"}', '{"token": "tok-99"}')
LIST = turn("list", '{"page": 1}', "ten rows")
PAY = turn("pay", '{"token": "tok-99"}', "paid")
LONG = turn("read", '{"file": 1}', LONG_RESULT)


def evidence(pre: Sequence[Turn], post: Sequence[Turn], draws: int = 2, segment: Sequence[Turn] = (LOGIN,)) -> Evidence:
    """A boundary whose segment has the token, and continuations of both arms."""
    before = Context(PREFIX, Summary("before: nothing", 3), (*segment, LIST))
    boundary = Boundary(2, 2, before, Context(PREFIX, Summary("## Done\nlogged in", 5), (LIST,)), None, ())
    actions = tuple(action for turn in segment for action in actions_of(trajectory((turn,), True)))
    boundary = Boundary(2, 2, boundary.pre, boundary.post, None, actions)
    id = BoundaryId("collect/t", 2)
    row = BoundaryRow(id.unit, id.index, "t", 2, 100, 10, 9, False)
    outcomes = Outcomes({n: Outcome(1.0, 2) for n in range(draws)}, {n: Outcome(0.0, 9) for n in range(draws)})
    continuations = []
    for draw in range(draws):
        for arm, turns in (("PRE", pre), ("POST", post)):
            made = trajectory(turns, arm == "PRE")
            name = f"continue/t/2/{arm}/{draw}"
            record = ContinuationRow(
                name, id.unit, 2, arm, draw, made.score.success, made.score.value, made.ending, made.steps, {}, ""
            )
            own = actions_of(made)
            continuations.append(Continuation(record, made, own, repeated(boundary.actions, own)))
    finding = Finding(id, row, outcomes, effect_of(outcomes), True)
    continued = [c.trajectory for c in continuations if c.row.arm == "PRE"]
    return Evidence(finding, boundary, dropped(boundary), needed_facts(boundary, continued), tuple(continuations))


def trajectory(turns: Sequence[Turn], success: bool, ending: Ending = "finished") -> Trajectory:
    return Trajectory(
        "t", tuple(turns), (), ending, Score.of(success, problems=["no payment"] * (not success)), Context(())
    )


def shown(made: Evidence, scope: str = "history", budget: int = 60_000) -> BoundaryEvidence:
    return described(made, TASK, scope, budget, COUNT)  # type: ignore[arg-type]


def block(text: str, tag: str) -> str:
    match = re.search(rf"<{tag}[^>]*>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return match[1] if match else ""


@pytest.mark.parametrize("scope", ["history", "prefix"])
def test_everything_is_there_that_a_person_would_need(scope: str) -> None:
    text = shown(evidence([PAY], [LOGIN, PAY]), scope).text
    assert TASK in block(text, "task")
    assert ("The rules of the house." in text) == (scope == "prefix")
    assert "before: nothing" in block(text, "previous-summary")
    assert "tok-99" in block(text, "segment")
    assert "logged in" in block(text, "summary")
    assert "ten rows" in block(text, "last-turn")
    assert "95% interval" in block(text, "effect")
    assert block(text, "missing-facts") == "F1| tok-99"
    continuations = re.findall(r'<continuation number="(\d)" arm="(\w+)" draw="(\d)"', text)
    assert continuations == [("1", "PRE", "1"), ("2", "POST", "1"), ("3", "PRE", "2"), ("4", "POST", "2")]
    after = re.findall(r"<continuation[^>]*>\n(.*?)\n</continuation>", text, re.DOTALL)[1]
    assert "the task was not done (score 0)" in after
    assert "no payment" in after  # the score's details
    assert re.search(r"C2\.\d+\| \(again\) -> login", after)
    assert re.search(r'C2\.\d+\| \{"token": "tok-99"\}', after)  # an observation


def test_every_line_has_a_label_that_stands_for_it() -> None:
    made = shown(evidence([PAY], [LOGIN, PAY]), "prefix")
    for line in made.text.splitlines():
        if not line.startswith("<") and "|" in line:
            label, _, rest = line.partition("| ")
            assert made.lines[label] == rest
    assert {label[0] for label in made.lines} == set("ATPSNLFC")


def test_long_observations_are_cut_head_and_tail_but_the_first_divergence_is_whole() -> None:
    other = turn("read", '{"file": 2}', LONG_RESULT)
    made = shown(evidence([LONG, LONG, PAY], [LONG, other, other]))
    pre, post = re.findall(r"<continuation[^>]*>\n(.*?)\n</continuation>", made.text, re.DOTALL)[:2]
    for continuation, cuts in ((pre, 1), (post, 2)):
        assert continuation.count("characters cut here]") == cuts
        assert continuation.count(LONG_RESULT) == 1
        assert continuation.index("from here on the two arms differ") < continuation.index(LONG_RESULT)
    assert made.cuts == made.text.count("characters cut here]")
    assert made.left_out == made.cuts * (len(LONG_RESULT) - LEVELS[0][1])


def test_a_segment_is_whole_as_long_as_it_fits() -> None:
    made = evidence([PAY], [PAY], segment=(LOGIN, LONG))
    assert LONG_RESULT in block(shown(made).text, "segment")
    assert shown(made).cuts == 0
    short = shown(made, budget=900)
    assert LONG_RESULT not in short.text
    assert "first words" in block(short.text, "segment")
    assert "last words" in block(short.text, "segment")
    assert short.tokens <= 900


@pytest.mark.parametrize("budget", [400, 800, 2_000, 5_000])
def test_the_limit_holds_for_one_call_and_what_is_cut_is_marked_and_counted(budget: int) -> None:
    many = [turn("look", f'{{"page": {n}}}', f"row {n} " * 40) for n in range(40)]
    made = shown(evidence([PAY, *many], [LOGIN, *many], draws=3), budget=budget)
    assert made.tokens <= budget
    marks = made.text.count("characters cut here]") + made.text.count("lines cut here]")
    assert marks
    assert made.cuts >= marks
    assert made.left_out > 0
    assert "tok-99" in block(made.text, "missing-facts")  # what is short stays whole
    assert all(label in made.text for label in made.lines)


def test_without_post_draws_the_trajectory_itself_is_shown() -> None:
    """Chained allocations read the POST draw off it."""
    made = evidence([PAY], [PAY])
    alone = Evidence(made.finding, made.boundary, made.dropped, made.needed, made.continuations[:1])
    text = described(alone, TASK, "history", 60_000, COUNT, (LOGIN, PAY)).text
    assert '<continuation number="2" arm="POST" draw="trajectory">' in text
    assert "later compactions are part of it" in text
