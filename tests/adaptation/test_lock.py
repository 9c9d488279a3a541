"""The section lock, clauses in their places, and the revisions that are held to it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import Scripted
from schemas import strict_fields

from recompact.adaptation.lock import broken_rules, lost_placeholders, unusable
from recompact.adaptation.optimizer import SAME, Optimizer
from recompact.adaptation.placement import leaves, place_of, with_clauses_in_place, with_lines
from recompact.adaptation.revision import IN_PLACE, Diagnosis, Finding, revise, whole_part
from recompact.values.candidate import Candidate, Clause
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, default_template, parse_sections

ORIGINAL = default_template()
SMALL = Template(
    "s",
    "{{ history }}\n<notes>\n## Goal\n- [x] the aim\n1. one\n## Rest\nfree\n</notes>\n",
    "{{ history }}{{ previous_summary }}\n## Goal\nthe aim\n",
)


def revised(change: str, to: str, part: str = "first") -> Template:
    assert change in SMALL.part(part)
    return replace(SMALL, **{part: SMALL.part(part).replace(change, to)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        (
            "## Goal",
            "## Aim",
            ("first: the headings must stay ['## Goal', '## Rest'], but they are ['## Aim', '## Rest']",),
        ),
        ("{{ history }}", "", ("first: the placeholders must stay ['{{ history }}'], each as often as before",)),
        ("</notes>", "", ("first: the tags must stay ['<notes>', '</notes>']",)),
        ("- [x] the", "- the", ("first, section 'Goal': must keep its form ['- [x]']",)),
        ("- [x] the aim\n1. one", "the", ("first, section 'Goal': must keep its form ['- [x]', '1.']",)),
        (
            "free",
            "Mind tok-9 and a12.",
            tuple(f"first: names {name}, which belongs to one task only" for name in ("'a12'", "'tok-9'")),
        ),
        ("free", "freely", ()),
    ],
)
def test_each_break_is_said_in_words(change: str, to: str, said: tuple[str, ...]) -> None:
    assert broken_rules(SMALL, revised(change, to), frozenset({"tok-9", "a12", "unused"})) == said


FORMATTED = Template(
    "s",
    "<log>\n{{ history }}\n</log>\n\nSum up. Use at most {{ budget }} tokens. Use this format:\n\n"
    "## Goal\n[the aim]\n## Done\n- [x] [what]\n## Rest\nfree. Be brief.\n",
    "{{ history }}{{ previous_summary }}\n## Goal\nthe aim\n",
)


@pytest.mark.parametrize(
    ("change", "to", "named"),
    [
        ("Use this format:", "Write free text in whatever form, without headings.", "'Use this format:'"),
        ("Use this format:", "", "'Use this format:'"),
        ("Use at most {{ budget }} tokens.", "{{ budget }} tokens are a hint.", "'Use at most {{ budget }} tokens.'"),
        ("Be brief.", "Free text in whatever form will do.", "'Free text in whatever form will do.'"),
        ("Sum up.", "Sum up. Skip empty sections.", "'Skip empty sections.'"),
        ("[the aim]\n", "\n", "'Goal': must not be emptied"),
        ("- [x] [what]", "- [x]", "'Done': must not be emptied"),
        ("## Rest\n", "## Rest\nLedger\n------\n", "'Ledger\\n------'"),
        ("## Rest\n", "## Rest\n\nLedger\n===\n", "'Ledger\\n==='"),
        ("## Rest\n", "## Rest\n**State Table**\n", "'**State Table**'"),
        ("## Rest\n", "## Rest\n__Ledger__:\n", "'__Ledger__:'"),
        ("## Rest\n", "## Rest\n| name | value |\n|---|---|\n", "'| name | value |'"),
    ],
)
def test_the_output_format_is_locked(change: str, to: str, named: str) -> None:
    assert change in FORMATTED.first
    broken = broken_rules(FORMATTED, replace(FORMATTED, first=FORMATTED.first.replace(change, to)))
    assert any(named in problem for problem in broken), broken


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("Sum up.", "Sum up. Keep the format of dates, and do not drop items from the Done section."),
        ("[the aim]", "[the aim, every condition and **all** filters]"),
        ("Be brief.", "Keep each section concise.\n- a\n---\n- b"),
        ("free.", "- **[Decision]**: [why]"),
    ],
)
def test_guidance_stays_free_beside_a_locked_format(change: str, to: str) -> None:
    assert broken_rules(FORMATTED, replace(FORMATTED, first=FORMATTED.first.replace(change, to))) == ()


def test_what_the_template_has_itself_is_no_disguise() -> None:
    own = replace(SMALL, first=SMALL.first.replace("free", "**Note**\n| a | b |"))
    assert broken_rules(own, replace(own, first=own.first.replace("one", "two"))) == ()


def test_both_parts_are_locked_and_the_system_message_too() -> None:
    (said,) = broken_rules(SMALL, replace(SMALL, system="other"))
    assert said.startswith("system: ")
    (said,) = broken_rules(SMALL, revised("## Goal", "## Aim", "update"))
    assert said.startswith("update: the headings")
    assert "## Aim" in said
    assert broken_rules(SMALL, SMALL) == ()


def test_a_form_may_be_added() -> None:
    assert broken_rules(SMALL, revised("free", "1. free")) == ()


def test_what_the_template_itself_says_is_nobodys_instance() -> None:
    named = replace(SMALL, system="about tok-9")
    assert broken_rules(named, replace(named, first=named.first + "tok-9\n"), frozenset({"tok-9"})) == ()
    old = replace(SMALL, first=SMALL.first + "Mind tok-9.\n")
    assert broken_rules(old, replace(old, update=old.update + "tok-9\n"), frozenset({"tok-9"})) == ()


def test_placeholders_are_counted() -> None:
    assert lost_placeholders("first", SMALL, revised("{{ history }}", "{{ history }}{{ history }}")) != []
    twice = revised("{{ history }}", "{{ history }}{{ history }}")
    (said,) = lost_placeholders("first", twice, SMALL)
    assert said.startswith("first: ")
    assert "['{{ history }}', '{{ history }}']" in said
    swapped = revised("{{ history }}{{ previous_summary }}", "{{ previous_summary }}{{ history }}", "update")
    assert lost_placeholders("update", SMALL, swapped) == []


def test_only_errors_make_a_template_unusable() -> None:
    assert unusable(ORIGINAL) == ()
    assert unusable(replace(ORIGINAL, first="Summarize.")) != ()
    assert unusable(revised("<notes>", "")) == unusable(SMALL)


# --- placement

NESTED = "Intro.\n# Top\n## A\ntext\n## B\n### C\n# Last\n"


def test_leaves_are_the_headings_that_nothing_stands_below() -> None:
    sections = parse_sections(NESTED)
    assert [sections[at].title for at in leaves(sections)] == ["A", "C", "Last"]
    assert leaves(parse_sections("no heading")) == []


@pytest.mark.parametrize(
    ("title", "found"),
    [("Top", "A"), ("## b", "C"), ("C", "C"), ("\t# LAST ", "Last"), ("zzz", "Last"), ("", "Last")],
)
def test_a_title_is_found_whatever_its_case_and_marks(title: str, found: str) -> None:
    sections = parse_sections(NESTED)
    assert sections[place_of(title, sections)].title == found


def test_without_headings_the_only_section_is_the_place() -> None:
    assert place_of("Goal", parse_sections("no heading")) == 0


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("## Goal\naim\n", "## Goal\n- one\n- two\naim\n"),
        ("## Goal", "## Goal\n- one\n- two\n"),
        ("## Goal\r\naim\r\n", "## Goal\r\n- one\r\n- two\r\naim\r\n"),
        ("no heading", "no heading\n- one\n- two\n"),
        ("no heading\n", "no heading\n- one\n- two\n"),
        ("", "- one\n- two\n"),
    ],
)
def test_lines_stand_below_their_heading_or_at_the_end(text: str, placed: str) -> None:
    template = Template("s", text, text, provenance={"from": "x"})
    made = with_lines(template, lambda sections: [(len(sections) - 1, line) for line in ("one", "two")])
    assert (made.first, made.update, made.provenance) == (placed, placed, {})
    assert made.system == "s"


def test_a_clause_becomes_one_line() -> None:
    template = Template("s", "## Goal\n## Rest\n", "## Rest\n")
    made = with_clauses_in_place(template, [Clause("Keep\n  ids.", "Goal", ()), Clause("Be brief.", "Rest", ())])
    assert made.first == "## Goal\n- Keep ids.\n## Rest\n- Be brief.\n"
    assert made.update == "## Rest\n- Keep ids.\n- Be brief.\n"


# --- revisions

CAUSE = Finding("omitted state", "ids", "", "", "It asked again: “né”.")
DIAGNOSES = (
    Diagnosis(BoundaryId("collect/a", 1), "burden", (CAUSE,)),
    Diagnosis(BoundaryId("collect/b", 2), "error", (), abstained="chance"),
)
GROUPS = json.dumps({"groups": [{"kind": "ids"}]})


def rule(**changes: Any) -> dict[str, Any]:
    return {"clause": "Keep every id.", "section": "Goal", "boundaries": ["a#1"], **changes}


def draft(*clauses: str, **changes: Any) -> str:
    made = with_clauses_in_place(ORIGINAL, [Clause(text, "Goal", ()) for text in clauses or ("Keep every id.",)])
    return json.dumps({"rules": [rule()], "first": made.first, "update": made.update, **changes})


def revising(
    *answers: str, redraws: int = 0, instances: frozenset[str] = frozenset(), original: Template = ORIGINAL
) -> tuple[Candidate, Scripted]:
    model = Scripted(*answers)
    made = revise(Optimizer(model, redraws=redraws), "pair-1", original, DIAGNOSES, instances)
    return asyncio.run(made), model


def test_a_revision_follows_a_grouping_of_what_was_diagnosed() -> None:
    original = replace(ORIGINAL, provenance={"from": "x"})
    candidate, model = revising(GROUPS, draft(), original=original)
    assert candidate.name == "pair-1"
    assert candidate.template == with_clauses_in_place(ORIGINAL, [Clause("Keep every id.", "Goal", ())])
    assert candidate.template is not None
    assert candidate.template.provenance == {}
    assert candidate.clauses == (Clause("Keep every id.", "Goal", ("a#1",)),)
    assert candidate.objections == ()
    grouping, revision = model.requests
    lesson = json.dumps(DIAGNOSES[0].lesson(), ensure_ascii=False)
    assert f"<diagnoses>\n{lesson}\n</diagnoses>" in grouping.messages[-1].content
    assert [message.content for message in revision.messages[1:3]] == [grouping.messages[-1].content, GROUPS]
    assert f"<first>\n{ORIGINAL.first}\n</first>" in revision.messages[-1].content
    assert f"<update>\n{ORIGINAL.update}\n</update>" in revision.messages[-1].content
    assert strict_fields(revision) == [["first", "rules", "update"], ["boundaries", "clause", "section"]]


def test_a_grouping_that_failed_is_no_hindrance_and_is_told() -> None:
    candidate, model = revising("no", draft())
    assert candidate.template is not None
    (objection,) = candidate.objections
    assert objection.startswith("grouping: ")
    assert model.requests[1].messages[2].content == '{"groups": []}'


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (draft(rules=[]), "rules is empty: list every clause that you added with the boundaries it answers"),
        (
            draft(rules=[rule(boundaries=["b#2"])]),
            "the clause 'Keep every id.' must cite diagnosed boundaries, not ['b#2']",
        ),
        (draft(rules=[rule(boundaries=[])]), "the clause 'Keep every id.' must cite diagnosed boundaries, not []"),
        (
            draft(rules=[rule(clause="k" * 90, boundaries=["a#1", "z"])]),
            f"the clause {'k' * 60!r} must cite diagnosed boundaries, not ['z']",
        ),
    ],
)
def test_clauses_that_answer_nothing_are_refused(bad: str, said: str) -> None:
    assert revising(GROUPS, bad)[0] == Candidate("pair-1", None, (), (said,))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (draft(first=ORIGINAL.first, update=ORIGINAL.update), "nothing was changed"),
        (draft("Something else."), "no clause of rules stands in first or update"),
        (draft(update="  "), "update is empty: give the whole part"),
        (json.dumps({"rules": [rule()], "first": "x"}), "the answer lacks 'update'"),
    ],
)
def test_a_draft_of_no_use_leaves_its_clauses_to_be_put_in_place(bad: str, said: str) -> None:
    candidate, _ = revising(GROUPS, bad, bad, redraws=1)
    assert candidate.template == with_clauses_in_place(ORIGINAL, candidate.clauses)
    assert candidate.objections[0].startswith(said)
    assert candidate.objections[1:] == (SAME, IN_PLACE)


def test_a_clause_in_one_part_alone_will_do_whatever_its_white_space() -> None:
    first = ORIGINAL.first.replace("## Goal\n", "## Goal\n- Keep every\n  id.\n")
    candidate, _ = revising(GROUPS, draft(first=first, update=ORIGINAL.update))
    assert candidate.template == replace(ORIGINAL, first=first)
    assert candidate.objections == ()
    update = ORIGINAL.update.replace("## Goal\n", "## Goal\n- Keep every id.\n")
    both = [rule(), rule(clause="Not there.")]
    candidate, _ = revising(GROUPS, draft(first=ORIGINAL.first, update=update, rules=both))
    assert candidate.template == replace(ORIGINAL, update=update)


def test_a_clause_that_names_an_instance_cannot_be_put_in_place_either() -> None:
    named = draft("Keep tok-9 exactly.", rules=[rule(clause="Keep tok-9 exactly.")])
    candidate, _ = revising(GROUPS, named, instances=frozenset({"tok-9"}))
    assert candidate.template is None
    (objection,) = candidate.objections
    assert [each.partition(",")[0] for each in objection.split("; ")] == [
        "first: names 'tok-9'",
        "update: names 'tok-9'",
    ]


def test_no_more_than_five_breaks_are_named() -> None:
    literals = [f"tok-{n}" for n in range(9)]
    candidate, _ = revising(GROUPS, draft(" ".join(literals)), instances=frozenset(literals))
    assert candidate.objections[0].count("names 'tok-") == 5


def test_a_section_may_be_left_out_of_a_rule() -> None:
    without = rule()
    del without["section"]
    candidate, _ = revising(GROUPS, draft(rules=[without]))
    assert candidate.clauses == (Clause("Keep every id.", "", ("a#1",)),)


@pytest.mark.parametrize(("text", "part"), [("a", "a\n"), ("a\n", "a\n"), ("a\n\n", "a\n\n")])
def test_a_part_ends_with_a_line_end(text: str, part: str) -> None:
    assert whole_part({"first": text}, "first") == part


@pytest.mark.parametrize("value", [None, "", " \n", 3, ["a"]])
def test_a_part_that_is_no_text_or_empty_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="first is empty"):
        whole_part({"first": value}, "first")
