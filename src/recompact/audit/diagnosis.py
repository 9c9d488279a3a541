"""Templates from transcripts alone: revised by an optimizer that reads the worst compactions, or by rule.

The optimizer takes the steps of PAIR; the rule is that of the method `facts`. A transcript shows one continuation,
after the summary, and none without the compaction, so both are suspicions until they are verified. What is sent is
masked.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from recompact.adaptation.evidence import (
    FACTS,
    SEGMENT,
    SUMMARY,
    TASK,
    Block,
    EvidenceText,
    assemble_evidence,
    label_block,
)
from recompact.adaptation.excerpts import Excerpt
from recompact.adaptation.facts import candidates_from, missing_kinds
from recompact.adaptation.lock import instances_in
from recompact.adaptation.missing_facts import KINDS, MissingFacts, kind_of
from recompact.adaptation.optimizer import Optimizer, prompt
from recompact.adaptation.pair import findings_by_boundary
from recompact.adaptation.result import clause_json, clause_lines, section_changes
from recompact.adaptation.revision import Diagnosis, diagnose, revise
from recompact.audit.findings import ShownCall
from recompact.audit.scoring import Assessment, RankedCompaction
from recompact.engine.assembly import open_model
from recompact.engine.config import Config
from recompact.engine.forecast import price_of
from recompact.models.secrets import scrubber
from recompact.values.candidate import Candidate, MissingKind
from recompact.values.chat import Decoding
from recompact.values.masking import safe, safe_line
from recompact.values.outcome import BoundaryId
from recompact.values.outputs import MANIFEST, replaced_directory
from recompact.values.template import Template, default_template
from recompact.values.texts import quantity
from recompact.values.tokens import TokenCounter
from recompact.version import __version__

RESULT = "template revised from observation"
"""What the manifest of such a directory says it is."""
OBSERVATIONAL = (
    "Observational: a model read masked excerpts of transcripts. Nothing was continued without the compaction, so "
    "neither the diagnoses nor the revised template are verified; `recompact adapt` verifies them on your own tasks."
)
SUMMARY_CHARS = 16_000
CHANNEL = "observed"

PROMPT = prompt("audit-diagnosis")


def observed_evidence(
    worst: Sequence[RankedCompaction], budget: int, count: TokenCounter, scrub: Callable[[str], str] = str
) -> tuple[EvidenceText, ...]:
    """The excerpts of these compactions as they are sent, each within `budget` tokens. `scrub` removes known keys."""
    evidence = []
    for rank, each in enumerate(worst, 1):
        blocks = [label_block(tag, label, Excerpt(scrub(text))) for tag, label, text in _parts(each) if text]
        blocks.append(Block("effect", Excerpt("not known: observed only"), {}))
        id = BoundaryId(f"{rank}. {each.session.label}", each.compaction.ordinal)
        evidence.append(assemble_evidence(id, CHANNEL, blocks, budget, count))
    return tuple(evidence)


def _parts(each: RankedCompaction) -> list[tuple[str, str, str]]:
    """The parts of a scene, every text of the transcript masked."""
    compaction, scene = each.compaction, each.compaction.scene
    missing = [
        f"{safe_line(need.literal.text)} ({need.literal.kind}): {need.fate}"
        for need in compaction.needs
        if not need.covered
    ]
    return [
        ("task", TASK, safe(scene.asked, 2_000)),
        ("segment", SEGMENT, _moments(scene.before)),
        ("summary", SUMMARY, safe(scene.summary, SUMMARY_CHARS)),
        ("missing-facts", FACTS, "\n".join(missing) if compaction.readable else ""),
        ("continuation", "C1.", _moments(scene.after)),
    ]


def _moments(moments: Sequence[ShownCall]) -> str:
    lines = []
    for moment in moments:
        marks = "(fetched again) " * bool(moment.chars) + "(failed again) " * moment.failed_again
        lines.append(f"{marks}-> {safe_line(moment.call, 240)}")
        if moment.excerpt:
            lines.append(safe(moment.excerpt, 360))
    return "\n".join(lines)


@dataclass(frozen=True)
class Plan:
    """What a diagnosis would send, and to whom."""

    model: str
    where: str
    evidence: tuple[EvidenceText, ...]
    unreadable: int  # of the worst, those whose summary the file does not hold in readable form
    price_of_input: float  # per million tokens; 0 where the config does not say

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.evidence)

    @property
    def statement(self) -> str:
        """Said before anything is sent."""
        number = quantity(len(self.evidence), "masked excerpt")
        cost = f", about {self.tokens * self.price_of_input / 1e6:.2f} at the config's price" * bool(
            self.price_of_input
        )
        more = f" {quantity(self.unreadable, 'compaction')} whose summary is not readable cannot be diagnosed." * bool(
            self.unreadable
        )
        return (
            f"{number} of about {self.tokens:,} tokens{cost} will be sent to {self.model} ({self.where}), then two "
            f"calls for the revised template; answers that cannot be used are asked for again.{more}"
        )


@dataclass(frozen=True)
class ObservedDiagnosis:
    """What an optimizer made of the worst compactions, and what that took."""

    plan: Plan
    diagnoses: tuple[Diagnosis, ...]
    original: Template
    candidate: Candidate | None  # None where nothing was diagnosed
    tokens: int
    money: float
    method: ClassVar[str] = "audit --diagnose"

    @property
    def changes(self) -> list[str]:
        """What changed, and why, in lines."""
        lines = [f"**{OBSERVATIONAL}**", "", self.statement, ""]
        if self.candidate and self.candidate.template:
            for part in ("first", "update"):
                lines += [f"## {part}.md", "", *section_changes(self.original, self.candidate.template, part)]
            lines += ["## Clauses and the compactions they answer", ""]
            lines += clause_lines(self.candidate.clauses, findings_by_boundary(self.diagnoses))
        return lines

    @property
    def statement(self) -> str:
        diagnosed = sum(bool(d.causes) for d in self.diagnoses)
        abstained = sum(bool(d.abstained) for d in self.diagnoses)
        failed = sum(d.failed for d in self.diagnoses)
        cost = f", {self.money:.4f} at the config's prices" if self.money else ""
        revised = "a template was revised" if self.candidate and self.candidate.template else "no template was revised"
        return (
            f"Of {quantity(len(self.diagnoses), 'compaction')}, {self.plan.model} named a cause for {diagnosed}, "
            f"abstained on {abstained} and gave no usable answer for {failed}; {revised}. "
            f"It took {self.tokens:,} tokens{cost}."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "observational": OBSERVATIONAL,
            "statement": self.statement,
            "model": self.plan.model,
            "diagnoses": [diagnosis.to_json() for diagnosis in self.diagnoses],
            "rules": [clause_json(clause) for clause in self.candidate.clauses] if self.candidate else [],
            "refused": list(self.candidate.objections) if self.candidate else [],
            "tokens": self.tokens,
            "money": self.money,
        }


def plan_diagnosis(config: Config, assessment: Assessment, top: int, count: TokenCounter, keys: Sequence[str]) -> Plan:
    """The worst compactions whose summaries can be read, as they would be sent. Nothing is sent here."""
    # Without placebo points there are no scores; the order is then by the text that was fetched again.
    worst = assessment.scored or tuple(each for each in assessment.ranked if each.compaction.following)
    readable: list[RankedCompaction] = []
    unreadable = 0
    for each in worst:
        if len(readable) == top:
            break
        if each.compaction.readable:
            readable.append(each)
        else:
            unreadable += 1
    settings = config.models.get(config.optimizer_model)
    return Plan(
        config.optimizer_model,
        settings.base_url or "its usual address" if settings else "built in",
        observed_evidence(readable, config.adapt.evidence_tokens, count, scrubber(*keys)),
        unreadable,
        price_of(settings).input,
    )


async def diagnose_observed(config: Config, plan: Plan, template: Template, count: TokenCounter) -> ObservedDiagnosis:
    """Send a plan: a diagnosis of each compaction, then one revision within the section lock."""
    async with open_model(config, config.optimizer_model, count) as (model, spending):
        c = config.optimizer
        optimizer = Optimizer(
            model,
            Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort),
            config.adapt.redraws,
        )
        diagnoses = await asyncio.gather(*(diagnose(optimizer, entry, PROMPT) for entry in plan.evidence))
        candidate = None
        if any(diagnosis.causes for diagnosis in diagnoses):
            lines = (line for entry in plan.evidence for line in entry.lines.values())
            instances = instances_in(lines, tuple(template.parts().values()))
            candidate = await revise(optimizer, "observed-1", template, diagnoses, instances)
    return ObservedDiagnosis(plan, tuple(diagnoses), template, candidate, spending.tokens, spending.money)


UNVERIFIED = (
    "Not verified: each clause is the answer of the method `facts` to what summaries in transcripts lacked. Nothing was"
    " continued without the compaction; `recompact adapt` does that on your own tasks."
)


@dataclass(frozen=True)
class Draft:
    """The clauses, the kinds of facts that they are against, and of how many compactions a summary could be read."""

    original: Template
    readable: int
    kinds: tuple[MissingKind, ...]
    candidate: Candidate | None
    method: ClassVar[str] = "audit --draft"

    @property
    def changes(self) -> list[str]:
        return [f"**{UNVERIFIED}**", "", *(f"- {line}" for line in draft_lines(self))]

    @property
    def clauses(self) -> tuple[tuple[MissingKind, str], ...]:
        texts = [clause.text for clause in self.candidate.clauses] if self.candidate else []
        return tuple(zip(self.kinds, texts, strict=bool(texts)))

    def to_json(self) -> dict[str, Any]:
        clauses = [
            {"clause": text, "kind": kind.kind, "facts": kind.facts, "compactions": kind.boundaries, "verified": False}
            for kind, text in self.clauses
        ]
        return {"readable": self.readable, "clauses": clauses}


def draft(assessment: Assessment) -> Draft:
    """Count by kind what readable summaries lacked and agents used, and write one clause against each kind into the
    default template."""
    template = default_template()
    readable = [each for each in assessment.ranked if each.compaction.readable]
    lacks = []
    for rank, each in enumerate(readable, 1):
        lost = Counter(kind_of(need.literal.text) for need in each.compaction.needs if not need.covered)
        lost["error"] += len(each.compaction.failures)
        id = BoundaryId(f"{rank}. {each.session.label}", each.compaction.ordinal)
        lacks.append(MissingFacts(id, {kind: lost[kind] for kind in KINDS if lost[kind]}))
    kinds = missing_kinds(lacks, template)
    candidate = next(iter(candidates_from(template, lacks, kinds, 1)), None) if kinds else None
    return Draft(template, len(readable), kinds, candidate)


def draft_lines(drafted: Draft) -> Iterator[str]:
    """Each clause with what it rests on."""
    for kind, text in drafted.clauses:
        where = "compaction" if kind.boundaries == 1 else "compactions"
        yield f"{text} ({kind.words} at {kind.boundaries:,} {where})"


def write_revision(result: ObservedDiagnosis | Draft, directory: Path, date: str) -> bool:
    """Write the template that was revised from transcripts, with its provenance, its record and its changes; returns
    whether there is one."""
    if result.candidate is None or (revised := result.candidate.template) is None:
        return False
    provenance = {
        "revised_by": f"recompact {__version__}",
        "method": result.method,
        "evidence": "observational",
        "parent": result.original.hash,
    }
    manifest = {**provenance, "hash": revised.hash, "date": date, **result.to_json()}
    with replaced_directory(directory, RESULT, "--revised") as fresh:
        replace(revised, provenance=provenance).write_parts(fresh)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (fresh / MANIFEST).write_text(text, encoding="utf-8")
        changes = "\n".join(["# What changed, and why", "", *result.changes, ""])
        (fresh / "CHANGES.md").write_text(changes, encoding="utf-8")
    return True
