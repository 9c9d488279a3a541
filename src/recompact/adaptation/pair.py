"""PAIR: a diagnosis of each boundary that did harm, and candidates that revise nothing but the guidance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recompact.adaptation.diagnosis import Diagnosis, diagnose
from recompact.adaptation.evidence import EvidenceText, gather, nothing_retained, retained_evidence, shared_prefix
from recompact.adaptation.instances import instances_in
from recompact.adaptation.method import Method, MethodInputs
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.questions import Question, answers, draw_candidates, without_usable
from recompact.adaptation.revision import revise
from recompact.attribution.boundary_view import BoundaryView
from recompact.engine.collection import unit_of
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, EvidenceCounts, Proposal, Reason
from recompact.values.texts import all_of, quantity

DIAGNOSIS = "diagnosis"  # the kind of the records


async def propose(inputs: MethodInputs) -> Proposal:
    """Step 3 of the paper: diagnose every retained boundary, then revise."""
    return await propose_from(inputs, boundary_evidence(inputs), PAIR.name)


async def propose_from(
    inputs: MethodInputs, evidence: Sequence[EvidenceText], method: str, kind: str = DIAGNOSIS, under: str = ""
) -> Proposal:
    """Diagnose these boundaries, then revise. `kind` and `under` keep what was made from other evidence separate."""
    if not evidence:
        return Proposal((), statement=nothing_retained(inputs.records))
    diagnoses = await diagnose_boundaries(inputs, evidence, kind, under)
    counts = count_evidence(diagnoses)
    if not counts.diagnosed:
        return Proposal((), counts, _nothing_diagnosed(diagnoses, counts), unusable=counts.failed > 0)
    instances = instances_in(
        (line for entry in evidence for line in entry.lines.values()),
        (*inputs.template.parts().values(), *shared_prefix(inputs.records)),
    )

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        return await revise(optimizer, name, inputs.template, diagnoses, instances)

    candidates = await draw_candidates(inputs, method, draw)
    statement = without_usable(candidates)
    return Proposal(candidates, counts, statement, unusable=bool(statement))


async def diagnose_boundaries(
    inputs: MethodInputs, evidence: Sequence[EvidenceText] | None = None, kind: str = DIAGNOSIS, under: str = ""
) -> list[Diagnosis]:
    """A diagnosis of each of these boundaries, or of the retained ones."""
    chosen = boundary_evidence(inputs) if evidence is None else evidence
    questions = {entry.id: _question(entry, under) for entry in chosen}
    records = await answers(
        inputs, "diagnose", kind, questions, useful=lambda record: bool(record["findings"]), failed=_is_failure
    )
    return [Diagnosis.from_json(record) for record in records.values()]


def boundary_evidence(
    inputs: MethodInputs, choose: Callable[[Store], Iterable[BoundaryView]] = retained_evidence
) -> tuple[EvidenceText, ...]:
    """What the optimizer gets to see of the retained boundaries, or of those that are chosen."""
    tasks = {unit_of(task): task.text for task in inputs.tasks}
    tokens = inputs.settings.evidence_tokens
    return gather(inputs.records, tasks, inputs.scope, tokens, inputs.count, choose)


def _is_failure(record: Mapping[str, Any]) -> bool:
    return Diagnosis.from_json(record).failed


def count_evidence(diagnoses: Sequence[Diagnosis]) -> EvidenceCounts:
    """What became of the retained boundaries."""
    return EvidenceCounts(
        about="compaction",
        pieces=len(diagnoses),
        diagnosed=sum(bool(d.causes) for d in diagnoses),
        abstained=sum(bool(d.abstained) for d in diagnoses),
        failed=sum(d.failed for d in diagnoses),
        cut=sum(d.cuts > 0 for d in diagnoses),
        left_out=sum(d.left_out for d in diagnoses),
        uncited=sum(not cause.lines for d in diagnoses for cause in d.causes),
        dropped=sum(len(d.losses) for d in diagnoses),
    )


def _nothing_diagnosed(diagnoses: Sequence[Diagnosis], counts: EvidenceCounts) -> str:
    if not counts.failed:
        return (
            f"The optimizer abstained on {all_of(counts.pieces, 'retained boundary')}: no summary explains its"
            " difference, so there is nothing to adapt and the original stays."
        )
    reasons = dict.fromkeys(reason for diagnosis in diagnoses for reason in diagnosis.objections)
    return (
        f"The optimizer gave no usable diagnosis of {counts.failed} of {quantity(counts.pieces, 'retained boundary')};"
        f" the first reasons: {'; '.join(list(reasons)[:3])}"
    )


def _question(entry: EvidenceText, under: str) -> Question:
    async def answer(optimizer: Optimizer) -> Any:
        return (await diagnose(optimizer, entry)).to_json()

    return Question(f"diagnose/{under}{entry.id}", answer)


def reasons(store: Store, kind: str = DIAGNOSIS) -> Mapping[str, Sequence[Reason]]:
    """What was diagnosed at each boundary."""
    return findings_by_boundary(Diagnosis.from_json(store.result(unit)) for unit in sorted(store.finished(kind)))


def findings_by_boundary(diagnoses: Iterable[Diagnosis]) -> dict[str, tuple[Reason, ...]]:
    """The findings of diagnoses, by boundary; of one that abstained, why. A later answer replaces an earlier one."""
    by_boundary: dict[str, tuple[Reason, ...]] = {}
    for each in diagnoses:
        findings = tuple(Reason(f"{c.mechanism} ({c.kind}): {c.explanation}", c.kind) for c in each.causes)
        if findings or each.abstained:
            by_boundary[str(each.id)] = findings or (Reason(f"abstained: {each.abstained}"),)
    return by_boundary


PAIR = Method(
    "pair",
    propose,
    needs_effects=True,
    phases=("diagnose/", "revise/pair/"),
    cites="compaction",
    reasons=reasons,
    color="#D55E00",
)
