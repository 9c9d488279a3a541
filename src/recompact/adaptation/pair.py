"""PAIR: a diagnosis of each boundary that did harm, and candidates that revise nothing but the guidance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recompact.adaptation.candidates import draw_candidates
from recompact.adaptation.diagnosis import Diagnosis, diagnose
from recompact.adaptation.evidence import BoundaryEvidence, gather
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.questions import Question, answers
from recompact.adaptation.revision import revise
from recompact.candidate import Candidate
from recompact.store.store import Store
from recompact.study import Method, Study


async def propose(study: Study) -> tuple[Candidate, ...]:
    """Step 3 of the paper: diagnose every retained boundary, then revise."""
    settings = study.config.adapt
    evidence = gather(study.store, study.config.compressor.scope, settings.evidence_tokens, study.count)
    questions = {entry.id: _question(entry) for entry in evidence}
    diagnoses = [Diagnosis.from_json(d) for d in (await answers(study, "diagnose", "diagnosis", questions)).values()]
    if not any(diagnosis.causes for diagnosis in diagnoses):
        return ()
    instances = frozenset(literal for entry in evidence for literal in entry.instances)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        return await revise(optimizer, name, study.template, diagnoses, instances)

    return await draw_candidates(study, PAIR.name, draw)


def _question(entry: BoundaryEvidence) -> Question:
    async def answer(optimizer: Optimizer) -> Any:
        diagnosis = await diagnose(optimizer, entry)
        return {**diagnosis.to_json(), "unit": entry.id.unit, "index": entry.id.index}

    return Question(f"diagnose/{entry.id}", answer)


def reasons(store: Store) -> Mapping[str, str]:
    """What was diagnosed at each boundary, in one line."""
    lines = {}
    for unit in sorted(store.finished("diagnosis")):
        diagnosis = store.result(unit)
        if diagnosis["findings"]:
            first = diagnosis["findings"][0]
            lines[diagnosis["boundary"]] = f"{first['mechanism']} ({first['kind']}): {first['explanation']}"
    return lines


PAIR = Method(
    "pair",
    propose,
    needs_effects=True,
    phases=("diagnose/", "revise/pair/"),
    cites="compaction",
    reasons=reasons,
    color="#D55E00",
)
