"""Step 3, first half: one call per harmful boundary, which says what the summary did to the continuations.

A diagnosis is a ranking of causes, each with quotes that must occur in the texts they cite; one whose quotes do not is
drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.adaptation.evidence import BoundaryEvidence
from recompact.adaptation.optimizer import Optimizer, ask
from recompact.outcome import BoundaryId

MECHANISMS = (
    "omitted state",
    "misrepresented progress",
    "widened set",
    "narrowed set",
    "invented step",
    "reopened work",
)

PROMPT = """\
An agent was in the middle of a task when its history was compacted: a compressor read the segment (and the previous
summary, if there was one) and wrote the summary that replaced them. From that moment the agent was continued several
times, once each way: with the context before the compaction (PRE) and with the summary (POST). Everything else was the
same, so what differs between the two was caused by the summary.

{evidence}

Find out what the two arms did differently, and which statement or gap of the summary would make a continuation act like
that. Rank what you find, the most likely cause first; leave out what no continuation acted on. For each finding give
- mechanism: one of {mechanisms}
- kind: in a few words, what kind of information it concerns (for example access tokens, task conditions, pages read)
- summary_quote: the words of the summary that mislead, copied exactly; empty if the summary says nothing of it
- segment_quote: the words of the segment that should have survived, copied exactly; empty if nothing of it stands there
- explanation: what the continuations did because of it, in one or two sentences

Answer with one JSON object: {{"findings": [{{"mechanism": …, "kind": …, "summary_quote": …, "segment_quote": …,
"explanation": …}}, …]}}"""

SCHEMA = {
    "title": "diagnosis",
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "mechanism": {"type": "string", "enum": list(MECHANISMS)},
                    "kind": {"type": "string"},
                    "summary_quote": {"type": "string"},
                    "segment_quote": {"type": "string"},
                    "explanation": {"type": "string"},
                },
                "required": ["mechanism", "kind", "summary_quote", "segment_quote", "explanation"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["findings"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Cause:
    """One finding of a diagnosis."""

    mechanism: str
    kind: str
    summary_quote: str
    segment_quote: str
    explanation: str


@dataclass(frozen=True)
class Diagnosis:
    """What one boundary suffered from, most likely cause first; without causes where none could be had."""

    id: BoundaryId
    channel: str
    causes: tuple[Cause, ...]
    objections: tuple[str, ...] = ()  # why drafts were redrawn

    def to_json(self) -> dict[str, Any]:
        findings = [vars(cause) for cause in self.causes]
        return {
            "boundary": str(self.id),
            "channel": self.channel,
            "findings": findings,
            "refused": list(self.objections),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Diagnosis:
        """From what a run keeps of it, which also names the boundary's unit and index."""
        causes = tuple(Cause(**cause) for cause in data["findings"])
        return Diagnosis(BoundaryId(data["unit"], data["index"]), data["channel"], causes, tuple(data["refused"]))


async def diagnose(optimizer: Optimizer, evidence: BoundaryEvidence) -> Diagnosis:
    """One boundary's diagnosis."""
    prompt = PROMPT.format(evidence=evidence.text, mechanisms=", ".join(MECHANISMS))

    def check(value: Any) -> tuple[Cause, ...]:
        causes = tuple(_cause(entry, evidence) for entry in value["findings"])
        if not causes:
            raise ValueError("it has no findings: name at least the most likely cause")
        return causes

    answer = await ask(optimizer, prompt, SCHEMA, check)
    return Diagnosis(evidence.id, evidence.channel, answer.value or (), answer.objections)


def _cause(entry: Any, evidence: BoundaryEvidence) -> Cause:
    if entry["mechanism"] not in MECHANISMS:
        raise ValueError(f"{entry['mechanism']!r} is no mechanism; choose one of {', '.join(MECHANISMS)}")
    summary_quote, segment_quote = str(entry["summary_quote"]), str(entry["segment_quote"])
    if summary_quote and not occurs(summary_quote, evidence.summary):
        raise ValueError(f"the summary does not contain the quote {summary_quote[:80]!r}")
    if segment_quote and not occurs(segment_quote, f"{evidence.segment}\n{evidence.previous}"):
        raise ValueError(f"the segment does not contain the quote {segment_quote[:80]!r}")
    if not summary_quote and not segment_quote:
        raise ValueError("a finding needs a quote from the summary or from the segment")
    return Cause(
        entry["mechanism"], str(entry["kind"]), summary_quote, segment_quote, str(entry.get("explanation", ""))
    )


def occurs(quote: str, text: str) -> bool:
    """Word for word, whatever the white space."""
    return " ".join(quote.split()) in " ".join(text.split())
