"""What a compaction took: literals by kind, names of parameters, and work that was done again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sentences import numbers_in

from recompact.adaptation.facts import (
    CLAUSES,
    ENTRIES,
    ORDERS,
    UNALTERED,
    Form,
    candidates_from,
    clause_of,
    missing_kinds,
    reasons,
    section_of,
    sizes,
    with_clauses,
)
from recompact.adaptation.missing_facts import (
    KINDS,
    LONGEST,
    Kind,
    MissingFacts,
    kind_of,
    missing_facts,
    number_of_facts,
)
from recompact.attribution.boundary_view import BoundaryView, Continuation
from recompact.attribution.divergence import actions_of
from recompact.engine.store.runs import BoundaryRow, ContinuationRow
from recompact.engine.store.verdicts import Verdict
from recompact.simulation.guidance import read_guidance
from recompact.values.candidate import EvidenceCounts, Reason
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Boundary, Score, Trajectory

ID = BoundaryId("collect/a", 1)
Call = tuple[str, Mapping[str, object], str]
"""A call with its arguments and what came of it."""


def turns_of(*steps: Sequence[Call]) -> tuple[Turn, ...]:
    """Turns, each with its calls."""
    turns = []
    for step in steps:
        calls = tuple(ToolCall(f"c{n}", name, json.dumps(given)) for n, (name, given, _) in enumerate(step))
        results = tuple(Message("tool", result, (), f"c{n}") for n, (_, _, result) in enumerate(step))
        turns.append(Turn(assistant("", *calls), results, 10))
    return tuple(turns)


def spoken(said: str, answer: str) -> tuple[Turn, ...]:
    """A turn without a call."""
    return (Turn(assistant(said), (user(answer),), 10),)


def lacking(
    before: Sequence[Turn],
    pre: Sequence[Turn],
    post: Sequence[Turn] | None = (),
    rest: Sequence[Turn] = (),
    summary: str | None = "Some work.",
) -> MissingFacts:
    context = Context((system("Do it."),), None, tuple(before))
    after = Context(context.prefix, Summary(summary, 9) if summary is not None else None)
    boundary = Boundary(1, len(before), context, after, None, ())
    continuations = []
    for arm, turns in (("PRE", pre), ("POST", post)):
        if turns is not None:
            trajectory = Trajectory("a", tuple(turns), (), "finished", Score.of(True), context)
            row = ContinuationRow(arm, ID.unit, ID.index, arm, 0, True, 1.0, "finished", len(turns), {}, "")
            continuations.append(Continuation(row, trajectory, actions_of(trajectory), ()))
    place = BoundaryRow(ID.unit, ID.index, "a", len(before), 10, 10, 9, True)
    finding = Verdict(ID, place, "retained", Outcomes(), None)
    return missing_facts(BoundaryView(finding, boundary, tuple(continuations)), before, rest)


GO = turns_of([("go", {}, "")])


def test_work_is_compared_call_by_call_within_a_turn() -> None:
    before = turns_of([("show", {"id": "x"}, "first"), ("show", {"id": "y"}, "second")])
    same = lacking(before, GO, turns_of([("show", {"id": "y"}, "second")]))
    assert same.missing == {"result": 1}
    other = lacking(before, GO, turns_of([("show", {"id": "y"}, "first")]))
    assert other.missing == {"done": 1}


def test_what_was_said_without_a_call_is_compared_by_the_answer_to_it() -> None:
    before = spoken("print the list", "a and b")
    assert lacking(before, GO, spoken("print the list", "a and b")).missing == {"result": 1}
    assert lacking(before, GO, spoken("print the list", "only c")).missing == {"done": 1}


def test_a_call_without_a_result_brought_nothing() -> None:
    call = ToolCall("c0", "show", "{}")
    before = (Turn(assistant("", call), (), 10),)
    assert lacking(before, GO, before).missing == {"result": 1}
    assert lacking(before, GO, turns_of([("show", {}, "something")])).missing == {"done": 1}


@pytest.mark.parametrize("key", ["page", "Page", "page_index", "start_offset", "next_cursor_id", "skip"])
def test_pages_are_known_by_their_argument(key: str) -> None:
    step = turns_of([("list", {key: 3}, "rows")])
    assert lacking(step, GO, step).missing == {"page": 1}


@pytest.mark.parametrize("key", ["pages", "homepage", "skipped"])
def test_other_arguments_are_no_pages(key: str) -> None:
    step = turns_of([("list", {key: 3}, "rows")])
    assert lacking(step, GO, step).missing == {"result": 1}


def test_only_what_was_done_before_and_not_in_the_other_arm_is_done_again() -> None:
    before = turns_of([("show", {"id": "x"}, "same")])
    assert lacking(before, GO, turns_of([("show", {"id": "z"}, "same")])).missing == {}
    assert lacking(before, before, before).missing == {}
    assert lacking(before, GO, (*before, *before)).missing == {"result": 1}


def test_without_post_draws_the_rest_of_the_trajectory_is_looked_at() -> None:
    before = turns_of([("show", {"id": "x"}, "same")])
    assert lacking(before, GO, None, before).missing == {"result": 1}
    assert lacking(before, GO, GO, before).missing == {}


@pytest.mark.parametrize(("length", "counts"), [(LONGEST - 1, True), (LONGEST, True), (LONGEST + 1, False)])
def test_names_of_parameters_have_a_length(length: int, counts: bool) -> None:
    key = "k" * length
    before = turns_of([("docs", {}, f"use {key} here")])
    used = turns_of([("call", {"arguments": {key: True}}, "")])
    assert lacking(before, used).missing == ({"interface": 1} if counts else {})
    assert LONGEST == 60


def test_parameters_inside_arguments_count_and_those_of_the_tool_itself_do_not() -> None:
    before = turns_of([("docs", {}, "give outer, inner, deep and listed")])
    used = turns_of([("call", {"outer": {"inner": {"deep": 1}, "": 2}, "list": [[{"listed": 1}]]}, "")])
    assert lacking(before, used).missing == {"interface": 3}
    assert lacking(before, used, summary="inner and listed").missing == {"interface": 1}
    assert lacking(turns_of([("docs", {}, "nothing")]), used).missing == {}


def test_paths_and_names_in_texts_count_once_and_only_if_only_the_consumed_part_told_them() -> None:
    before = turns_of([("ls", {}, "notes/plan/today.txt and run_all")])
    used = turns_of([("sh", {"code": "cat notes/plan/today.txt; run_all; cat notes/plan/today.txt"}, "")])
    assert lacking(before, used).missing == {"path": 1, "interface": 1}
    assert lacking(before, used, summary="see today.txt").missing == {"interface": 1}
    assert lacking(turns_of([("ls", {}, "nothing")]), used).missing == {}
    assert lacking(before, spoken("cat notes/plan/today.txt", "")).missing == {"path": 1}


def test_a_secret_is_told_by_its_place_in_what_was_sent() -> None:
    before = turns_of([("login", {}, "use tok-12ab34 and box-77")])
    used = turns_of([("send", {"access_token": "tok-12ab34", "to": "box-77"}, "")])
    assert lacking(before, used).missing == {"secret": 1, "identifier": 1}
    plain = turns_of([("send", {"access_token": "tok-12ab34"}, ""), ("show", {"id": "tok-12ab34"}, "")])
    assert lacking(before, plain).missing == {"secret": 1}
    assert lacking(before, turns_of([("show", {"id": "tok-12ab34"}, "")])).missing == {"identifier": 1}


def test_what_a_summary_has_from_nowhere_contradicts_no_more_than_is_missing() -> None:
    before = turns_of([("read", {}, "12.50 and 13.50")])
    one = turns_of([("pay", {"amount": "12.50"}, "")])
    assert lacking(before, one, summary="It is 14.50 or 15.50.").contradicted == {"amount": 1}
    both = turns_of([("pay", {"amount": "12.50", "tip": "13.50"}, "")])
    assert lacking(before, both, summary="It is 14.50.").contradicted == {"amount": 1}
    assert lacking(before, both, summary="It is 14.50 or 15.50.").contradicted == {"amount": 2}
    assert lacking(before, one, summary="It is 13.50.").contradicted == {}
    assert lacking(before, one, summary=None).contradicted == {}
    assert lacking(before, GO, summary="It is 14.50.").contradicted == {}


def test_a_wrong_secret_contradicts_a_secret() -> None:
    before = turns_of([("login", {}, "use tok-12ab34")])
    used = turns_of([("send", {"access_token": "tok-12ab34"}, "")])
    assert lacking(before, used, summary="access_token: tok-99zz88").contradicted == {"secret": 1}


@pytest.mark.parametrize(
    ("literal", "kind"),
    [
        ("2026-03-01T10:30", "date"),
        ("2026-03-01 10:30:15", "date"),
        ("9:05", "date"),
        ("€1,200.50", "amount"),
        ("1,200.50", "amount"),
        ("7", "number"),
        ("https://a.example/x", "path"),
        ("today.txt", "path"),
        ("3f2a9c1d", "identifier"),
        ("run_all", "interface"),
        ("a@b", "identifier"),
        ("a@b c", "wording"),
        ("x1", "identifier"),
        ("plain", "wording"),
    ],
)
def test_kinds_are_told_by_form(literal: str, kind: Kind) -> None:
    assert kind_of(literal) == kind


def test_sentences_name_numbers_in_the_order_of_kinds() -> None:
    found = MissingFacts(ID, {"done": 1, "path": 1, "secret": 2, "page": 3}, {"secret": 1})
    assert numbers_in(found.sentence) == ["2", "1", "1", "3", "1"]
    assert MissingFacts(ID, {"result": 1}).sentence == "1 result fetched again"
    assert not numbers_in(MissingFacts(ID).sentence)
    assert number_of_facts("number", 1200) == "1,200 numbers"
    assert number_of_facts("date", 0) == "0 dates or times"
    assert MissingFacts.from_json(found.to_json()) == found
    assert found.to_json()["boundary"] == "a#1"


# --- kinds and candidates


def lack(task: str, missing: dict[Kind, int], wrong: dict[Kind, int] | None = None) -> MissingFacts:
    return MissingFacts(BoundaryId(f"collect/{task}", 1), missing, wrong or {})


LACKS = [
    lack("b", {"path": 1, "date": 9}),
    lack("a", {"path": 1, "secret": 5}, {"secret": 2, "path": 1}),
    lack("c", {"amount": 7}),
]


def test_a_rule_of_the_user_that_nothing_says_any_more_is_a_condition_that_pins_would_keep() -> None:
    rule = "Never pay more than 50 without asking."
    told = spoken("What must I keep to?", rule)
    gone = lacking(told, GO, None)
    assert gone.missing == {"condition": 1}
    kinds = missing_kinds([gone], default_template())
    assert "--arm pinned+prompting" in EvidenceCounts("compaction", 1, 1, missing=kinds).by_rule
    assert lacking(told, GO, None, summary=f"- {rule}").missing == {}
    assert lacking(spoken("", f"Error: {rule}"), GO, None).missing == {}  # nobody's rule


def test_kinds_come_by_boundaries_then_by_facts() -> None:
    kinds = missing_kinds(LACKS, default_template())
    assert [(each.kind, each.boundaries, each.facts, each.contradicted) for each in kinds] == [
        ("path", 2, 2, 1),
        ("date", 1, 9, 0),
        ("amount", 1, 7, 0),
        ("secret", 1, 5, 2),
    ]
    assert kinds[0].words == "2 paths"
    assert kinds[0].section == section_of("path", default_template().first)


def test_candidates_take_up_more_and_more_kinds_and_cite_who_lacks_them() -> None:
    kinds = missing_kinds(LACKS, default_template())
    first, second = candidates_from(default_template(), LACKS, kinds, 2)
    assert (first.name, second.name) == ("facts-1", "facts-2")
    assert [len(each.clauses) for each in (first, second)] == [2, 4]
    assert first.clauses[0].text == CLAUSES["path"] + UNALTERED
    assert first.clauses[0].answers == ("a#1", "b#1")
    assert first.clauses[1].text == CLAUSES["date"]
    assert first.clauses[1].answers == ("b#1",)
    assert sizes(4, 2) == (2, 4)


def test_a_clause_that_names_an_instance_is_refused_with_the_reason() -> None:
    kinds = missing_kinds([lack("a", {"path": 1})], default_template())
    (refused,) = candidates_from(default_template(), LACKS, kinds, 5, frozenset({"discovered"}))
    assert refused.template is None
    assert refused.clauses == ()
    assert any("names 'discovered'" in reason for reason in refused.objections)


@pytest.mark.parametrize("kind", KINDS)
def test_only_values_can_be_altered(kind: Kind) -> None:
    assert clause_of(kind) == CLAUSES[kind]
    assert clause_of(kind, 1) == CLAUSES[kind] + ("" if kind in ("page", "result", "done") else UNALTERED)
    assert clause_of(kind, 0, ENTRIES) == ENTRIES.clauses[kind]
    unaltered = "" if kind in ("page", "result", "done") else ENTRIES.unaltered
    assert clause_of(kind, 1, ENTRIES) == ENTRIES.clauses[kind] + unaltered


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_begins_with_a_label_and_an_order_with_a_verb(kind: Kind) -> None:
    label, _, text = ENTRIES.clauses[kind].partition(": ")
    assert label.isalpha()
    assert label.islower()
    assert text[0].islower()
    assert CLAUSES[kind].split()[0] in ("Copy", "Record", "Keep")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("contradicted", [0, 1])
def test_the_simulated_compressor_cannot_tell_the_forms_apart(kind: Kind, contradicted: int) -> None:
    def demands(form: Form) -> Mapping[Any, int]:
        template = with_clauses(default_template(), [(kind, clause_of(kind, contradicted, form))])
        return read_guidance(template.first).demands

    assert demands(ENTRIES) == demands(ORDERS)


@pytest.mark.parametrize(
    ("kind", "text", "section"),
    [
        ("done", "## History\n## What was done\n## Context\n", "What was done"),
        ("done", "## Context\n## Progress so far\n", "Progress so far"),
        ("page", "## Notes\n## Aim\n", "Notes"),
        ("path", "## Notes\n## Artifacts\n", "Artifacts"),
        ("path", "## Details\n## Aim\n", "Details"),
        ("secret", "## Files\n## Known state\n## Next\n", "Known state"),
        ("secret", "## Data\n### One\n### Two\n", "Two"),  # a title without text of its own holds nothing
        ("secret", "## Statement\n## Undone\n", "Statement"),
        ("secret", "## Metadata\n## Next\n", "Next"),  # not in the middle of a word
    ],
)
def test_facts_belong_under_the_first_title_that_says_so(kind: Kind, text: str, section: str) -> None:
    assert section_of(kind, text) == section


def test_reasons_are_read_from_the_records_of_this_kind() -> None:
    records = {"facts/a#1": LACKS[1].to_json(), "facts/b#1": LACKS[0].to_json()}
    store = SimpleNamespace(finished=lambda kind: set(records) if kind == "facts" else set(), result=records.get)
    assert reasons(cast(Any, store)) == {"a#1": (Reason(LACKS[1].sentence),), "b#1": (Reason(LACKS[0].sentence),)}


def test_a_template_without_headings_takes_clauses_at_its_end() -> None:
    template = Template("", "{{ history }}", "{{ previous_summary }}{{ history }}")
    kinds = missing_kinds([lack("a", {"path": 1})], template)
    assert kinds[0].section == ""
    (candidate,) = candidates_from(template, [lack("a", {"path": 1})], kinds, 5)
    assert candidate.template is not None
    assert candidate.template.first == f"{{{{ history }}}}\n- {CLAUSES['path']}\n"
