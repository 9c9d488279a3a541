"""PAIR: a diagnosis of each boundary that did harm, and candidates that revise nothing but the guidance.

Its negative controls are PAIR with uninformative evidence, all else the same: what they gain is not due to evidence.
`pair-random` diagnoses as many boundaries as were retained, drawn at random; `pair-swapped` shows the two arms of the
retained ones under each other's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from recompact.adaptation.evidence import EvidenceText, gather, nothing_retained, retained_evidence, shared_prefix
from recompact.adaptation.lock import instances_in
from recompact.adaptation.method import Method, MethodInputs, answers, draw_candidates, without_usable
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.revision import Diagnosis, diagnose, revise
from recompact.attribution.boundary_view import BoundaryView, boundary_view
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import settings_of
from recompact.engine.collection import unit_of
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, EvidenceCounts, Proposal, Reason
from recompact.values.outcome import BoundaryId, Outcomes, Thresholds
from recompact.values.texts import all_of, quantity

DIAGNOSIS = "diagnosis"  # the kind of the records


async def propose_from(
    inputs: MethodInputs, evidence: Sequence[EvidenceText], method: str, kind: str = DIAGNOSIS, under: str = ""
) -> Proposal:
    """Step 3 of the paper: diagnose these boundaries, then revise. `kind` and `under` set apart what comes of other
    evidence."""
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
    texts = {entry.id: entry for entry in chosen}

    async def answer(optimizer: Optimizer, id: BoundaryId) -> Any:
        return (await diagnose(optimizer, texts[id])).to_json()

    units = {id: f"diagnose/{under}{id}" for id in texts}
    records = await answers(
        inputs,
        "diagnose",
        kind,
        units,
        answer,
        useful=lambda record: bool(record["findings"]),
        failed=lambda record: Diagnosis.from_json(record).failed,
    )
    return [Diagnosis.from_json(record) for record in records.values()]


def boundary_evidence(
    inputs: MethodInputs, choose: Callable[[Store], Iterable[BoundaryView]] = retained_evidence
) -> tuple[EvidenceText, ...]:
    """What the optimizer gets to see of the retained boundaries, or of those that are chosen."""
    tasks = {unit_of(task): task.text for task in inputs.tasks}
    tokens = inputs.settings.evidence_tokens
    return gather(inputs.records, tasks, inputs.scope, tokens, inputs.count, choose)


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


def _method(
    name: str, choose: Callable[[Store], Iterable[BoundaryView]], kind: str, under: str = "", color: str | None = None
) -> Method:
    """PAIR with the evidence that is chosen, whose records have this kind."""

    async def propose(inputs: MethodInputs) -> Proposal:
        return await propose_from(inputs, boundary_evidence(inputs, choose), name, kind, under)

    phases = (f"diagnose/{under}", f"revise/{name}/")
    return Method(name, propose, needs_effects=True, phases=phases, reasons=partial(reasons, kind=kind), color=color)


PAIR = _method("pair", retained_evidence, DIAGNOSIS, color="#D55E00")


OTHER = {"PRE": "POST", "POST": "PRE"}


def random_boundaries(store: Store) -> tuple[BoundaryView, ...]:
    """As many boundaries as were retained, drawn at random from all that were continued in both arms."""
    verification = read_verdicts(store)
    continued = sorted(verification.examined, key=lambda verdict: verdict.id)
    number = len(verification.retained)
    drawn_by_lot = Random(f"pair-random/{store.metadata.seed}").sample(continued, number)
    return tuple(boundary_view(store, verdict) for verdict in drawn_by_lot)


def swapped_arms(store: Store) -> tuple[BoundaryView, ...]:
    """The retained boundaries, each continuation under the name of the other arm."""
    thresholds = settings_of(store).thresholds
    return tuple(swap_arms(view, thresholds) for view in retained_evidence(store))


def swap_arms(view: BoundaryView, thresholds: Thresholds) -> BoundaryView:
    """The boundary as if each continuation had come from the other arm: effect and missing facts follow from that."""
    continuations = tuple(
        sorted(
            (replace(c, row=replace(c.row, arm=OTHER[c.row.arm])) for c in view.continuations),
            key=lambda c: (c.row.draw, c.row.arm == "POST"),
        )
    )
    outcomes = Outcomes(view.verdict.outcomes.post, view.verdict.outcomes.pre)
    verdict = replace(view.verdict, outcomes=outcomes, effect=effect_of(outcomes, thresholds), confirmed=None)
    return replace(view, verdict=verdict, continuations=continuations)


# A report shows no diagnosis of a control, so theirs are of other kinds.
PAIR_RANDOM = _method("pair-random", random_boundaries, f"pair-random {DIAGNOSIS}", "pair-random/")
PAIR_SWAPPED = _method("pair-swapped", swapped_arms, f"pair-swapped {DIAGNOSIS}", "pair-swapped/")
