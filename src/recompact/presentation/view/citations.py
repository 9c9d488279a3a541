"""The lines that a diagnosis cites, as the optimizer read them, each with its own place on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recompact.adaptation.diagnosis import Diagnosis
from recompact.adaptation.evidence import citable_lines
from recompact.engine.store.requests import kept_request
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.document import Piece, shorten
from recompact.values.outcome import BoundaryId
from recompact.values.texts import quantity

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
