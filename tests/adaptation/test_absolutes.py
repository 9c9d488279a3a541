"""Absolutes of a template's own guidance, and candidates that keep a general list beside tested causes."""

from __future__ import annotations

from recompact.adaptation.causes import SOFTENED, UNTESTED, KindOfCause, candidates_from
from recompact.adaptation.facts import SPARING
from recompact.adaptation.lock import broken_rules
from recompact.adaptation.placement import without_absolutes
from recompact.attribution.bisection.cause import Cause, Trial
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.template import default_template

CAUSE = Cause(BoundaryId("collect/a", 1), "found", "success", 9, (), 5, 100, closing=Trial((Outcome(1.0, 3),)))


def test_only_the_absolute_goes_and_the_rules_of_the_template_hold() -> None:
    template = default_template()
    softer, changed = without_absolutes(template)
    assert [text for _, text in changed] == ["Write names, paths and error texts as they appeared."]
    assert softer.first == template.first.replace(" exactly as", " as")
    assert broken_rules(template, softer, frozenset()) == ()
    assert without_absolutes(softer) == (softer, ())


def test_a_tested_cause_of_a_kind_keeps_its_absolute() -> None:
    assert without_absolutes(default_template(), ["path"]) == (default_template(), ())


def test_every_clause_has_a_proof_or_says_that_it_has_none() -> None:
    softened, plain = candidates_from(
        default_template(), [KindOfCause("result", (CAUSE,))], frozenset(), "causes", prior=True
    )
    proofs = [clause.proof for clause in plain.clauses]
    assert proofs[0].startswith("put right at 1")
    assert proofs[1:] == [UNTESTED] * (len(SPARING.clauses) - 1)
    assert [clause.proof for clause in softened.clauses] == [*proofs, SOFTENED]
    assert softened.template is not None
    assert plain.template is not None
    assert "exactly" not in softened.template.first
    assert "exactly" in plain.template.first


def test_one_candidate_where_there_is_no_absolute_to_take_out() -> None:
    kinds = [KindOfCause("path", (CAUSE,))]
    assert len(candidates_from(default_template(), kinds, frozenset(), "causes", prior=True)) == 1
