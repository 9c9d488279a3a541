"""One compaction as a view: the report's case with all draws, the lines that its diagnosis cites, and its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from recompact.adaptation.evidence import citable_lines
from recompact.adaptation.revision import Diagnosis
from recompact.attribution.bisection.cause import read_causes
from recompact.attribution.boundary_view import BoundaryView, boundary_view
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import compressor_calls, count_calls
from recompact.engine.store.requests import kept_request
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.cases import PAGE, case_of
from recompact.presentation.report.content.shown_cases import cause_view, diagnoses_of
from recompact.presentation.report.document import Piece, shorten
from recompact.presentation.view.calls import CallView, list_calls
from recompact.presentation.view.runs import Page, Parameters, RunLine, number_in
from recompact.presentation.view.verdicts import verdict_on, verdicts_of_run
from recompact.values.candidate import Clause
from recompact.values.outcome import BoundaryId
from recompact.values.texts import command_line, quantity

LINE = 1_000  # characters of a line
LINES = 400  # of a block, besides those that are cited
PROMPT = 4_000_000  # characters: no evidence is that long


@dataclass(frozen=True)
class NumberedLine:
    """A line with its label and its place on the page; `cited` tells whether a finding names it. Without a label it
    marks that lines were cut or are not shown."""

    label: str
    anchor: str
    text: tuple[Piece, ...]
    cited: bool = False


@dataclass(frozen=True)
class NumberedBlock:
    """A part of the evidence: segment, summary, a continuation, ..."""

    title: str
    anchor: str
    lines: tuple[NumberedLine, ...]


@dataclass(frozen=True)
class Citations:
    """What a diagnosis was made from. `anchors` say by label where a line is on the page."""

    unit: str  # that asked for the diagnosis; empty where there is none
    blocks: tuple[NumberedBlock, ...] = ()
    problem: str = ""

    @property
    def anchors(self) -> Mapping[str, str]:
        return {line.label: line.anchor for block in self.blocks for line in block.lines if line.label}


def citations_of(store: Store, id: BoundaryId, diagnosis: Diagnosis | None) -> Citations:
    """The numbered lines that the diagnosis of a boundary was made from."""
    unit = _unit(store, id) if diagnosis else ""
    if diagnosis is None or not unit:
        return Citations(unit)
    try:
        asked = kept_request(store, unit, 0)
        if asked is None:
            return Citations(unit, problem="This run does not have the lines that it cites, only their labels.")
        prompt = asked.message(store, len(asked.messages) - 1).content
    except (InputError, IndexError, TypeError, ValueError, KeyError, AttributeError) as error:
        return Citations(unit, problem=f"The lines that it cites cannot be read: {error}")
    if len(prompt) > PROMPT:
        return Citations(unit, problem=f"The lines that it cites are not shown: {len(prompt):,} characters of them.")
    cited = {label for cause in diagnosis.causes for label in cause.lines}
    blocks = tuple(_block(n, block.title, block.lines, cited) for n, block in enumerate(citable_lines(prompt)))
    return Citations(unit, blocks)


def _block(number: int, title: str, lines: tuple[tuple[str, str], ...], cited: set[str]) -> NumberedBlock:
    shown: list[NumberedLine] = []
    hidden = 0
    for place, (label, text) in enumerate(lines):
        if place >= LINES and label not in cited:
            hidden += 1
            continue
        if hidden:
            shown.append(_note(quantity(hidden, "more line")))
            hidden = 0
        if label:
            shown.append(NumberedLine(label, f"line-{label}", shorten(text, LINE), label in cited))
        else:
            shown.append(_note(text.strip("[]")))
    rest = [_note(quantity(hidden, "more line"))] if hidden else []
    return NumberedBlock(title, f"evidence-{number}", (*shown, *rest))


def _note(text: str) -> NumberedLine:
    return NumberedLine("", "", (Piece(text, "cut"),))


def _unit(store: Store, id: BoundaryId) -> str:
    """The unit of the last diagnosis of a boundary that names a cause."""
    for unit in sorted(store.finished("diagnosis"), reverse=True):
        if str(id) in unit:
            record = store.result(unit)
            if (record["unit"], record["index"]) == (id.unit, id.index) and record["findings"]:
                return unit
    return ""


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


def case_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """A compaction in full."""
    id = BoundaryId(parameters.get("unit", ""), number_in(parameters, "index"))
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
    commands = () if line.evaluation else ("boundary", "replay")
    return "case-page.html.jinja", {
        "case": case_of(view, LIMITS, diagnosis, "case", cause_view(store, read_causes(store).get(id), LIMITS)),
        "clauses": _clauses(store, id),
        "citations": citations,
        "calls": tuple(_calls(store, view, citations.unit)),
        "previous": order[place - 1] if place > 0 else None,
        "next": order[place + 1] if 0 <= place < len(order) - 1 else None,
        "commands": [command_line(word, store.path, id) for word in commands],
    }


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
