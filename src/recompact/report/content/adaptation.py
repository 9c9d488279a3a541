"""What a run of `recompact adapt` holds, read from its records."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.candidate import Candidate, Selection
from recompact.store.adaptations import read_adaptations, recorded_templates
from recompact.store.store import Store
from recompact.template import Template


@dataclass(frozen=True)
class Adaptation:
    """The candidates of one method, and how the fit runs chose among them."""

    method: str
    original: Template | None
    candidates: tuple[Candidate, ...]
    selection: Selection | None

    @property
    def winner(self) -> Candidate | None:
        if self.selection is None:
            return None
        return next((c for c in self.candidates if c.name == self.selection.winner and c.template), None)


def adaptations(store: Store) -> tuple[Adaptation, ...]:
    """What the run holds, method by method."""
    templates = recorded_templates(store)
    return tuple(
        Adaptation(record.method, templates.get(record.original), record.candidates, record.selection)
        for record in read_adaptations(store)
    )
