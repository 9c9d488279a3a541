"""Clauses from transcripts alone: what the method `facts` would write against what summaries lacked.

Nothing was continued without the compaction, so nobody knows whether they help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompact.adaptation.facts import candidates_from, missing_kinds
from recompact.adaptation.missing_facts import KINDS, MissingFacts, kind_of
from recompact.audit.diagnosis import write_revision
from recompact.audit.scoring import Assessment
from recompact.values.candidate import Candidate, MissingKind
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, default_template

UNVERIFIED = (
    "Not verified: each clause is the answer of the method `facts` to what summaries in transcripts lacked. Nothing was"
    " continued without the compaction; `recompact adapt` does that on your own tasks."
)


@dataclass(frozen=True)
class Draft:
    """The clauses, the kinds of facts that they are against, and of how many compactions a summary could be read."""

    original: Template
    readable: int
    kinds: tuple[MissingKind, ...]
    candidate: Candidate | None

    @property
    def clauses(self) -> tuple[tuple[MissingKind, str], ...]:
        texts = [clause.text for clause in self.candidate.clauses] if self.candidate else []
        return tuple(zip(self.kinds, texts, strict=bool(texts)))

    def to_json(self) -> dict[str, Any]:
        clauses = [
            {"clause": text, "kind": kind.kind, "facts": kind.facts, "compactions": kind.boundaries, "verified": False}
            for kind, text in self.clauses
        ]
        return {"readable": self.readable, "clauses": clauses}


def draft(assessment: Assessment) -> Draft:
    """Count by kind what readable summaries lacked and agents used, and write one clause against each kind into the
    default template."""
    template = default_template()
    readable = [each for each in assessment.ranked if each.compaction.readable]
    lacks = []
    for rank, each in enumerate(readable, 1):
        lost = Counter(kind_of(need.literal.text) for need in each.compaction.needs if not need.covered)
        lost["error"] += len(each.compaction.failures)
        id = BoundaryId(f"{rank}. {each.session.label}", each.compaction.ordinal)
        lacks.append(MissingFacts(id, {kind: lost[kind] for kind in KINDS if lost[kind]}))
    kinds = missing_kinds(lacks, template)
    candidate = next(iter(candidates_from(template, lacks, kinds, 1)), None) if kinds else None
    return Draft(template, len(readable), kinds, candidate)


def write_draft(drafted: Draft, directory: Path, date: str) -> bool:
    """Write the template with the clauses; returns whether there is one."""
    if drafted.candidate is None or drafted.candidate.template is None:
        return False
    changes = "\n".join(
        ["# What changed, and why", "", f"**{UNVERIFIED}**", "", *(f"- {line}" for line in lines(drafted)), ""]
    )
    revised = drafted.candidate.template
    write_revision(directory, drafted.original, revised, "audit --draft", date, drafted.to_json(), changes)
    return True


def lines(drafted: Draft) -> Iterator[str]:
    """Each clause with what it rests on."""
    for kind, text in drafted.clauses:
        where = "compaction" if kind.boundaries == 1 else "compactions"
        yield f"{text} ({kind.words} at {kind.boundaries:,} {where})"
