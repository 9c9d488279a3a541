"""Step 3: a diagnosis of each retained boundary, then candidates that revise the guidance inside the fixed sections.

Findings cite lines of the evidence, and the quotes are taken from it here. A citation that does not hold is dropped,
and so is a finding in the wrong form; a diagnosis may also say that the summary explains nothing. A draft that breaks
the section lock, or leaves its clauses out, is redrawn with the reason. If no draft can be used, the clauses of the
last that listed any are put under their sections; where those break a rule as well, the candidate is invalid.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recompact.adaptation.evidence import PREVIOUS, SEGMENT, SUMMARY, EvidenceText
from recompact.adaptation.excerpts import head_and_tail
from recompact.adaptation.lock import problems_of
from recompact.adaptation.optimizer import TEXT, Optimizer, Weak, ask, list_schema, object_schema, prompt
from recompact.adaptation.placement import with_clauses_in_place
from recompact.values.candidate import Candidate, Clause, read_record
from recompact.values.chat import assistant, user
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template

MECHANISMS = (
    "omitted state",
    "misrepresented progress",
    "widened set",
    "narrowed set",
    "invented step",
    "reopened work",
)

FORM = '["S0", "N0", "C0.0"]'
"""What labels look like. Lines count from 1, so these cite nothing: small models copy them, and would be believed."""

DIAGNOSIS = prompt("diagnosis")

_FINDING = {
    "mechanism": {**TEXT, "enum": list(MECHANISMS)},
    "kind": TEXT,
    "lines": list_schema(TEXT),
    "explanation": TEXT,
}
DIAGNOSIS_SCHEMA = object_schema({"findings": list_schema(object_schema(_FINDING)), "abstain": TEXT}, title="diagnosis")


@dataclass(frozen=True)
class Finding:
    """One finding of a diagnosis, with the labels of the lines it cites and their texts."""

    mechanism: str
    kind: str
    summary_quote: str
    segment_quote: str
    explanation: str
    continuation_quote: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What one boundary suffered from, most likely cause first.

    Without causes where the summary explains nothing (`abstained` says why), or where there was no usable answer.
    """

    id: BoundaryId
    channel: str
    causes: tuple[Finding, ...]
    objections: tuple[str, ...] = ()  # why answers were refused
    abstained: str = ""
    losses: tuple[str, ...] = ()  # citations and findings of the answer that did not hold
    cuts: int = 0  # in the evidence
    left_out: int = 0  # characters of the evidence

    @property
    def failed(self) -> bool:
        """Whether there was no usable answer."""
        return not self.causes and not self.abstained

    def lesson(self) -> dict[str, Any]:
        """What candidates are made from."""
        quotes = ("summary_quote", "segment_quote", "continuation_quote")
        findings = [
            {key: value for key, value in asdict(cause).items() if key != "lines" and (value or key not in quotes)}
            for cause in self.causes
        ]
        return {"boundary": str(self.id), "channel": self.channel, "findings": findings}

    def to_json(self) -> dict[str, Any]:
        own = asdict(self)
        named = {"findings": own.pop("causes"), "refused": own.pop("objections")}
        return {"boundary": str(self.id), **own.pop("id"), **named, **own}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Diagnosis:
        return read_record(Diagnosis, {**data, "id": data, "causes": data["findings"], "objections": data["refused"]})


async def diagnose(optimizer: Optimizer, evidence: EvidenceText, question: str = DIAGNOSIS) -> Diagnosis:
    """One boundary's diagnosis."""
    prompt = question.format(evidence=evidence.text, mechanisms=", ".join(MECHANISMS), labels=FORM)

    def check(value: Any) -> Diagnosis:
        return check_diagnosis(value, evidence)

    answer = await ask(optimizer, prompt, DIAGNOSIS_SCHEMA, check)
    diagnosis: Diagnosis = answer.value or Diagnosis(evidence.id, evidence.channel, ())
    return replace(diagnosis, objections=answer.objections, cuts=evidence.cuts, left_out=evidence.left_out)


def check_diagnosis(value: Any, evidence: EvidenceText) -> Diagnosis:
    """Everything in an answer that holds; raises ValueError where nothing does."""
    entries = value["findings"]
    if not isinstance(entries, list):
        raise ValueError("findings must be a list")
    causes: list[Finding] = []
    losses: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            cause, unknown = _cause(entry, evidence)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            losses.append(f"finding {number} was dropped: {reason}")
            continue
        causes.append(cause)
        losses += [f"finding {number} cites {citation[:60]!r}, which is no line" for citation in unknown]
    abstained = str(value.get("abstain") or "").strip()
    if not causes and not entries and abstained:
        return Diagnosis(evidence.id, evidence.channel, (), abstained=abstained)
    if not causes:
        raise ValueError("; ".join(losses) or "it has no findings: name the most likely cause, or say why you abstain")
    diagnosis = Diagnosis(evidence.id, evidence.channel, tuple(causes), losses=tuple(losses))
    if not any(cause.lines for cause in causes):
        raise Weak(
            f"no finding cites a line that is there: give labels in the form of {FORM}, with numbers of the evidence",
            diagnosis,
        )
    return diagnosis


def _cause(entry: Any, evidence: EvidenceText) -> tuple[Finding, tuple[str, ...]]:
    """A finding with the lines that it cites, and the citations that do not hold."""
    wanted = " ".join(str(entry["mechanism"]).lower().split())
    near = difflib.get_close_matches(wanted, MECHANISMS, 1)
    if not near:
        raise ValueError(f"{entry['mechanism']!r} is no mechanism; choose one of {', '.join(MECHANISMS)}")
    kind = str(entry["kind"]).strip()
    if not kind:
        raise ValueError("its kind is empty")
    lines, unknown = resolve_citations(entry.get("lines") or (), evidence.lines)

    def quote(*letters: str) -> str:
        texts = [evidence.lines[label] for label in lines if label[0] in letters]
        return "\n".join(head_and_tail(text, QUOTE).text for text in texts).strip()

    cause = Finding(
        mechanism=near[0],
        kind=kind,
        summary_quote=quote(SUMMARY),
        segment_quote=quote(SEGMENT, PREVIOUS),
        explanation=str(entry.get("explanation", "")),
        continuation_quote=quote("C"),
        lines=lines,
    )
    return cause, unknown


QUOTE = 400  # characters of a quoted line
_LABEL = re.compile(r"(?<![\w.])([A-Za-z])(\d+(?:\.\d+)?)(?![\w.]*\d)")
_RANGE = re.compile(r"(?<![\w.])([A-Za-z])(?:(\d+)\.)?(\d+)\s*(?:-|–|to)\s*(?:[A-Za-z](?:\d+\.)?)?(\d+)(?![\w.])")
MOST = 40  # lines of one range after its first


def resolve_citations(citations: Any, lines: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of the lines that citations refer to, and the citations that refer to none.

    A citation may be a label, a range of labels, or words copied from a line.

    >>> lines = {"S1": "a", "S2": "b", "S3": "c", "N2": "the token is x"}
    >>> resolve_citations(["S1", "n2", "lines S2-S3", "S9", "the token"], lines)
    (('S1', 'N2', 'S2', 'S3'), ('S9',))
    """
    texts = [str(one) for one in citations] if isinstance(citations, list | tuple) else [str(citations)]
    labels: dict[str, None] = {}
    unknown = []
    for text in texts:
        named = [label for label in _labels(text) if label in lines] or list(_lines_with(text, lines))
        labels.update(dict.fromkeys(named))
        if not named and text.strip():
            unknown.append(text)
    return tuple(labels), tuple(unknown)


def _labels(text: str) -> Iterable[str]:
    for letter, part, first, last in _RANGE.findall(text):
        numbers = range(int(first), min(int(last), int(first) + MOST) + 1)
        yield from (f"{letter.upper()}{part + '.' if part else ''}{number}" for number in numbers)
    for letter, number in _LABEL.findall(text):
        yield f"{letter.upper()}{number}"


def _lines_with(text: str, lines: Mapping[str, str]) -> Iterable[str]:
    """The first line with these words, regardless of white space; a single word is not a quote."""
    words = " ".join(re.sub(r"^[A-Z]\d+(?:\.\d+)?\|", "", text).strip(" \"'“”").split())
    if " " in words:
        yield from [label for label, line in lines.items() if words in " ".join(line.split())][:1]


def occurs(quote: str, text: str) -> bool:
    """Word for word, regardless of white space."""
    return " ".join(quote.split()) in " ".join(text.split())


GROUPING = prompt("grouping")

REVISION = prompt("revision")

IN_PLACE = "no draft could be used, so its clauses were put under their sections"

GROUPS_SCHEMA = {
    "title": "groups",
    "type": "object",
    "properties": {"groups": {"type": "array", "items": {"type": "object"}}},
    "required": ["groups"],
}


def revision_schema(title: str, cites: str) -> dict[str, Any]:
    """A whole new template with the clauses that were added; `cites` names what each clause answers."""
    rule = object_schema({"clause": TEXT, "section": TEXT, cites: list_schema(TEXT)})
    return object_schema({"rules": list_schema(rule), "first": TEXT, "update": TEXT}, title=title)


REVISION_SCHEMA = revision_schema("revision", "boundaries")


async def revise(
    optimizer: Optimizer,
    name: str,
    original: Template,
    diagnoses: Sequence[Diagnosis],
    instances: frozenset[str],
) -> Candidate:
    """One candidate: a grouping turn, then a revision turn."""
    lines = "\n".join(json.dumps(d.lesson(), ensure_ascii=False) for d in diagnoses if d.causes)
    cited = {str(d.id) for d in diagnoses if d.causes}
    grouping = GROUPING.format(diagnoses=lines)
    grouping_answer = await ask(optimizer, grouping, GROUPS_SCHEMA, lambda value: value["groups"])
    before = (user(grouping), assistant(json.dumps({"groups": grouping_answer.value or []}, ensure_ascii=False)))
    prompt = REVISION.format(diagnoses=lines, first=original.first, update=original.update)

    def check(value: Any) -> tuple[Template, tuple[Clause, ...], str]:
        clauses = tuple(_clause(entry, cited) for entry in value["rules"])
        if not clauses:
            raise ValueError("rules is empty: list every clause that you added with the boundaries it answers")
        try:
            return _read_draft(value, original, clauses, instances), clauses, ""
        except (ValueError, KeyError) as error:
            completed = with_clauses_in_place(original, clauses)
            if problems_of(original, completed, instances):
                raise
            reason = f"the answer lacks {error}" if isinstance(error, KeyError) else str(error)
            raise Weak(reason, (completed, clauses, IN_PLACE)) from None

    answer = await ask(optimizer, prompt, REVISION_SCHEMA, check, before)
    objections = (*(f"grouping: {reason}" for reason in grouping_answer.objections), *answer.objections)
    if answer.value is None:
        return Candidate(name, None, (), objections)
    template, clauses, note = answer.value
    return Candidate(name, template, clauses, (*objections, note) if note else objections)


def _read_draft(value: Any, original: Template, clauses: Sequence[Clause], instances: frozenset[str]) -> Template:
    """The template as the optimizer wrote it; raises ValueError where it broke a rule, or left all its clauses out."""
    revised = read_rewriting(value, original, lambda revised: problems_of(original, revised, instances))
    text = " ".join(f"{revised.first} {revised.update}".split())
    if not any(" ".join(clause.text.split()) in text for clause in clauses):
        raise ValueError("no clause of rules stands in first or update: put each in its place, in the same words")
    return revised


def read_rewriting(value: Any, original: Template, problems: Callable[[Template], Sequence[str]]) -> Template:
    """The template with both parts as an optimizer wrote them; raises ValueError where that changes nothing, or has
    problems."""
    revised = replace(original, first=whole_part(value, "first"), update=whole_part(value, "update"), provenance={})
    if revised == original:
        raise ValueError("nothing was changed")
    if broken := problems(revised):
        raise ValueError("; ".join(broken[:5]))
    return revised


def whole_part(value: Any, name: str) -> str:
    """One part of a template as an optimizer wrote it."""
    text = value[name]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} is empty: give the whole part")
    return text if text.endswith("\n") else text + "\n"


def _clause(entry: Any, cited: set[str]) -> Clause:
    boundaries = tuple(str(b) for b in entry["boundaries"])
    unknown = [b for b in boundaries if b not in cited]
    if unknown or not boundaries:
        raise ValueError(f"the clause {str(entry['clause'])[:60]!r} must cite diagnosed boundaries, not {unknown}")
    return Clause(str(entry["clause"]), str(entry.get("section", "")), boundaries)
