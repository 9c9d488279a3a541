"""The method `facts` step by step: what it records, counts and says, with the boundaries made up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from method_support import method_inputs
from sentences import numbers_in

from recompact.adaptation import facts
from recompact.adaptation.facts import ENTRIES, FACTS, FACTS_ENTRIES, OUTCOME
from recompact.adaptation.method import Method
from recompact.adaptation.missing_facts import MissingFacts
from recompact.engine.config import AdaptConfig
from recompact.values.candidate import EvidenceCounts, Proposal
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, default_template


def lack(task: str, **missing: int) -> MissingFacts:
    return MissingFacts(BoundaryId(f"collect/{task}", 1), cast(Any, missing))


def proposed(
    monkeypatch: pytest.MonkeyPatch,
    lacks: Sequence[MissingFacts],
    consumed: str = "",
    template: Template | None = None,
    method: Method = FACTS,
) -> tuple[Proposal, list[Any]]:
    """What the method proposes where boundaries lack this, and what it did to the run."""
    done: list[Any] = []
    waiting = {str(each.id): each for each in lacks}

    @contextmanager
    def transaction() -> Iterator[None]:
        yield

    def looked_at(evidence: Any, before: Sequence[str], rest: Sequence[str]) -> MissingFacts:
        assert (list(before), list(rest)) == (["one", "two"], ["three"])
        return waiting[evidence.name]

    evidence = tuple(
        SimpleNamespace(name=name, id=each.id, boundary=SimpleNamespace(step=2), needed=("tok-9042",))
        for name, each in waiting.items()
    )
    monkeypatch.setattr(facts, "retained_evidence", lambda store: evidence)
    monkeypatch.setattr(facts, "missing_facts", looked_at)
    monkeypatch.setattr(facts, "read_trajectory", lambda store, unit: SimpleNamespace(turns=["one", "two", "three"]))
    monkeypatch.setattr(facts, "consumed_texts", lambda boundary: (consumed,))
    store = SimpleNamespace(
        forget_units=lambda names: done.append(names),
        transaction=transaction,
        finish=lambda unit, kind, text, seconds: done.append((unit, kind, json.loads(text)["missing"])),
    )
    inputs = method_inputs(records=store, template=template or default_template(), settings=AdaptConfig(candidates=2))

    async def work() -> Proposal:
        return cast(Proposal, await method.propose(inputs))

    return asyncio.run(work()), done


def test_what_boundaries_lack_is_recorded_counted_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, done = proposed(monkeypatch, [lack("a", path=2), lack("b"), lack("c", path=1, date=1)])
    assert done == [
        ("facts/",),
        ("facts/a#1", "facts", {"path": 2}),
        ("facts/b#1", "facts", {}),
        ("facts/c#1", "facts", {"path": 1, "date": 1}),
    ]
    assert proposal.evidence is not None
    assert (proposal.evidence.pieces, proposal.evidence.diagnosed, proposal.evidence.outcome) == (3, 2, OUTCOME)
    assert [kind.kind for kind in proposal.evidence.missing] == ["path", "date"]
    assert [len(candidate.clauses) for candidate in proposal.candidates] == [1, 2]
    assert (proposal.statement, proposal.unusable) == ("", False)


def test_where_nothing_is_missing_the_original_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, done = proposed(monkeypatch, [lack("a"), lack("b")])
    assert len(done) == 3
    assert (proposal.candidates, proposal.unusable) == ((), False)
    assert proposal.evidence == EvidenceCounts("compaction", 2, 0, outcome=OUTCOME)
    assert numbers_in(proposal.statement) == ["2"]


def test_without_boundaries_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.adaptation.evidence.failed_compactions", lambda store: SimpleNamespace(number=0))
    proposal, done = proposed(monkeypatch, [])
    assert (proposal.candidates, proposal.evidence, proposal.unusable) == ((), None, False)
    assert proposal.statement
    assert done == []


def test_a_template_that_takes_no_clause_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Template("s", "## Files\nSummarize.", "## Files\nSummarize.")  # it has no place for the history
    proposal, _ = proposed(monkeypatch, [lack("a", path=1)], template=broken)
    assert [candidate.template for candidate in proposal.candidates] == [None]
    assert proposal.candidates[0].objections[0] in proposal.statement


def test_entries_are_recorded_and_named_apart_and_ask_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = [lack("a", path=2), lack("c", path=1, date=1)]
    orders, _ = proposed(monkeypatch, lacks)
    entries, done = proposed(monkeypatch, lacks, method=FACTS_ENTRIES)
    assert done == [
        ("facts-entries/",),
        ("facts-entries/a#1", "facts-entries", {"path": 2}),
        ("facts-entries/c#1", "facts-entries", {"path": 1, "date": 1}),
    ]
    assert [candidate.name for candidate in entries.candidates] == ["facts-entries-1", "facts-entries-2"]
    assert [clause.text for clause in entries.candidates[1].clauses] == [
        ENTRIES.clauses["path"],
        ENTRIES.clauses["date"],
    ]
    assert entries.evidence == orders.evidence
    for one, other in zip(orders.candidates, entries.candidates, strict=True):
        assert [(c.section, c.answers) for c in one.clauses] == [(c.section, c.answers) for c in other.clauses]


@pytest.mark.parametrize("method", [FACTS, FACTS_ENTRIES])
def test_what_the_methods_say_of_themselves(method: Method) -> None:
    assert method.needs_effects
    assert not method.asks_optimizer
    assert (method.phases, method.cites) == ((f"{method.name}/",), "compaction")


def test_the_methods_are_told_apart() -> None:
    assert (FACTS.name, FACTS_ENTRIES.name) == ("facts", "facts-entries")
    assert FACTS.color != FACTS_ENTRIES.color
