"""ACON's candidates: which rewritings are accepted, freely and under the lock, and what analyses hold."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from fakes import Scripted
from schemas import strict_fields
from sentences import numbers_in

from recompact.adaptation.acon import FREE, LOCKED, Assignment, rewrite, sample_entries
from recompact.adaptation.acon_evidence import (
    Analysis,
    CompactionText,
    analyse,
    compactions,
    length_introduction,
)
from recompact.adaptation.excerpts import in_segments, segments, shown_turns, summaries, without_middle
from recompact.adaptation.optimizer import Optimizer
from recompact.environments.protocol import Task
from recompact.values.candidate import Candidate, Clause, read_record
from recompact.values.chat import assistant
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import default_template
from recompact.values.trajectory import Boundary, Score, Trajectory

ORIGINAL = replace(default_template(), provenance={"from": "somewhere"})
ENTRIES = {"a": {"task": "a", "remedies": ["Grüße"]}, "b": {"task": "b", "remedies": ["two"]}}


def draft(first: str = "", update: str = "", /, **changes: Any) -> str:
    rule = {"clause": "Keep ids.", "section": "Goal", "entries": ["a"]}
    parts = {"first": ORIGINAL.first + first, "update": ORIGINAL.update + update}
    return json.dumps({"rules": [rule], **parts, **changes})


def rewritten(text: str, **assignment: Any) -> tuple[Candidate, Scripted]:
    model = Scripted(text)
    given = Assignment(ORIGINAL, ENTRIES, **assignment)
    return asyncio.run(rewrite(Optimizer(model, redraws=0), "c", given, ["a", "b"])), model


@pytest.mark.parametrize("parts", [("Keep ids.\n", ""), ("", "Keep ids.\n")])
def test_a_change_in_one_part_is_enough(parts: tuple[str, str]) -> None:
    candidate, model = rewritten(draft(*parts))
    assert candidate.template == replace(
        ORIGINAL, first=ORIGINAL.first + parts[0], update=ORIGINAL.update + parts[1], provenance={}
    )
    assert candidate.template.provenance == {}
    assert candidate.clauses == (Clause("Keep ids.", "Goal", ("a",)),)
    assert candidate.objections == ()
    prompt = model.requests[0].messages[-1].content
    assert '{"task": "a", "remedies": ["Grüße"]}\n{"task": "b", "remedies": ["two"]}' in prompt
    assert FREE in prompt
    assert LOCKED not in prompt
    assert strict_fields(model.requests[0]) == [["first", "rules", "update"], ["clause", "entries", "section"]]


def test_the_locked_variant_is_told_of_the_lock() -> None:
    _, model = rewritten(draft("Keep ids.\n"), locked=True)
    prompt = model.requests[0].messages[-1].content
    assert LOCKED in prompt
    assert FREE not in prompt


def test_what_changes_nothing_is_refused() -> None:
    candidate, _ = rewritten(draft())
    assert candidate == Candidate("c", None, (), ("nothing was changed",))


def test_no_more_than_five_breaks_are_named() -> None:
    headings = [line for line in ORIGINAL.first.splitlines() if line.startswith("## ")]
    literals = frozenset(f"x{n}y" for n in range(9))
    candidate, _ = rewritten(draft(" ".join(sorted(literals))), locked=True, instances=literals)
    assert len(headings) > 1
    assert candidate.template is None
    assert sum(f"'{literal}'" in candidate.objections[0] for literal in literals) == 5


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("part", ["first", "update"])
def test_placeholders_stay_in_both_parts(part: str, locked: bool) -> None:
    text = draft("Keep.\n", "Keep.\n", **{part: ORIGINAL.part(part).replace("{{ budget }}", "many")})
    candidate, _ = rewritten(text, locked=locked)
    assert candidate.template is None
    assert candidate.objections[0].startswith(f"{part}:")
    assert "{{ budget }}" in candidate.objections[0]


def test_only_the_lock_forbids_instances() -> None:
    assert rewritten(draft("Mind tok-9."), locked=True, instances=frozenset({"tok-9"}))[0].template is None
    assert rewritten(draft("Mind tok-9."), locked=False, instances=frozenset({"tok-9"}))[0].template is not None


def rule(**changes: Any) -> dict[str, Any]:
    return {"clause": "Keep " + "very " * 30, "section": "Goal", "entries": ["a"], **changes}


def test_a_clause_may_have_no_grounds_but_none_that_were_not_given() -> None:
    candidate, _ = rewritten(draft("x", rules=[rule(entries=[]), rule(entries=["b", "a"])]))
    assert [clause.answers for clause in candidate.clauses] == [(), ("b", "a")]
    refused, _ = rewritten(draft("x", rules=[rule(entries=["a", "z"])]))
    begin = ("Keep " + "very " * 30)[:60]
    (objection,) = refused.objections
    assert repr(begin) in objection
    assert "['z']" in objection
    for wrong, name in (({"rules": "none"}, "rules"), ({"rules": [rule(entries="a")]}, "entries")):
        (objection,) = rewritten(draft("x", **wrong))[0].objections
        assert name in objection


def test_an_answer_may_leave_out_the_last_line_end() -> None:
    candidate, _ = rewritten(draft("Keep ids."))
    assert candidate.template is not None
    assert candidate.template.first.endswith("Keep ids.\n")


def test_a_sample_keeps_the_order_of_the_names() -> None:
    names = [f"{n:02d}" for n in range(40)]
    for candidate in ("a", "b", "c"):
        sample = sample_entries(names, 7, candidate, 3)
        assert len(sample) == 7
        assert list(sample) == sorted(sample)
    assert sample_entries(names, 40, "a", 3) == tuple(names)
    assert sample_entries([], 3, "a", 3) == ()


# --- compactions

TASK = Task("t", "Do it now.")


def words(text: str) -> int:
    return len(text.split())


def turn(word: str, times: int = 1) -> Turn:
    return Turn(assistant("\n".join([word] * times)), (), 1)


def trajectory(turns: int = 6, notes: tuple[str, ...] = ("first notes", "second notes"), times: int = 1) -> Trajectory:
    """Compactions after two turns and after four; each leaves the last turn as it was."""
    made = tuple(turn(f"w{n}", times) for n in range(1, turns + 1))
    boundaries = []
    summary: Summary | None = None
    for index, text in enumerate(notes, 1):
        step = 2 * index
        pre = Context((), summary, made[max(0, step - 3) : step])
        summary = Summary(text, 2)
        boundaries.append(Boundary(index, step, pre, Context((), summary, made[step - 1 : step]), None, ()))
    return Trajectory("t", made, tuple(boundaries), "finished", Score.of(True), Context(()))


def test_segments_share_no_turn_and_lose_none() -> None:
    made = trajectory()
    assert [[t.message.content for t in part] for part in segments(made)] == [["w1"], ["w2", "w3"], ["w4", "w5", "w6"]]
    assert segments(trajectory(notes=())) == (trajectory(notes=()).turns,)
    assert summaries(made) == ("first notes", "second notes")


def test_a_compaction_without_a_summary_wrote_nothing() -> None:
    made = trajectory(notes=("first notes",))
    (boundary,) = made.boundaries
    assert summaries(replace(made, boundaries=(replace(boundary, post=Context(())),))) == ("",)


def test_segments_and_summaries_take_turns_and_the_last_segment_has_none() -> None:
    shown = in_segments(trajectory(notes=("first notes",), turns=3), 1_000, words)
    assert shown.text == (
        '<segment number="1">\n[assistant]\nw1\n</segment>\n<summary number="1">\nfirst notes\n</summary>\n'
        '<segment number="2">\n[assistant]\nw2\n\n[assistant]\nw3\n</segment>'
    )
    assert (shown.cuts, shown.left_out) == (0, 0)


def test_each_segment_gets_an_equal_share_of_what_the_summaries_leave() -> None:
    made = trajectory(times=50)
    budget = 94  # four words of summaries, thirty for each of the three segments
    shown = in_segments(made, budget, words)
    excerpts = [shown_turns(part, 30, words) for part in segments(made)]
    for excerpt in excerpts:
        assert excerpt.text in shown.text
    assert shown.cuts == sum(excerpt.cuts for excerpt in excerpts) == 3
    assert shown.left_out == sum(excerpt.left_out for excerpt in excerpts)


def test_summaries_that_are_too_long_by_themselves_lose_their_middle() -> None:
    made = trajectory(notes=("\n".join(["long"] * 300), "short"))
    shown = in_segments(made, 40, words)
    assert words(shown.text) <= 40
    assert "lines cut here]" in shown.text
    assert shown.cuts > 0
    whole = in_segments(trajectory(notes=("\n".join(["long"] * 80), "short")), 40, words)
    assert whole.text.count("long") == 80  # twenty words for each of the tags are not held against it


def test_twenty_tokens_for_each_part_are_left_to_the_tags() -> None:
    made = trajectory(notes=("\n".join(["long"] * 80),), turns=3)
    whole = in_segments(made, 70, words).text  # two segments without room of their own, and one summary
    assert whole.count("long") == 80
    assert in_segments(made, words(whole) - 3 * 20, words).text == whole
    assert in_segments(made, words(whole) - 3 * 20 - 1, words).text.count("long") < 80


def test_a_compaction_is_shown_with_what_it_read_and_what_came_next() -> None:
    first, second = compactions(TASK, trajectory(), 1_000, words)
    assert first == CompactionText(
        "t#1",
        "first notes",
        '<task name="t">\nDo it now.\n</task>\n<segment>\n[assistant]\nw1\n</segment>\n'
        "<summary>\nfirst notes\n</summary>\n"
        "<what-came-next>\n[assistant]\nw2\n\n[assistant]\nw3\n</what-came-next>",
    )
    assert second.name == "t#2"
    assert "<previous-summary>\nfirst notes\n</previous-summary>\n<segment>\n[assistant]\nw2" in second.text


def test_segment_and_continuation_share_what_the_texts_leave() -> None:
    made = trajectory(times=60)
    _, second = compactions(TASK, made, 87, words)  # 3 of the task, 2 and 2 of summaries, 40 for each
    parts = segments(made)
    segment, following = (shown_turns(parts[at], 40, words) for at in (1, 2))
    assert f"<segment>\n{segment.text}\n</segment>" in second.text
    assert f"<what-came-next>\n{following.text}\n</what-came-next>" in second.text


def test_a_long_previous_summary_may_take_a_quarter() -> None:
    long = "\n".join(["note"] * 200)
    _, second = compactions(TASK, trajectory(notes=(long, "short")), 80, words)
    previous = without_middle(long, 20, words)
    assert f"<previous-summary>\n{previous.text}\n</previous-summary>" in second.text


COMPACTION = CompactionText("t#1", "the token is\n tok-9", "the whole text")


def analysed(*answers: Any, redraws: int = 0) -> Analysis:
    model = Scripted(*(json.dumps(each) for each in answers))
    return asyncio.run(analyse(Optimizer(model, redraws=redraws), COMPACTION))


@pytest.mark.parametrize(
    ("remove", "keep"),
    [
        ([{"kind": "pages", "how": "less"}], []),
        ([], [{"kind": "tokens", "quote": "token is tok-9", "reason": "used"}]),
    ],
)
def test_either_half_of_an_analysis_is_enough(remove: list[Any], keep: list[Any]) -> None:
    analysis = analysed({"remove": remove, "keep": keep})
    assert analysis == Analysis(
        "t#1",
        len(COMPACTION.summary),
        tuple(remove),
        tuple(keep),
    )
    assert read_record(Analysis, json.loads(json.dumps(asdict(analysis)))) == analysis


def test_the_form_of_an_analysis_is_demanded() -> None:
    model = Scripted(json.dumps({"remove": [{"kind": "p", "how": "h"}], "keep": []}))
    asyncio.run(analyse(Optimizer(model), COMPACTION))
    assert strict_fields(model.requests[0]) == [["keep", "remove"], ["how", "kind"], ["kind", "quote", "reason"]]


def test_an_analysis_that_names_nothing_is_refused_and_its_reduced_form_has_no_quotes() -> None:
    empty = analysed({"remove": [], "keep": []})
    assert (empty.name, empty.length, empty.remove, empty.keep) == ("t#1", 19, (), ())
    assert len(empty.refused) == 1
    full = analysed({"remove": [{"kind": "p", "how": "h"}], "keep": [{"kind": "k", "quote": "tok-9", "reason": "r"}]})
    assert full.lesson() == {
        "compaction": "t#1",
        "remove": [{"kind": "p", "how": "h"}],
        "keep": [{"kind": "k", "reason": "r"}],
    }


def test_the_introduction_says_how_long_summaries_are_on_average() -> None:
    text = length_introduction([Analysis("a#1", 100), Analysis("a#2", 201)])
    assert "150" in numbers_in(text)
    assert "{entries}" in text
