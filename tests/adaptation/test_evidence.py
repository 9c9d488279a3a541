"""What the optimizer gets to see of a boundary: both contexts, both arms; what is cut is marked and counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recompact.adaptation.evidence import (
    LEVELS,
    EvidenceText,
    assemble_evidence,
    describe_boundary,
    gather,
    label_block,
    shared_prefix,
)
from recompact.adaptation.excerpts import Excerpt
from recompact.adaptation.pair import swap_arms
from recompact.attribution.boundary_view import BoundaryView, Continuation
from recompact.attribution.divergence import actions_of, repeated_actions
from recompact.attribution.effects import effect_of
from recompact.engine.store.runs import BoundaryRow, ContinuationRow
from recompact.engine.store.verdicts import Verdict
from recompact.values.chat import Message, ToolCall, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import PAPER, BoundaryId, Outcome, Outcomes
from recompact.values.tokens import counter
from recompact.values.trajectory import Boundary, Ending, Score, Trajectory

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


def evidence(
    pre: Sequence[Turn], post: Sequence[Turn], draws: int = 2, segment: Sequence[Turn] = (LOGIN,)
) -> BoundaryView:
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
            continuations.append(Continuation(record, made, own, repeated_actions(boundary.actions, own)))
    finding = Verdict(id, row, "retained", outcomes, effect_of(outcomes))
    return BoundaryView(finding, boundary, tuple(continuations))


def trajectory(turns: Sequence[Turn], success: bool, ending: Ending = "finished") -> Trajectory:
    return Trajectory(
        "t", tuple(turns), (), ending, Score.of(success, problems=["no payment"] * (not success)), Context(())
    )


def shown(made: BoundaryView, scope: str = "history", budget: int = 60_000) -> EvidenceText:
    return describe_boundary(made, TASK, scope, budget, COUNT)  # type: ignore[arg-type]


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
    assert "not done (score 0)" in after
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
    alone = BoundaryView(made.verdict, made.boundary, made.continuations[:1])
    text = describe_boundary(alone, TASK, "history", 60_000, COUNT, (LOGIN, PAY)).text
    assert '<continuation number="2" arm="POST" draw="trajectory">' in text
    assert "later compactions are part of it" in text


def continuations(text: str) -> list[list[str]]:
    """The lines of each continuation, without their labels."""
    found = re.findall(r"<continuation[^>]*>\n(.*?)\n</continuation>", text, re.DOTALL)
    return [[line.partition("| ")[2] for line in each.split("\n")] for each in found]


def test_a_continuation_says_how_it_ended_in_its_first_lines() -> None:
    pre, post = continuations(shown(evidence([PAY], [LOGIN, PAY], draws=1)).text)
    assert pre[:2] == [
        "ended: finished after 1 step; the task was done (score 1)",
        'details of the score: {"problems":[]}',
    ]
    assert post[:3] == [
        "ended: finished after 2 steps; the task was not done (score 0)",
        'details of the score: {"problems":["no payment"]}',
        "did again what had been done before the compaction: 1 action, marked (again)",
    ]
    assert "from here on the two arms differ:" in pre
    assert post[3] == "from here on the two arms differ:"


def test_an_error_and_long_details_are_told_in_part() -> None:
    made = evidence([PAY], [PAY], draws=1)
    row = replace(made.continuations[0].row, error="e" * 5_000)
    score = replace(made.continuations[0].trajectory.score, details={"why": "w" * 5_000})
    changed = replace(made.continuations[0], row=row, trajectory=replace(made.continuations[0].trajectory, score=score))
    text = shown(replace(made, continuations=(changed,)))
    (lines,) = continuations(text.text)
    assert lines[1].startswith('details of the score: {"why":"www')
    assert lines[2].startswith("error: eee")
    assert text.cuts == 2
    plain = replace(changed, row=replace(row, error=""), trajectory=replace(changed.trajectory, score=Score.of(True)))
    (lines,) = continuations(shown(replace(made, continuations=(plain,))).text)
    assert lines[1] == "[assistant]"


def test_the_shorter_of_two_arms_that_agree_says_that_the_other_goes_on() -> None:
    pre, post = continuations(shown(evidence([PAY], [PAY, LIST], draws=1)).text)
    assert pre[-1] == "here it ends, and the other arm goes on"
    assert "from here on the two arms differ:" not in pre
    at = post.index("from here on the two arms differ:")
    assert post[at + 2] == '-> list({"page": 1})'
    assert "here it ends, and the other arm goes on" not in post


def test_arms_that_do_the_same_do_not_differ() -> None:
    for lines in continuations(shown(evidence([PAY], [PAY])).text):
        assert not any("arm" in line for line in lines)


def test_a_continuation_is_compared_with_the_same_draw_or_else_the_first_of_the_other_arm() -> None:
    made = evidence([PAY], [LOGIN, PAY], draws=1)
    same = evidence([PAY], [PAY], draws=1)
    pre, post = made.continuations
    second = replace(same.continuations[1], row=replace(same.continuations[1].row, draw=1))
    (alone,) = continuations(shown(replace(made, continuations=(pre,))).text)
    assert not any("arm" in line for line in alone)
    first, _, _ = continuations(shown(replace(made, continuations=(pre, second, post))).text)
    assert "from here on the two arms differ:" in first  # with its own draw, not with the one that comes first
    first, _ = continuations(shown(replace(made, continuations=(pre, second))).text)
    assert "from here on the two arms differ:" not in first


def test_calls_that_were_made_before_are_marked_each_once() -> None:
    calls = tuple(ToolCall(f"c{n}", "login", '{"user": "ann"}') for n in range(2))
    twice = Turn.measured(Message("assistant", "", calls), (Message("tool", "in", call_id="c0"),), COUNT)
    made = evidence([PAY], [PAY, twice], draws=1)
    _, post = continuations(shown(made).text)
    assert post.count('(again) -> login({"user": "ann"})') == 2
    assert "did again what had been done before the compaction: 2 actions, marked (again)" in post
    half = replace(made.continuations[1], repeated=(2,))
    _, post = continuations(shown(replace(made, continuations=(made.continuations[0], half))).text)
    assert [line for line in post if "login" in line][:2] == [
        '(again) -> login({"user": "ann"})',
        '-> login({"user": "ann"})',
    ]


def test_parts_that_there_are_none_of_are_left_out() -> None:
    made = evidence([LIST], [LIST], draws=1)
    boundary = replace(made.boundary, pre=Context(PREFIX, None, ()), post=Context(PREFIX))
    bare = replace(made, boundary=boundary, verdict=replace(made.verdict, effect=None))
    text = describe_boundary(bare, "", "history", 60_000, COUNT)
    for tag in ("prefix", "task", "previous-summary", "last-turn", "missing-facts"):
        assert f"<{tag}>" not in text.text
    assert block(text.text, "effect") == "not known"
    assert "<summary>\n\n</summary>" in text.text
    assert text.channel == "none"
    assert shown(made).channel == made.verdict.effect.channel  # type: ignore[union-attr]


def test_the_effect_is_told_with_its_intervals() -> None:
    made = evidence([PAY], [LOGIN, PAY], draws=2)
    effect = made.verdict.effect
    assert effect is not None
    h, b = effect.hazard_estimate, effect.burden_estimate
    assert block(shown(made).text, "effect").split("\n") == [
        f"channel: {effect.channel}",
        f"success lost (H): 1.00, 95% interval {h.low:.2f} to {h.high:.2f}",
        f"steps added (B): 7.0, 95% interval {b.low:.1f} to {b.high:.1f}",
        "continuations: 2 from the context before, 2 from the context after",
    ]


def test_a_budget_that_is_just_enough_cuts_nothing() -> None:
    made = evidence([PAY], [LOGIN, PAY])
    whole = shown(made)
    assert shown(made, budget=whole.tokens) == whole
    less = shown(made, budget=whole.tokens - 1)
    assert less.tokens < whole.tokens
    assert less.cuts > 0


def test_levels_show_less_and_less_of_observations() -> None:
    assert LEVELS == ((None, 1600), (1600, 400), (400, 100))
    made = evidence([LIST, LONG], [LIST, LONG], draws=1, segment=(LOGIN, LONG))
    sizes = [
        sum(len(line) for line in describe_boundary(made, TASK, "history", budget, COUNT).lines.values())
        for budget in (60_000, COUNT(shown(made).text) - 1)
    ]
    assert sizes[0] > sizes[1]


def test_blocks_that_are_small_stay_whole_and_labels_stay_what_they_were() -> None:
    long = label_block("segment", "S", Excerpt("\n".join(f"line {n}" for n in range(1, 201)), 1, 7))
    small = label_block("summary", "N", Excerpt("short\nnotes"), arm="PRE")
    made = assemble_evidence(BoundaryId("collect/t", 1), "burden", [long, small], 120, lambda text: len(text.split()))
    assert made.tokens <= 120
    assert '<summary arm="PRE">\nN1| short\nN2| notes\n</summary>' in made.text
    assert made.lines["S1"] == "line 1"
    assert made.lines["S200"] == "line 200"
    assert 30 < len(made.lines) < 42
    assert made.cuts == 2  # the one that it had, and the middle
    assert made.left_out > 7
    whole = assemble_evidence(
        BoundaryId("collect/t", 1), "burden", [long, small], 9_999, lambda text: len(text.split())
    )
    assert (whole.cuts, whole.left_out, len(whole.lines)) == (1, 7, 202)


def test_what_stands_in_every_prefix_belongs_to_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = {
        "collect/a": (system("The rules."), user("Do a."), user("Be exact.")),
        "collect/b": (system("The rules."), user("Do b."), user("Be exact.")),
    }

    def shared(*units: tuple[str, int]) -> tuple[str, ...]:
        rows = [SimpleNamespace(unit=unit, id=BoundaryId(unit, index)) for unit, index in units]
        monkeypatch.setattr("recompact.adaptation.evidence.boundary_rows", lambda store: rows)
        return shared_prefix(cast(Any, None))

    def read(store: Any, id: BoundaryId) -> Any:
        assert id.index == 1  # the first of each
        return SimpleNamespace(pre=Context(prefixes[id.unit]))

    monkeypatch.setattr("recompact.adaptation.evidence.read_boundary", read)
    assert shared(("collect/a", 1), ("collect/a", 2), ("collect/b", 1)) == ("Be exact.", "The rules.")
    assert shared(("collect/a", 1), ("collect/a", 2)) == ()
    assert shared() == ()


@pytest.mark.parametrize("arms", [("PRE", "POST"), ("PRE",)])
def test_the_trajectory_is_read_only_where_there_is_no_post_draw(
    monkeypatch: pytest.MonkeyPatch, arms: tuple[str, ...]
) -> None:
    made = evidence([PAY], [PAY], draws=1)
    made = replace(made, continuations=tuple(c for c in made.continuations if c.row.arm in arms))
    collected = trajectory([LOGIN, LIST, turn("after", "{}", "on and on")], True)
    monkeypatch.setattr("recompact.adaptation.evidence.read_trajectory", lambda store, unit: collected)
    for tasks, shown_task in (({"collect/t": TASK}, True), ({}, False)):
        (found,) = gather(cast(Any, None), tasks, "history", 60_000, COUNT, lambda store: [made])
        assert ("<task>" in found.text) == shown_task
        assert ("on and on" in found.text) == (arms == ("PRE",))
        assert found.text.count("-> login(") == 1  # the turns before the boundary are in its segment alone


def test_swapped_arms_follow_each_other_in_the_same_order_with_the_facts_of_the_other_arm() -> None:
    made = evidence([PAY], [LIST], draws=2)
    assert made.needed == ("tok-99",)
    other = swap_arms(made, PAPER)
    assert [(c.row.draw, c.row.arm) for c in other.continuations] == [(0, "PRE"), (0, "POST"), (1, "PRE"), (1, "POST")]
    assert [c.row.name.split("/")[-2] for c in other.continuations] == ["POST", "PRE", "POST", "PRE"]
    assert other.needed == ()
    assert other.verdict.outcomes == Outcomes(made.verdict.outcomes.post, made.verdict.outcomes.pre)
    assert other.verdict.effect == effect_of(other.verdict.outcomes)
    assert swap_arms(other, PAPER).needed == made.needed
