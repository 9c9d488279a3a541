"""One compaction as a view: the report's case with every pair of draws, the clauses that came of it, and its calls."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from recompact.attribution.cases import evidence_of
from recompact.attribution.effects import effect_of
from recompact.attribution.findings import Finding, by_id
from recompact.attribution.posterior import Thresholds
from recompact.attribution.verify import outcomes_at
from recompact.candidate import Clause
from recompact.chat import Message
from recompact.errors import InputError
from recompact.models.failures import ModelFailure
from recompact.outcome import BoundaryId
from recompact.report.content.adaptation import adaptations
from recompact.report.content.cases import PAGE, Case, case_of, diagnoses_of
from recompact.report.content.harm import is_harmful
from recompact.report.document import Piece, shortened
from recompact.store.runs import BoundaryRow, boundary_row
from recompact.store.store import Store
from recompact.view.run import judged
from recompact.view.runs import JUDGED, RunLine, thresholds_of

REPLY = 1_500  # characters of a reply
LIMITS = replace(PAGE, all_pairs=True)


@dataclass(frozen=True)
class CallView:
    """A journaled call: who was asked, and what came back."""

    number: int
    model: str
    tokens: tuple[int, int]
    request: str
    reply: tuple[Piece, ...]


@dataclass(frozen=True)
class CasePage:
    """A compaction in full."""

    line: RunLine
    case: Case
    note: str
    clauses: tuple[tuple[str, Clause], ...]  # candidate and clause
    calls: tuple[tuple[str, tuple[CallView, ...]], ...]  # by unit
    previous: BoundaryId | None
    next: BoundaryId | None
    commands: tuple[str, ...]


def case_page(store: Store, line: RunLine, id: BoundaryId) -> CasePage:
    """The case of a boundary."""
    try:
        row = boundary_row(store, id.unit, id.index)
    except LookupError:
        raise InputError(f"{store.path} has no boundary {id}: it may have been made anew since") from None
    boundaries = line.counts.boundaries if line.counts else 0
    note, order = "", []
    if not line.evaluation and boundaries <= JUDGED and id in (every := by_id(judged(store))):
        finding = every[id]
        harmful = is_harmful(judged(store), finding)
        order = [each for each, other in every.items() if other.effect is not None]
    else:
        finding = _alone(store, row, id)
        harmful = finding.effect is not None and finding.effect.selected
        note = "Judged by its own draws alone, with the published prior." if finding.effect else ""
    evidence = evidence_of(store, id, finding)
    place = order.index(id) if id in order else -1
    return CasePage(
        line=line,
        case=case_of(evidence, harmful, LIMITS, diagnoses_of(store).get(id), "case"),
        note=note,
        clauses=_clauses(store, id),
        calls=tuple((each.row.name, _calls(store, each.row.name)) for each in evidence.continuations),
        previous=order[place - 1] if place > 0 else None,
        next=order[place + 1] if 0 <= place < len(order) - 1 else None,
        commands=() if line.evaluation else _commands(store, id),
    )


def _commands(store: Store, id: BoundaryId) -> tuple[str, ...]:
    return tuple(shlex.join(["recompact", word, str(store.path), str(id)]) for word in ("boundary", "replay"))


def _alone(store: Store, row: BoundaryRow, id: BoundaryId) -> Finding:
    """A boundary without the others of its run, from which `verify` learns a prior."""
    outcomes, left_out = outcomes_at(store, id)
    thresholds = Thresholds(*thresholds_of(store))
    remaining = store.metadata.step_limit - row.step
    effect = None if left_out else effect_of(outcomes, thresholds=thresholds, remaining=remaining)
    return Finding(id, row, outcomes, effect, left_out=left_out)


def _clauses(store: Store, id: BoundaryId) -> tuple[tuple[str, Clause], ...]:
    """What candidates ask for because of this boundary."""
    return tuple(
        (f"{adaptation.method}, {candidate.name}", clause)
        for adaptation in adaptations(store)
        for candidate in adaptation.candidates
        for clause in candidate.clauses
        if str(id) in clause.answers
    )


def _calls(store: Store, unit: str) -> tuple[CallView, ...]:
    """The journaled calls of a unit; one that cannot be read is said to be."""
    try:
        journaled = store.journaled(unit)
    except (ModelFailure, InputError) as error:
        return (CallView(0, "", (0, 0), "", (Piece(f"cannot be read: {error}", "note"),)),)
    return tuple(
        CallView(ordinal + 1, reply.model, (reply.usage.input, reply.usage.output), digest, _reply(reply.message))
        for ordinal, (digest, reply) in journaled.items()
    )


def _reply(message: Message) -> tuple[Piece, ...]:
    lines = [message.content, *(f"{call.name}({call.arguments})" for call in message.calls)]
    return shortened("\n".join(filter(None, lines)), REPLY)
