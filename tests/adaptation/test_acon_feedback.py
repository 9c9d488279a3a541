"""ACON's evidence: which tasks serve, how two runs are shown, and what of an optimizer's feedback holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fakes import Scripted
from schemas import strict_fields
from sentences import numbers_in

from recompact.adaptation.acon_evidence import (
    BASELINE,
    CATEGORIES,
    Feedback,
    FeedbackTasks,
    contrast,
    give_feedback,
    read_list,
    run_pair,
)
from recompact.adaptation.excerpts import Excerpt, shown_turns
from recompact.adaptation.optimizer import Optimizer
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.values.candidate import read_record
from recompact.values.chat import assistant
from recompact.values.context import Context, Summary, Turn
from recompact.values.trajectory import Boundary, Ending, Score, Trajectory

Run = tuple[float, int, Ending]
"""Score, steps and ending."""


def recorded(path: Path, alone: Mapping[str, Run], compacted: Mapping[str, Run]) -> Store:
    store = Store.open(path)
    for phase, runs in ((BASELINE, alone), ("collect", compacted)):
        for task, (value, steps, ending) in runs.items():
            turns = (Turn(assistant("on"), (), 1),) * steps
            made = Trajectory(task, turns, (), ending, Score(value >= 1, value), Context(()))
            write_trajectory(store, f"{phase}/{task}", made, phase=phase, run=0, groups={}, seconds=0.0)
    return store


def run(value: float, steps: int = 1, ending: Ending = "finished") -> Run:
    return value, steps, ending


def test_a_run_that_its_environment_broke_says_nothing_in_either_phase(tmp_path: Path) -> None:
    broken = run(0, ending="environment error")
    alone = {"a": run(1), "b": broken, "c": run(1), "d": run(1)}
    with recorded(tmp_path / "a.db", alone, {"a": run(0), "b": run(0), "c": broken, "d": run(1)}) as store:
        assert contrast(store) == FeedbackTasks(("a",), True, failed=2, of=3)


def test_a_task_that_never_ran_alone_is_no_regression(tmp_path: Path) -> None:
    with recorded(tmp_path / "a.db", {"a": run(1)}, {"a": run(0), "b": run(0)}) as store:
        assert contrast(store).tasks == ("a",)
    with recorded(tmp_path / "b.db", {}, {"b": run(0)}) as store:
        assert contrast(store) == FeedbackTasks(("b",), False, failed=1, of=1)


@pytest.mark.parametrize(("after", "regressed"), [(0.5, False), (0.4375, True), (0.9, False)])
def test_a_graded_score_must_fall_by_more_than_the_drop(tmp_path: Path, after: float, regressed: bool) -> None:
    with recorded(tmp_path / "a.db", {"a": run(0.5), "b": run(1)}, {"a": run(after), "b": run(1)}) as store:
        assert contrast(store).regressions == regressed


def test_scores_are_graded_if_one_of_either_phase_is(tmp_path: Path) -> None:
    """A fall from one grade to a lower one counts then, though neither run succeeded."""
    with recorded(tmp_path / "a.db", {"a": run(0.5)}, {"a": run(0)}) as store:
        assert contrast(store).regressions
    with recorded(tmp_path / "b.db", {"a": run(1)}, {"a": run(0.97)}) as store:
        assert not contrast(store).regressions  # a failure, but no fall
    with recorded(tmp_path / "c.db", {"a": run(1)}, {"a": run(0)}) as store:
        assert contrast(store).regressions


@pytest.mark.parametrize(("steps", "slow"), [(5, False), (6, True), (7, True)])
def test_a_success_is_slow_from_so_many_times_the_steps_on(tmp_path: Path, steps: int, slow: bool) -> None:
    with recorded(tmp_path / "a.db", {"a": run(1, 4)}, {"a": run(1, steps)}) as store:
        assert contrast(store, step_ratio=1.5).tasks == (("a",) if slow else ())
        assert contrast(store).tasks == ()


@pytest.mark.parametrize("values", [(0, 0), (0, 1)])
def test_only_successes_both_ways_are_slow(tmp_path: Path, values: tuple[float, float]) -> None:
    with recorded(tmp_path / "a.db", {"a": run(values[0], 1)}, {"a": run(values[1], 9)}) as store:
        assert not contrast(store, step_ratio=1.5).regressions


def test_what_serves_is_said() -> None:
    assert numbers_in(FeedbackTasks((), False, 0, 7).statement) == ["7"]
    assert numbers_in(FeedbackTasks(("a", "b"), True, 3, 7).statement) == ["2", "7"]
    assert numbers_in(FeedbackTasks(("a", "b", "c"), False, 3, 7).statement) == ["3"]


# --- two runs as one text

TASK = Task("t1", "Do it.", {})


def turn(word: str, lines: int = 1) -> Turn:
    return Turn(assistant("\n".join([word] * lines)), (), 1)


def trajectory(success: bool, turns: tuple[Turn, ...], compacted: bool = False) -> Trajectory:
    boundaries: tuple[Boundary, ...] = ()
    if compacted:
        pre = Context((), None, turns[:2])
        boundaries = (Boundary(1, 2, pre, Context((), Summary("the notes", 2), turns[1:2]), None, ()),)
    return Trajectory("t1", turns, boundaries, "finished", Score.of(success), Context(()))


def words(text: str) -> int:
    return len(text.split())


def test_both_runs_are_shown_with_how_they_ended() -> None:
    alone = trajectory(True, (turn("alone"),))
    compacted = trajectory(False, (turn("one"), turn("two"), turn("three")), compacted=True)
    pair = run_pair(TASK, alone, compacted, 1_000, words)
    assert pair.text == (
        '<task name="t1">\nDo it.\n</task>\n'
        '<without-compaction success="yes" steps="1" ending="finished">\n[assistant]\nalone\n</without-compaction>\n'
        '<with-compaction success="no" steps="3" ending="finished" compactions="1">\n'
        '<segment number="1">\n[assistant]\none\n</segment>\n<summary number="1">\nthe notes\n</summary>\n'
        '<segment number="2">\n[assistant]\ntwo\n\n[assistant]\nthree\n</segment>\n</with-compaction>'
    )
    assert (pair.cuts, pair.left_out) == (0, 0)


def test_each_run_may_take_half_of_what_the_task_leaves() -> None:
    long = trajectory(True, (turn("word", 100),))
    pair = run_pair(TASK, long, long, 62, words)  # two words of the task, thirty for each run
    assert shown_turns(long.turns, 30, words).text in pair.text
    assert pair.text.count("lines cut here]") == pair.cuts == 2
    assert pair.left_out == 2 * shown_turns(long.turns, 30, words).left_out


# --- the optimizer's feedback

PAIR = Excerpt("the token was\n tok-9 in the end", cuts=3, left_out=40)


def answer(**changes: Any) -> dict[str, Any]:
    finding = {"category": "missing fact", "kind": "tokens", "quote": "token was tok-9", "explanation": "Lost."}
    return {
        "divergence": "At the login.",
        "timeline": ["first", " ", "then"],
        "findings": [finding],
        "wasted": [" twice the same "],
        "missed": [],
        "remedies": ["Keep tokens.", ""],
        "mechanism": "It logged in again.",
        "reliability": 0.5,
        **changes,
    }


def given(*answers: Any, redraws: int = 3) -> tuple[Feedback, Scripted]:
    model = Scripted(*(json.dumps(each) for each in answers))
    return asyncio.run(give_feedback(Optimizer(model, redraws=redraws), "t1", PAIR)), model


def finding(**changes: Any) -> list[dict[str, Any]]:
    return [{**answer()["findings"][0], **changes}]


def test_feedback_has_everything_of_the_answer_and_the_cuts_of_the_evidence() -> None:
    feedback, model = given(answer())
    assert feedback == Feedback(
        task="t1",
        divergence="At the login.",
        findings=({"category": "missing fact", "kind": "tokens", "quote": "token was tok-9", "explanation": "Lost."},),
        remedies=("Keep tokens.",),
        mechanism="It logged in again.",
        refused=(),
        timeline=("first", "then"),
        wasted=("twice the same",),
        missed=(),
        reliability=0.5,
        cuts=3,
        left_out=40,
    )
    prompt = model.requests[0].messages[-1].content
    assert PAIR.text in prompt
    assert all(category in prompt for category in CATEGORIES)
    assert strict_fields(model.requests[0]) == [sorted(answer()), sorted(finding()[0])]


@pytest.mark.parametrize(
    ("quote", "held"),
    [
        ("token was tok-9", "token was tok-9"),
        (" tok-9   in ", " tok-9   in "),
        ("tok-8", ""),
        ("", ""),
    ],
)
def test_a_quote_that_does_not_stand_in_the_runs_is_dropped(quote: str, held: str) -> None:
    feedback, _ = given(answer(findings=finding(quote=quote)))
    assert feedback.findings[0]["quote"] == held
    assert feedback.refused == ()


@pytest.mark.parametrize(("said", "reliability"), [(1, 1.0), (0.25, 0.25), ("high", None), (None, None)])
def test_a_reliability_is_a_number_or_nothing(said: Any, reliability: float | None) -> None:
    feedback, _ = given(answer(reliability=said))
    assert feedback.reliability == reliability
    assert feedback.remedies


def test_feedback_without_remedies_or_of_an_unknown_category_is_asked_for_again() -> None:
    feedback, _ = given(answer(remedies=[" "]), answer(findings=finding(category="luck")), answer(wasted="x"), answer())
    assert feedback.remedies == ("Keep tokens.",)
    remedies, category, wasted = feedback.refused
    assert "remedies" in remedies
    assert "'luck'" in category
    assert ", ".join(CATEGORIES) in category
    assert "wasted" in wasted
    refused, _ = given(answer(remedies=[]), redraws=0)
    assert refused == Feedback("t1", refused=(remedies,), cuts=3, left_out=40)


def test_feedback_comes_back_from_json_as_it_was() -> None:
    feedback, _ = given(answer(remedies=[]), answer())
    data = json.loads(json.dumps(asdict(feedback)))
    assert data["findings"] == finding()
    assert data["refused"] == list(feedback.refused) != []
    assert read_record(Feedback, data) == feedback


def test_a_candidate_sees_findings_waste_and_remedies_without_quotes() -> None:
    assert given(answer())[0].lesson() == {
        "task": "t1",
        "findings": [{"category": "missing fact", "kind": "tokens", "explanation": "Lost."}],
        "wasted": ["twice the same"],
        "remedies": ["Keep tokens."],
    }


def test_a_list_is_a_list_and_nothing_that_can_be_gone_through() -> None:
    assert read_list({"x": [1, 2]}, "x") == [1, 2]
    for other in ("text", {"a": 1}, None, (1, 2)):
        with pytest.raises(ValueError, match=r"\bx\b"):
            read_list({"x": other}, "x")
