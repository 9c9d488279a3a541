"""Diagnoses from answers as weak and strong models give them: whatever holds is used, and the rest is said."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from schemas import strict_fields
from sentences import numbers_in

from recompact.adaptation.evidence import EvidenceText
from recompact.adaptation.method import without_usable
from recompact.adaptation.optimizer import SAME, Optimizer
from recompact.adaptation.pair import count_evidence
from recompact.adaptation.revision import DIAGNOSIS, FORM, Diagnosis, diagnose, resolve_citations
from recompact.audit import diagnosis as observed_diagnosis
from recompact.values.candidate import Candidate
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.outcome import BoundaryId
from recompact.values.template import default_template

LINES = {
    "S1": "-> login({})",
    "S2": '{"token": "pay-9dfe8736"}',
    "P1": "nothing yet",
    "N1": "## Done",
    "N2": "- logged in to payments",
    "C2.3": "(again) -> login({})",
}
EVIDENCE = EvidenceText(BoundaryId("collect/t", 1), "burden", "the text", 2, LINES, cuts=2, left_out=70)


class Scripted:
    """Answers with the given texts, the last one again and again."""

    name = "scripted"

    def __init__(self, *answers: Any) -> None:
        self.texts = [a if isinstance(a, str) else json.dumps(a) for a in answers]
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        text = self.texts[min(len(self.requests), len(self.texts)) - 1]
        return Reply(assistant(text), Usage(1, 1, 0, 0, 1))


def answered(*answers: Any) -> tuple[Diagnosis, Scripted]:
    model = Scripted(*answers)
    return asyncio.run(diagnose(Optimizer(model), EVIDENCE)), model


def finding(kind: str = "access tokens", lines: Any = ("S2", "N2"), **changes: Any) -> dict[str, Any]:
    return {"mechanism": "omitted state", "kind": kind, "lines": lines, "explanation": "It logged in again.", **changes}


def answer(*findings: dict[str, Any], abstain: str = "") -> dict[str, Any]:
    return {"findings": list(findings), "abstain": abstain}


def test_quotes_are_taken_from_the_cited_lines() -> None:
    diagnosis, _ = answered(answer(finding(lines=["S2", "N2", "C2.3"])))
    (cause,) = diagnosis.causes
    assert cause.segment_quote == LINES["S2"]
    assert cause.summary_quote == LINES["N2"]
    assert cause.continuation_quote == LINES["C2.3"]
    assert (diagnosis.cuts, diagnosis.left_out) == (2, 70)
    assert Diagnosis.from_json(json.loads(json.dumps(diagnosis.to_json()))) == diagnosis


def test_the_form_of_a_diagnosis_is_demanded() -> None:
    _, model = answered(answer(finding()))
    assert strict_fields(model.requests[0]) == [
        ["abstain", "findings"],
        ["explanation", "kind", "lines", "mechanism"],
    ]


WEAK = """Here is my analysis:
```json
{"findings": [{"mechanism": "Omitted State", "kind": "access tokens", "lines": ["S12", "the token pay-9dfe was lost"],
"explanation": "The summary does not contain the access token."}], "abstain": ""}
```"""


def test_a_weak_model_that_names_the_kind_and_misquotes_the_same_way_four_times_is_usable() -> None:
    diagnosis, model = answered(WEAK)
    (cause,) = diagnosis.causes
    assert (cause.mechanism, cause.kind, cause.lines) == ("omitted state", "access tokens", ())
    assert len(model.requests) == 2  # asked again once; the same answer ends it
    assert diagnosis.objections[-1] == SAME
    assert len(diagnosis.losses) == 2
    assert not diagnosis.failed
    assert count_evidence([diagnosis]).uncited == 1
    assert diagnosis.lesson()["findings"][0]["kind"] == "access tokens"


@pytest.mark.parametrize("question", [DIAGNOSIS, observed_diagnosis.PROMPT])
def test_what_the_question_gives_as_an_example_cites_nothing(question: str) -> None:
    """A small model copies the labels of the question: no evidence may have such lines."""
    asked = question.format(evidence="", mechanisms="", labels=FORM)
    labels, unknown = resolve_citations(
        json.loads(FORM), {f"{letter}{n}": "a line" for letter in "TAPSNLF" for n in range(1, 99)}
    )
    assert FORM in asked
    assert not re.search(r"\b[TAPSNLFC][1-9]", asked)
    assert labels == ()
    assert unknown == tuple(json.loads(FORM))


def test_a_finding_that_does_not_hold_falls_alone() -> None:
    diagnosis, model = answered(
        answer(finding(mechanism="bad luck"), finding("pages", lines=["S1", "S99"]), finding("ids", lines=["Z4"]), {})
    )
    assert len(model.requests) == 1
    assert [cause.kind for cause in diagnosis.causes] == ["pages", "ids"]
    assert [cause.lines for cause in diagnosis.causes] == [("S1",), ()]
    assert len(diagnosis.losses) == 4
    assert count_evidence([diagnosis]).dropped == 4


def test_redraws_differ_in_wording_and_the_better_answer_is_taken() -> None:
    uncited = answer(finding(lines=["S77"]))
    diagnosis, model = answered(uncited, "no", {"findings": []}, answer(finding("pages", ["S1"])))
    assert [cause.kind for cause in diagnosis.causes] == ["pages"]
    assert len(diagnosis.objections) == 3
    asked = [request.messages[-1].content for request in model.requests]
    assert len(set(asked)) == 4
    assert all(diagnosis.objections[0] in text for text in asked[1:])
    last_resort, _ = answered(uncited, "no", {"findings": []}, "never")
    assert [cause.kind for cause in last_resort.causes] == ["access tokens"]


def test_an_abstention_is_an_answer_and_no_cause() -> None:
    diagnosis, model = answered(answer(abstain="The arms differ by chance."))
    assert len(model.requests) == 1
    assert (diagnosis.causes, diagnosis.abstained, diagnosis.failed) == ((), "The arms differ by chance.", False)
    counts = count_evidence([diagnosis])
    assert (counts.abstained, counts.diagnosed, counts.failed) == (1, 0, 0)
    assert Diagnosis.from_json(diagnosis.to_json()).abstained
    both, _ = answered(answer(finding(), abstain="or not"))
    assert both.causes
    assert not both.abstained


@pytest.mark.parametrize("bad", ["", "none", [], {"findings": "x"}, {"findings": [None]}, answer()])
def test_what_cannot_be_used_is_said_and_asking_ends(bad: Any) -> None:
    diagnosis, model = answered(bad)
    assert diagnosis.failed
    assert diagnosis.objections
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("citation", "labels"),
    [
        ("S2", ("S2",)),
        ("s2", ("S2",)),
        ("[S2]", ("S2",)),
        ("S2|", ("S2",)),
        ("line N2 of the summary", ("N2",)),
        ("S1-S2", ("S1", "S2")),
        ("S1–2", ("S1", "S2")),
        ("S1, N2", ("S1", "N2")),
        ("C2.3", ("C2.3",)),
        ("- logged in to payments", ("N2",)),
        ("S2| {'token'}", ("S2",)),
        ("C2", ()),
        ("S22", ()),
        ("pay-9dfe8736", ()),
        ("", ()),
    ],
)
def test_citations_are_read_in_all_the_ways_that_models_write_them(citation: str, labels: tuple[str, ...]) -> None:
    assert resolve_citations([citation], LINES)[0] == labels
    assert resolve_citations(citation, LINES)[0] == labels


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(sorted(LINES)), st.integers())))
def test_no_citation_stands_for_a_line_that_is_not_there(citations: list[Any]) -> None:
    labels, unknown = resolve_citations(citations, LINES)
    assert set(labels) <= LINES.keys()
    assert set(citations) & LINES.keys() <= set(labels)
    assert set(unknown) <= {str(citation) for citation in citations}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["findings", "mechanism", "kind", "lines", "abstain"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_no_answer_breaks_the_diagnosis(value: Any) -> None:
    diagnosis, _ = answered({"findings": value, "abstain": value} if not isinstance(value, dict) else value)
    assert diagnosis.id == EVIDENCE.id


def test_only_evidence_that_was_cut_counts_as_cut() -> None:
    diagnosis = Diagnosis(BoundaryId("collect/a", 1), "error", ())
    assert (count_evidence([diagnosis]).cut, count_evidence([diagnosis]).left_out) == (0, 0)
    shorter = replace(diagnosis, cuts=2, left_out=900)
    assert (count_evidence([diagnosis, shorter]).cut, count_evidence([diagnosis, shorter]).left_out) == (1, 900)


def test_the_first_three_reasons_are_given_where_no_candidate_is_usable() -> None:
    objections = ("first", "second", "first", "third", "fourth")
    words = without_usable([Candidate(f"pair-{n}", None, (), (reason,)) for n, reason in enumerate(objections)])
    assert words.endswith(": first; second; third")
    assert without_usable([Candidate("pair-1", None), Candidate("pair-2", default_template())]) == ""


def test_a_lesson_leaves_out_labels_and_quotes_that_are_empty() -> None:
    diagnosis, _ = answered(answer(finding(lines=["N2"])))
    assert diagnosis.lesson() == {
        "boundary": "t#1",
        "channel": "burden",
        "findings": [
            {
                "mechanism": "omitted state",
                "kind": "access tokens",
                "summary_quote": LINES["N2"],
                "explanation": "It logged in again.",
            }
        ],
    }
    (told,) = answered(answer(finding(lines=["N2"], explanation="")))[0].lesson()["findings"]
    assert told["explanation"] == ""


def test_quotes_of_segment_and_previous_summary_stand_together() -> None:
    diagnosis, _ = answered(answer(finding(lines=["P1", "N1", "S1", "N2"])))
    (cause,) = diagnosis.causes
    assert cause.segment_quote == f"{LINES['P1']}\n{LINES['S1']}"
    assert cause.summary_quote == f"{LINES['N1']}\n{LINES['N2']}"
    assert cause.continuation_quote == ""
    assert cause.lines == ("P1", "N1", "S1", "N2")


@pytest.mark.parametrize(("length", "cut"), [(439, False), (440, True)])
def test_a_long_line_is_quoted_in_part(length: int, cut: bool) -> None:
    evidence = replace(EVIDENCE, lines={"S1": "x" * length})
    model = Scripted(answer(finding(lines=["S1"])))
    (cause,) = asyncio.run(diagnose(Optimizer(model), evidence)).causes
    assert ("characters cut here]" in cause.segment_quote) == cut


@pytest.mark.parametrize(
    ("said", "mechanism"),
    [(" Omitted\n state ", "omitted state"), ("omitted states", "omitted state"), ("REOPENED WORK", "reopened work")],
)
def test_a_mechanism_is_recognised_in_other_spellings(said: str, mechanism: str) -> None:
    (cause,) = answered(answer(finding(mechanism=said)))[0].causes
    assert cause.mechanism == mechanism


def test_what_is_wrong_with_findings_is_said_by_their_number() -> None:
    long = "Z" * 99
    diagnosis, _ = answered(
        answer(finding(lines=["S1", long]), finding(kind=" "), {"kind": "x"}, finding(mechanism="luck"))
    )
    cites, kind, lacks, mechanism = diagnosis.losses
    assert [numbers_in(loss)[0] for loss in diagnosis.losses] == ["1", "2", "3", "4"]
    assert repr(long[:60]) in cites
    assert "kind" in kind
    assert "'mechanism'" in lacks
    assert "'luck'" in mechanism
    assert "omitted state," in mechanism


def test_findings_that_all_fell_are_no_abstention() -> None:
    diagnosis, _ = answered(answer(finding(kind=""), abstain="It is chance."))
    assert diagnosis.failed
    assert "finding 1" in diagnosis.objections[0]
    blank, _ = answered(answer(abstain="  "))
    assert blank.failed
    assert "no findings" in blank.objections[0]
    missing, _ = answered({"findings": []})
    assert missing.failed


def test_a_finding_without_lines_or_explanation_stands_beside_one_that_cites() -> None:
    bare = {"mechanism": "omitted state", "kind": "ids"}
    diagnosis, model = answered(answer(bare, finding()))
    assert len(model.requests) == 1
    assert [(cause.kind, cause.explanation) for cause in diagnosis.causes] == [
        ("ids", ""),
        ("access tokens", "It logged in again."),
    ]
    assert diagnosis.losses == ()


def test_a_range_is_read_up_to_a_limit() -> None:
    lines = {f"S{n}": "x" for n in range(1, 100)} | {f"C2.{n}": "x" for n in range(1, 9)}
    assert resolve_citations(["S3-S5"], lines)[0] == ("S3", "S4", "S5")
    assert resolve_citations(["S3 to 5"], lines)[0] == ("S3", "S4", "S5")
    assert resolve_citations(["C2.3-C2.5"], lines)[0][:3] == ("C2.3", "C2.4", "C2.5")
    assert resolve_citations(["S1-S99"], lines)[0] == (*(f"S{n}" for n in range(1, 42)), "S99")
    assert resolve_citations(["S5-S3"], lines)[0] == ("S5", "S3")


def test_words_of_a_line_are_a_citation_of_the_first_that_has_them() -> None:
    lines = {"S1": "one two  three", "S2": "one two three"}
    assert resolve_citations(["“one  two”"], lines) == (("S1",), ())
    assert resolve_citations(["S9| two three"], lines) == (("S1",), ())
    assert resolve_citations(["two"], lines) == ((), ("two",))
    assert resolve_citations(["four five", " ", "S2", "S2"], lines) == (("S2",), ("four five",))


def test_a_diagnosis_comes_back_from_json_as_it_was() -> None:
    diagnosis, _ = answered(answer(finding()))
    data = json.loads(json.dumps(diagnosis.to_json()))
    assert Diagnosis.from_json(data) == diagnosis
    assert data["boundary"] == "t#1"
