"""PAIR: evidence from the boundaries that did harm, a diagnosis of each, and candidates that revise the guidance only.

A method is evidence in, candidates out; collection, selection and evaluation are shared by all methods.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recompact.adaptation.candidates import Drawn, draw_candidates
from recompact.adaptation.diagnosis import Diagnosis, diagnose
from recompact.adaptation.evidence import BoundaryEvidence, gather
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.revision import Candidate, revise
from recompact.adaptation.units import Progress, as_unit
from recompact.execution.schedule import run_units
from recompact.outcome import BoundaryId
from recompact.study import Study


async def pair(study: Study, progress: Progress) -> Drawn:
    """Step 3 of the paper."""
    settings = study.config.adapt
    evidence = gather(study.store, study.config.compressor.scope, settings.evidence_tokens, study.count)
    progress.begin("diagnose", len(evidence))
    diagnoses: dict[BoundaryId, Diagnosis] = {}

    async def diagnose_one(entry: BoundaryEvidence) -> None:
        async def work() -> dict[str, Any]:
            made = await diagnose(study.optimizer(calls), entry)
            return {**made.to_json(), "unit": entry.id.unit, "index": entry.id.index}

        unit = f"diagnose/{entry.id}"
        calls = study.calls(unit)
        diagnoses[entry.id] = Diagnosis.from_json(await as_unit(study.store, unit, "diagnosis", work))
        progress.done()

    left = await run_units(((str(e.id), partial(diagnose_one, e)) for e in evidence), study.config.run.concurrency)
    made = [diagnoses[e.id] for e in evidence if e.id in diagnoses]
    if left or not any(d.causes for d in made):
        return (), tuple(left)
    instances = frozenset(literal for e in evidence for literal in e.instances)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        return await revise(optimizer, name, study.template, made, instances)

    return await draw_candidates(study, progress, "pair", draw)
