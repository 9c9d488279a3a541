"""What is recorded of the worth of the audit's score: its figures, and the sentences that they support."""

from __future__ import annotations

import json
from importlib.resources import files

from audit_truth import Stratum, Worth, sentences, stratum_of
from recompact.audit.worth import FILE, worth_of_score
from recompact.values.stats import Estimate


def recorded() -> Worth:
    figures = json.loads((files("recompact.audit") / FILE).read_text(encoding="utf-8"))
    del figures["sentences"]
    estimates = {key: Estimate(**figures[key]) for key in ("with_hazard", "with_burden", "auc")}
    strata = [Stratum(**{**each, "harmful": Estimate(**each["harmful"])}) for each in figures["strata"]]
    return Worth(**{**figures, **estimates, "strata": tuple(strata)})


def test_the_recorded_sentences_are_those_of_the_figures_and_say_where_they_come_from() -> None:
    worth = recorded()
    assert sentences(worth) == worth_of_score()
    assert worth.command.startswith("python benchmarks/audit_truth.py")
    assert sum(each.compactions for each in worth.strata) == worth.scored <= worth.compactions
    said = " ".join(worth_of_score())
    for estimate in (worth.with_burden, worth.with_hazard):
        assert estimate is not None
        assert f"{abs(estimate.value):.2f}" in said
        assert ("not distinguishable from zero" in said) or not estimate.low <= 0 <= estimate.high


def test_strata_have_edges_at_nothing_and_at_one_in_ten() -> None:
    assert [stratum_of(score) for score in (0.0, 0.999, 1.0)] == ["0", "below 1", "1 and above"]
