"""What adaptations of a run came to, as records: a report reads them and recomputes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, EvidenceCounts, Reason, Selection, read_record
from recompact.values.events import emit
from recompact.values.template import Template


@dataclass(frozen=True)
class AdaptationRecord:
    """One adaptation. `reasons` are what was found at whatever its clauses answer (`cites`: a compaction, a task)."""

    method: str
    cites: str
    original: str  # the hash of the template that it started from
    candidates: tuple[Candidate, ...]
    selection: Selection | None
    reasons: Mapping[str, Sequence[Reason]] = field(default_factory=dict)
    evidence: EvidenceCounts | None = None
    statement: str = ""  # why there is nothing to select from
    template: Template | None = None  # the one that it started from, where the run has its text
    path: str = ""  # where the winner was written

    @property
    def winner(self) -> Candidate | None:
        """The candidate that was selected, if the original did not stay."""
        name = self.selection.winner if self.selection else ""
        return next((each for each in self.candidates if each.name == name and each.template), None)

    @property
    def outcome(self) -> str:
        """What it came to, in words."""
        if self.selection:
            return self.selection.statement
        return self.statement or "The candidates have not all been run on the fit tasks yet."

    @property
    def notes(self) -> tuple[str, ...]:
        """What the evidence was."""
        return tuple(filter(None, (self.evidence.statement, self.evidence.by_rule))) if self.evidence else ()

    @property
    def templates(self) -> frozenset[str]:
        """The hashes of all templates that were run for it."""
        revised = (candidate.template.hash for candidate in self.candidates if candidate.template)
        return frozenset((self.original, *revised))

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "cites": self.cites,
            "original": self.original,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "selection": self.selection and asdict(self.selection),
            "reasons": {place: [[r.text, r.kind] for r in found] for place, found in self.reasons.items()},
            "evidence": self.evidence and asdict(self.evidence),
            "statement": self.statement,
        }


@dataclass(frozen=True)
class AdaptationRecorded:
    """An adaptation has come further: candidates were written, or one of them was selected."""

    store: Store
    adaptation: AdaptationRecord


def write_adaptation(store: Store, adaptation: AdaptationRecord) -> None:
    """Record an adaptation in place of an earlier one by the same method."""
    metadata = store.metadata
    adaptations = {**metadata.adaptations, adaptation.method: adaptation.to_json()}
    store.set_metadata(replace(metadata, adaptations=adaptations))
    emit(AdaptationRecorded(store, adaptation))


def read_adaptations(store: Store) -> tuple[AdaptationRecord, ...]:
    """All adaptations of a run, by method."""
    templates, results = recorded_templates(store), recorded_results(store)
    records = []
    for data in store.metadata.adaptations.values():
        original = templates.get(data["original"])
        frame = original.frame if original else ""
        candidates = tuple(Candidate.from_json(candidate, frame) for candidate in data["candidates"])
        selection = read_record(Selection, data["selection"]) if data["selection"] else None
        counts = data.get("evidence")
        record = AdaptationRecord(
            data["method"],
            data["cites"],
            data["original"],
            candidates,
            selection,
            {place: tuple(Reason(*each) for each in found) for place, found in data["reasons"].items()},
            read_record(EvidenceCounts, counts) if counts else None,
            data.get("statement", ""),
            original,
        )
        winner = record.winner.template if record.winner else None
        records.append(replace(record, path=results.get(winner.hash, "") if winner else ""))
    return tuple(records)


def note_result(store: Store, hash: str, directory: Path) -> None:
    """Record where an adapted template was written."""
    where = os.path.relpath(directory.resolve(), store.path.parent.resolve())
    store.set_metadata(replace(store.metadata, results={**store.metadata.results, hash: where}))


def recorded_results(store: Store) -> dict[str, str]:
    """Where the adapted templates of a run are, by hash, as seen from where the run is named."""
    return {hash: os.path.normpath(store.path.parent / where) for hash, where in store.metadata.results.items()}


def recorded_templates(store: Store) -> dict[str, Template]:
    """The templates whose texts a run holds, by hash: the one it began with, and those of its arms."""
    return {hash: Template(**parts) for hash, parts in store.metadata.templates.items()}
