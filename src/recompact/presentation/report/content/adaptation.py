"""What a run of `recompact adapt` holds, read from its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recompact.adaptation.fit_table import fit_table
from recompact.engine.store.adaptations import AdaptationRecord, read_adaptations, recorded_results, recorded_templates
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate
from recompact.values.tables import Table
from recompact.values.template import Template

UNSELECTED = "The candidates have not all been run on the fit tasks yet."


@dataclass(frozen=True)
class Adaptation:
    """The candidates of one method, and how the fit runs chose among them; `path` is where the winner was written."""

    method: str
    original: Template | None
    candidates: tuple[Candidate, ...]
    winner: Candidate | None
    statement: str
    table: Table | None
    notes: tuple[str, ...]
    path: str


def adaptations(store: Store) -> tuple[Adaptation, ...]:
    """What the run holds, method by method."""
    templates, results = recorded_templates(store), recorded_results(store)
    return tuple(_adaptation(record, templates.get(record.original), results) for record in read_adaptations(store))


def _adaptation(record: AdaptationRecord, original: Template | None, results: Mapping[str, str]) -> Adaptation:
    selection = record.selection
    notes = (record.evidence.statement if record.evidence else "", *(selection.notes if selection else ()))
    winner = next((c for c in record.candidates if selection and c.name == selection.winner and c.template), None)
    return Adaptation(
        method=record.method,
        original=original,
        candidates=record.candidates,
        winner=winner,
        statement=selection.statement if selection else record.statement or UNSELECTED,
        table=fit_table(selection) if selection else None,
        notes=tuple(filter(None, notes)),
        path=results.get(winner.template.hash, "") if winner and winner.template else "",
    )
