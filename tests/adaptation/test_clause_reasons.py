"""A clause is justified by the findings of its own kind, wherever they stand in a diagnosis."""

from __future__ import annotations

import pytest

from recompact.adaptation.missing_facts import answers_kind
from recompact.adaptation.pair import findings_by_boundary
from recompact.adaptation.result import clause_lines
from recompact.adaptation.revision import Diagnosis, Finding
from recompact.simulation.judgement import _WORDINGS
from recompact.values.candidate import Clause, Reason
from recompact.values.outcome import BoundaryId

TOKENS = Clause("Keep session tokens and passwords, character by character.", "Critical Context", ("a#1",))
MANUAL = Finding("omitted state", "documentation that was read", "", "", "It read the manual again.")
LOGIN = Finding("omitted state", "login state", "", "", "It logged in again.")


def test_a_clause_about_tokens_is_not_justified_by_lost_documentation() -> None:
    found = findings_by_boundary([Diagnosis(BoundaryId("collect/a", 1), "hazard", (MANUAL, LOGIN))])
    assert clause_lines([TOKENS], found)[1:] == ["  - a\\#1: omitted state (login state): It logged in again."]


def test_where_nothing_of_its_kind_was_found_that_is_written() -> None:
    found = findings_by_boundary([Diagnosis(BoundaryId("collect/a", 1), "hazard", (MANUAL,))])
    assert clause_lines([TOKENS], found)[1:] == [
        "  - a\\#1: no finding of this kind; findings there: documentation that was read"
    ]
    assert clause_lines([TOKENS], {})[1:] == ["  - a\\#1: no diagnosis on record"]
    abstained = findings_by_boundary([Diagnosis(BoundaryId("collect/a", 1), "hazard", (), abstained="chance")])
    assert clause_lines([TOKENS], abstained)[1:] == ["  - a\\#1: abstained: chance"]
    assert clause_lines([TOKENS], {"a#1": [Reason("whatever was seen")]})[1:] == ["  - a\\#1: whatever was seen"]


def test_all_findings_of_its_kind_are_printed() -> None:
    again = Finding("reopened work", "access tokens", "", "", "It asked for another.")
    found = findings_by_boundary([Diagnosis(BoundaryId("collect/a", 1), "hazard", (LOGIN, MANUAL, again))])
    assert len(clause_lines([TOKENS], found)) == 3


@pytest.mark.parametrize("kind", ["token", "signature", "page", "predicate", "error"])
def test_kinds_are_recognised_in_other_words(kind: str) -> None:
    """Whatever wording an optimizer chooses for a kind, its clause answers that kind."""
    wordings = _WORDINGS["kinds"][kind]
    for name in wordings["names"]:
        for words in wordings["demanded"]:
            assert answers_kind(f"Keep {words}.", name), (name, words)
