"""One compaction as a view: the report's case with all draws, the lines that its diagnosis cites, and its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recompact.adaptation.evidence import citable_lines
from recompact.adaptation.revision import Diagnosis
from recompact.attribution.bisection.cause import read_causes
from recompact.attribution.boundary_view import BoundaryView, boundary_view
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import compressor_calls, count_calls, kept_request
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.cases import PAGE, case_of
from recompact.presentation.report.content.shown_cases import cause_view, diagnoses_of
from recompact.presentation.view.calls import list_calls
from recompact.presentation.view.runs import Page, Parameters, RunLine, number_in
from recompact.presentation.view.verdicts import verdict_on, verdicts_of_run
from recompact.values.candidate import Clause
from recompact.values.outcome import BoundaryId
from recompact.values.texts import command_line, quantity

LINES = 400  # of a block, besides those that are cited
PROMPT = 4_000_000  # characters: no evidence is that long


@dataclass(frozen=True)
class Citations:
    """What a diagnosis was made from: `blocks` are titles with lines (label, text, whether it is cited). One without a
    label marks lines that were cut or are not shown."""

    unit: str  # that asked for the diagnosis; empty where there is none
    blocks: tuple[tuple[str, list[tuple[str, str, bool]]], ...] = ()
    problem: str = ""

    @property
    def anchors(self) -> Mapping[str, str]:
        """Where a line is on the page, by its label."""
        return {label: f"line-{label}" for _, lines in self.blocks for label, _, _ in lines if label}


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
    return Citations(unit, tuple((block.title, _block(block.lines, cited)) for block in citable_lines(prompt)))


def _block(lines: Sequence[tuple[str, str]], cited: set[str]) -> list[tuple[str, str, bool]]:
    """The first lines, and those that are cited further on."""
    shown: list[tuple[str, str, bool]] = []
    hidden = 0
    for place, (label, text) in enumerate((*lines, ("", ""))):  # the last one counts what is hidden before it
        if LINES <= place < len(lines) and label not in cited:
            hidden += 1
            continue
        if hidden:
            shown.append(("", quantity(hidden, "more line"), False))
            hidden = 0
        if place < len(lines):
            shown.append((label, text if label else text.strip("[]"), label in cited))
    return shown


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


def _calls(store: Store, view: BoundaryView, diagnosed: str) -> Iterator[dict[str, Any]]:
    """The calls behind a case: the summary's, those of each continuation, and the diagnosis."""
    id = view.id
    ordinals = compressor_calls(store, id.unit, view.boundary.step)
    if ordinals:
        calls, problem = list_calls(store, id.unit, ordinals[0], ordinals[-1] - ordinals[0] + 1)
        own = [call for call in calls if call["row"].ordinal in ordinals]
        yield {"purpose": "The summary", "unit": id.unit, "calls": own, "total": len(own), "problem": problem}
    units = {"The diagnosis": diagnosed} if diagnosed else {}
    units |= {f"{each.row.arm}, draw {each.row.draw + 1}": each.row.name for each in view.continuations}
    for purpose, unit in units.items():
        calls, problem = list_calls(store, unit, limit=CALLS)
        total = count_calls(store, unit)
        yield {"purpose": purpose, "unit": unit, "calls": calls, "total": total, "problem": problem}
