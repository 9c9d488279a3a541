"""One compaction as a view: the report's case with all draws, the lines that its diagnosis cites, and its calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recompact.attribution.bisection.cause import read_causes
from recompact.attribution.boundary_view import BoundaryView, boundary_view
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import compressor_calls, count_calls
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.cases import PAGE, Case, case_of, cause_view, diagnoses_of
from recompact.presentation.view.calls import CallView, list_calls
from recompact.presentation.view.citations import Citations, citations_of
from recompact.presentation.view.runs import RunLine
from recompact.presentation.view.verdicts import verdict_on, verdicts_of_run
from recompact.values.candidate import Clause
from recompact.values.outcome import BoundaryId
from recompact.values.texts import command_line

CALLS = 12  # of one unit
LIMITS = replace(PAGE, all_pairs=True)


@dataclass(frozen=True)
class CallGroup:
    """Calls of one unit, and what they were for."""

    purpose: str
    unit: str
    calls: tuple[CallView, ...]
    total: int
    problem: str = ""


@dataclass(frozen=True)
class CasePage:
    """A compaction in full."""

    line: RunLine
    case: Case
    clauses: tuple[tuple[str, Clause], ...]  # candidate and clause
    citations: Citations
    calls: tuple[CallGroup, ...]
    previous: BoundaryId | None
    next: BoundaryId | None
    commands: tuple[str, ...]


def case_page(store: Store, line: RunLine, id: BoundaryId) -> CasePage:
    """The case of a boundary."""
    try:
        verdict = verdict_on(store, id)
    except LookupError:
        raise InputError(f"{store.path} has no boundary {id}: the run may have replaced it since") from None
    verification = verdicts_of_run(store)
    order = [each.id for each in verification.examined] if verification else []
    view = boundary_view(store, verdict)
    diagnosis = diagnoses_of(store).get(id)
    citations = citations_of(store, id, diagnosis)
    place = order.index(id) if id in order else -1
    return CasePage(
        line=line,
        case=case_of(view, LIMITS, diagnosis, "case", cause_view(store, read_causes(store).get(id), LIMITS)),
        clauses=_clauses(store, id),
        citations=citations,
        calls=tuple(_calls(store, view, citations.unit)),
        previous=order[place - 1] if place > 0 else None,
        next=order[place + 1] if 0 <= place < len(order) - 1 else None,
        commands=() if line.evaluation else _commands(store, id),
    )


def _commands(store: Store, id: BoundaryId) -> tuple[str, ...]:
    return tuple(command_line(word, store.path, id) for word in ("boundary", "replay"))


def _clauses(store: Store, id: BoundaryId) -> tuple[tuple[str, Clause], ...]:
    """What candidates ask for because of this boundary."""
    return tuple(
        (f"{adaptation.method}, {candidate.name}", clause)
        for adaptation in read_adaptations(store)
        for candidate in adaptation.candidates
        for clause in candidate.clauses
        if str(id) in clause.answers
    )


def _calls(store: Store, view: BoundaryView, diagnosed: str) -> Iterator[CallGroup]:
    """The calls behind a case: the summary's, those of each continuation, and the diagnosis."""
    id = view.id
    ordinals = compressor_calls(store, id.unit, view.boundary.step)
    if ordinals:
        calls, problem = list_calls(store, id.unit, ordinals[0], ordinals[-1] - ordinals[0] + 1)
        own = tuple(call for call in calls if call.ordinal in ordinals)
        yield CallGroup("The summary", id.unit, own, len(own), problem)
    if diagnosed:
        yield _group(store, "The diagnosis", diagnosed)
    for each in view.continuations:
        yield _group(store, f"{each.row.arm}, draw {each.row.draw + 1}", each.row.name)


def _group(store: Store, purpose: str, unit: str) -> CallGroup:
    calls, problem = list_calls(store, unit, limit=CALLS)
    return CallGroup(purpose, unit, calls, count_calls(store, unit), problem)
