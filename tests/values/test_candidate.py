"""Candidates and selections as values: their words in singular and plural, and back from JSON as they were."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from sentences import numbers_in, words_in

from recompact.adaptation.selection import fit_table
from recompact.errors import InputError
from recompact.values.candidate import (
    ORIGINAL,
    Candidate,
    Clause,
    EvidenceCounts,
    Fit,
    MissingKind,
    Proposal,
    Selection,
    read_record,
)
from recompact.values.template import Template

TEMPLATE = Template("system", "first", "update", frame="a frame")
CLAUSE = Clause("Keep ids.", "Goal", ("a#1", "b#2"))


def test_the_proof_of_a_clause_comes_back() -> None:
    candidate = Candidate("c-1", TEMPLATE, (replace(CLAUSE, proof="put back at 2"),))
    assert Candidate.from_json(json.loads(json.dumps(candidate.to_json())), "a frame") == candidate


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_a_candidate_comes_back_with_the_frame_of_the_original(template: Template | None) -> None:
    candidate = Candidate("c-1", template, (CLAUSE,), ("a slip",))
    data = json.loads(json.dumps(candidate.to_json()))
    assert data["parts"] == ({"system": "system", "first": "first", "update": "update"} if template else None)
    assert data["rules"] == [["Keep ids.", "Goal", ["a#1", "b#2"]]]
    assert Candidate.from_json(data, "a frame") == candidate
    if template:
        other = Candidate.from_json(data, "another").template
        assert other is not None
        assert other.frame == "another"


def test_a_clause_says_whether_it_steers_the_agent() -> None:
    assert CLAUSE.to_json() == {
        "text": "Keep ids.",
        "section": "Goal",
        "answers": ("a#1", "b#2"),
        "proof": "",
        "tells_agent": False,
    }
    for text in ("Double-check totals.", "VERIFY it.", "The agent should wait.", "Stop when done.", "Recheck all."):
        assert Clause(text, "", ()).to_json()["tells_agent"] is True
    for text in ("Keep what was verified.", "Note callbacks.", "Keep every stop."):
        assert not Clause(text, "", ()).tells_agent


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MissingKind("path", "5 paths", "Files", 5, 1, 3), "5 paths (at 3, 1 contradicted; Files)"),
        (MissingKind("path", "5 paths", "Files", 5, 0, 3), "5 paths (at 3; Files)"),
        (MissingKind("path", "1 path", "", 1, 0, 1), "1 path (at 1; no heading)"),
    ],
)
def test_a_missing_kind_in_words(kind: MissingKind, words: str) -> None:
    assert str(kind) == words


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (EvidenceCounts("task", 1, 1), "Of 1 task, 1 was diagnosed."),
        (EvidenceCounts("task", 2, 0), "Of 2 tasks, 0 were diagnosed."),
        (EvidenceCounts("task", 0, 0), "Of 0 tasks, 0 were diagnosed."),
        (EvidenceCounts("task", 3, 1, abstained=2), "Of 3 tasks, 1 was diagnosed, 2 were abstained on."),
        (EvidenceCounts("task", 2, 1, failed=1), "Of 2 tasks, 1 was diagnosed, 1 got no usable answer."),
        (
            EvidenceCounts("task", 2, 2, cut=1, left_out=1200),
            "Of 2 tasks, 2 were diagnosed. The evidence about 1 was cut to fit a call (1,200 characters left out).",
        ),
        (
            EvidenceCounts("task", 2, 2, uncited=1),
            "Of 2 tasks, 2 were diagnosed. 1 finding cites no line that is there.",
        ),
        (
            EvidenceCounts("task", 2, 2, uncited=2),
            "Of 2 tasks, 2 were diagnosed. 2 findings cite no line that is there.",
        ),
        (EvidenceCounts("reflection", 2, 1, outcome="used"), "Of 2 reflections, 1 was used."),
    ],
)
def test_evidence_in_words(counts: EvidenceCounts, words: str) -> None:
    assert counts.statement == words


def test_kinds_that_are_missing_stand_in_their_order() -> None:
    kinds = (MissingKind("path", "2 paths", "Files", 2, 0, 2), MissingKind("date", "1 date", "", 1, 0, 1))
    counts = EvidenceCounts("compaction", 2, 2, missing=kinds)
    assert "2 paths (at 2; Files), 1 date (at 1; " in counts.statement
    assert read_record(EvidenceCounts, json.loads(json.dumps(asdict(counts)))) == counts


def test_evidence_of_an_older_run_knows_nothing_of_kinds() -> None:
    data = asdict(EvidenceCounts("task", 2, 1, failed=1))
    del data["missing"]
    assert read_record(EvidenceCounts, data) == EvidenceCounts("task", 2, 1, failed=1)


def test_a_method_may_propose_its_candidates_alone() -> None:
    candidates = (Candidate("a", TEMPLATE), Candidate("b", None))
    assert Proposal.of(candidates) == Proposal(candidates)
    assert Proposal.of(list(candidates)) == Proposal(candidates)  # type: ignore[arg-type]
    assert Proposal.of(()) == Proposal(())
    proposal = Proposal(candidates, None, "why", True)
    assert Proposal.of(proposal) is proposal


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (Candidate("a", TEMPLATE), "Candidate"),
        ("a text", "str"),
        (TEMPLATE, "Template"),
        ((Candidate("a", TEMPLATE), TEMPLATE, 3), "Template"),
        ([3], "int"),
        ({"a": 1}, "dict"),
    ],
)
def test_whatever_else_a_method_proposes_is_refused_by_its_kind(wrong: Any, kind: str) -> None:
    with pytest.raises(InputError, match=rf"recompact\.Candidate .*not {kind}$"):
        Proposal.of(wrong)


FITS = (Fit(ORIGINAL, 12, 8, 20.04), Fit("c", 12, 9, 21.0))


def test_a_fit_in_words() -> None:
    assert numbers_in(FITS[0].words) == ["8", "12", "20.0"]
    assert numbers_in(Fit("a", 1, 1, 3.25).words) == ["1", "1", "3.2"]


def test_a_winner_by_the_papers_rule_is_said_to_be_flattered() -> None:
    statement = Selection(FITS, "c", ("t",)).statement
    assert statement.startswith("c was selected")
    assert numbers_in(statement) == ["9", "12", "21.0", "8", "20.0"]
    assert "flatter" in statement


def test_an_original_that_stays_is_said_to_be_kept() -> None:
    statement = Selection(FITS, ORIGINAL, ("t",)).statement
    assert FITS[0].words in statement
    assert "kept" in statement


def test_where_the_original_has_no_runs_the_reason_is_said() -> None:
    none = (Fit(ORIGINAL, 0, 0, 0.0),)
    assert not numbers_in(Selection(none, ORIGINAL, ("t",)).statement)
    broken = Selection((Fit(ORIGINAL, 0, 0, 0.0, 2),), ORIGINAL, ("t",), excluded=("t, run 0", "t, run 1"))
    assert "the original stays" in broken.statement
    assert numbers_in(broken.statement) == ["2"]


def test_a_selection_comes_back_as_it_was() -> None:
    selection = Selection(FITS, "c", ("t", "u"), "paper", ("t, run 0",))
    data = json.loads(json.dumps(asdict(selection)))
    assert read_record(Selection, data) == selection
    older = {key: data[key] for key in ("fits", "winner", "tasks")}
    assert read_record(Selection, older) == Selection(FITS, "c", ("t", "u"))


def test_what_can_be_kept_by_rule_is_proposed_as_pins_and_anchors() -> None:
    kinds = [MissingKind(kind, f"2 {kind}s", "", 2, 0, 1) for kind in ("identifier", "condition", "done")]
    assert EvidenceCounts("compaction", 1, 1, missing=tuple(kinds)).by_rule.count("--arm") == 2
    assert EvidenceCounts("compaction", 1, 1, missing=tuple(kinds[-1:])).by_rule == ""


def test_failed_compactions_of_candidates_are_counted_and_kept() -> None:
    """A candidate whose compactions fail plays with its whole history: its successes are not the template's."""
    fits = (Fit("original", 12, 8, 20.0), Fit("a", 12, 12, 15.0, failed=7))
    selection = Selection(fits, "a", ("t",))
    assert "7 of a" in selection.statement
    assert read_record(Selection, json.loads(json.dumps(asdict(selection)))) == selection
    assert "failed" not in Selection((fits[0],), "original", ("t",)).statement
    assert [column.title for column in fit_table(selection).columns][-1] == "failed compactions"
    assert [row[-1] for row in fit_table(selection).rows] == [0, 7]


@pytest.mark.parametrize(("number", "verbs"), [(0, ["were"]), (1, ["was", "was"]), (2, ["were", "were"])])
def test_what_became_of_the_evidence_is_counted_in_words_that_agree(number: int, verbs: list[str]) -> None:
    said = EvidenceCounts("task", number, number, number, number, uncited=number).statement
    first, *uncited = said.split(". ")
    assert words_in(first, "was", "were") == verbs
    assert words_in(first, "task", "tasks") == ["task" if number == 1 else "tasks"]
    assert numbers_in(first) == [str(number)] * (4 if number else 2)
    assert [words_in(each, "finding cites", "findings cite") for each in uncited] == (
        [["finding cites" if number == 1 else "findings cite"]] if number else []
    )


def test_what_was_cut_is_told_with_its_characters() -> None:
    assert numbers_in(EvidenceCounts("task", 3, 3, cut=1, left_out=1_200).statement) == ["3", "3", "1", "1,200"]
    assert numbers_in(EvidenceCounts("task", 3, 3, left_out=1_200).statement) == ["3", "3"]
