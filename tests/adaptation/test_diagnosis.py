"""Diagnoses from answers as weak and strong models give them: whatever holds is used, and the rest is said."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.adaptation import observation
from recompact.adaptation.candidates import without_usable
from recompact.adaptation.diagnosis import FORM, PROMPT, SCHEMA, Diagnosis, cited, diagnose
from recompact.adaptation.evidence import BoundaryEvidence
from recompact.adaptation.optimizer import SAME, Optimizer
from recompact.adaptation.pair import counted
from recompact.adaptation.revision import SCHEMA as REVISION
from recompact.candidate import Candidate
from recompact.chat import Reply, Request, Usage, assistant
from recompact.outcome import BoundaryId
from recompact.template import default_template

LINES = {
    "S1": "-> login({})",
    "S2": '{"token": "pay-9dfe8736"}',
    "P1": "nothing yet",
    "N1": "## Done",
    "N2": "- logged in to payments",
    "C2.3": "(again) -> login({})",
}
EVIDENCE = BoundaryEvidence(BoundaryId("collect/t", 1), "burden", "the text", 2, LINES, cuts=2, left_out=70)


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
    assert counted([diagnosis]).uncited == 1
    assert diagnosis.lesson()["findings"][0]["kind"] == "access tokens"


@pytest.mark.parametrize("question", [PROMPT, observation.PROMPT])
def test_what_the_question_gives_as_an_example_cites_nothing(question: str) -> None:
    """A small model copies the labels of the question: no evidence may have such lines."""
    asked = question.format(evidence="", mechanisms="", labels=FORM)
    labels, unknown = cited(json.loads(FORM), {f"{letter}{n}": "a line" for letter in "TAPSNLF" for n in range(1, 99)})
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
    assert counted([diagnosis]).dropped == 4


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
    counts = counted([diagnosis])
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
    assert cited([citation], LINES)[0] == labels
    assert cited(citation, LINES)[0] == labels


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(sorted(LINES)), st.integers())))
def test_no_citation_stands_for_a_line_that_is_not_there(citations: list[Any]) -> None:
    labels, unknown = cited(citations, LINES)
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


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from _objects(value)


@pytest.mark.parametrize("schema", [SCHEMA, REVISION])
def test_schemas_are_strict_as_servers_demand_it(schema: Mapping[str, Any]) -> None:
    """In strict mode every field is required and no other is allowed; else the whole request is refused."""
    objects = list(_objects(schema))
    assert len(objects) > 1
    for each in objects:
        assert each["additionalProperties"] is False
        assert sorted(each["required"]) == sorted(each["properties"])


def test_only_evidence_that_was_cut_counts_as_cut() -> None:
    diagnosis = Diagnosis(BoundaryId("collect/a", 1), "error", ())
    assert (counted([diagnosis]).cut, counted([diagnosis]).left_out) == (0, 0)
    shorter = replace(diagnosis, cuts=2, left_out=900)
    assert (counted([diagnosis, shorter]).cut, counted([diagnosis, shorter]).left_out) == (1, 900)


def test_the_first_three_reasons_are_given_where_no_candidate_is_usable() -> None:
    objections = ("first", "second", "first", "third", "fourth")
    words = without_usable([Candidate(f"pair-{n}", None, (), (reason,)) for n, reason in enumerate(objections)])
    assert words.endswith("the first reasons: first; second; third")
    assert without_usable([Candidate("pair-1", None), Candidate("pair-2", default_template())]) == ""
