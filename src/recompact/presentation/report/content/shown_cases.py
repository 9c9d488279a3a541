"""Which boundaries of a run are shown in full, with what was diagnosed and what bisecting found at each."""

from __future__ import annotations

from collections.abc import Mapping

from recompact.adaptation.revision import Diagnosis
from recompact.attribution.bisection.bisect import PHASE as BISECTION, bisection_unit
from recompact.attribution.bisection.cause import Cause, read_causes
from recompact.attribution.bisection.pieces import Intervention
from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.judgement import Verification
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.presentation.report.content.cases import (
    PAGE,
    Case,
    CauseView,
    ContinuationView,
    Limits,
    case_of,
    steps_view,
)
from recompact.presentation.report.content.overview import outcome
from recompact.presentation.report.document import Block, Line, shorten
from recompact.values.outcome import BoundaryId
from recompact.values.texts import quantity

LINES = 12  # of a piece of a cause


def worst_cases(store: Store, verification: Verification, top: int, prefix: str) -> tuple[Case, ...]:
    """The most harmful boundaries in full, or the three with the largest effects where none is harmful; anchors begin
    with `prefix`."""
    diagnoses, causes = diagnoses_of(store), read_causes(store)
    chosen = verification.most_harmful[:top] or verification.examined[: min(3, top)]
    return tuple(
        case_of(
            boundary_view(store, verdict),
            PAGE,
            diagnoses.get(verdict.id),
            f"{prefix}{n}",
            cause_view(store, causes.get(verdict.id), PAGE),
        )
        for n, verdict in enumerate(chosen, 1)
    )


def diagnoses_of(store: Store) -> Mapping[BoundaryId, Diagnosis]:
    """The optimizer's diagnoses that name a cause."""
    diagnoses = [Diagnosis.from_json(store.result(unit)) for unit in sorted(store.finished("diagnosis"))]
    return {diagnosis.id: diagnosis for diagnosis in diagnoses if diagnosis.causes}


def cause_view(store: Store, cause: Cause | None, limits: Limits) -> CauseView | None:
    """What bisecting a boundary showed; None where nobody bisected it."""
    if cause is None:
        return None
    sentence = cause.sentence()
    pieces = tuple(
        Block(
            f"{piece.name}{f', under {piece.heading}' if piece.heading else ''}"
            f" ({'taken out' if piece.kind == 'line' else 'put back'})",
            tuple(Line(" ", shorten(line, limits.action)) for line in piece.text.splitlines()[:LINES]),
        )
        for piece in (cause.pieces if cause.known else ())
    )
    return CauseView(f"{sentence[0].upper()}{sentence[1:]}.", pieces, _closing_view(store, cause, limits))


def _closing_view(store: Store, cause: Cause, limits: Limits) -> ContinuationView | None:
    """What the agent did once the cause was put right, in the first draw that shows it."""
    task = cause.boundary.unit.partition("/")[2]
    changed = Intervention.of(piece.name for piece in cause.pieces)
    first = bisection_unit(task, cause.boundary.index, changed, 0).removesuffix("0")
    rows = [row for row in trajectories(store, task, BISECTION) if row.unit.startswith(first)] if cause.known else []
    if not rows:
        return None
    row = max(rows, key=lambda row: (row.value, -row.steps))
    title = f"with the cause put right: {outcome(row.success)}, {row.ending} after {quantity(row.steps, 'step')}"
    return steps_view(read_trajectory(store, row.unit), title, row.success, limits)
