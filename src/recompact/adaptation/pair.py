"""PAIR: evidence from the boundaries that did harm, a diagnosis of each, and candidates that revise the guidance only.

A method is evidence in, candidates out; collection, selection and evaluation are shared by all methods.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recompact.adaptation.diagnosis import Cause, Diagnosis, diagnose
from recompact.adaptation.evidence import BoundaryEvidence, gather
from recompact.adaptation.revision import Candidate, Rule, revise
from recompact.adaptation.units import Progress, as_unit
from recompact.attribution.allocation import BoundaryId
from recompact.execution.schedule import Unfinished, run_units
from recompact.study import Study
from recompact.template import Template


async def pair(study: Study, progress: Progress) -> tuple[tuple[Candidate, ...], tuple[Unfinished, ...]]:
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
        diagnoses[entry.id] = _diagnosis(await as_unit(study.store, unit, "diagnosis", work))
        progress.done()

    left = await run_units(((str(e.id), partial(diagnose_one, e)) for e in evidence), study.config.run.concurrency)
    made = [diagnoses[e.id] for e in evidence if e.id in diagnoses]
    if left or not any(d.causes for d in made):
        return (), tuple(left)
    instances = frozenset(literal for e in evidence for literal in e.instances)
    return await candidates_of(study, progress, "pair", made, instances)


async def candidates_of(
    study: Study, progress: Progress, method: str, diagnoses: list[Diagnosis], instances: frozenset[str]
) -> tuple[tuple[Candidate, ...], tuple[Unfinished, ...]]:
    """So many candidates, drawn independently from the same diagnoses."""
    number = study.config.adapt.candidates
    progress.begin("revise", number)
    found: dict[str, Candidate] = {}

    async def revise_one(name: str) -> None:
        async def work() -> dict[str, Any]:
            return candidate_to_json(await revise(study.optimizer(calls), name, study.template, diagnoses, instances))

        unit = f"revise/{method}/{name}"
        calls = study.calls(unit)
        found[name] = candidate_from_json(await as_unit(study.store, unit, "candidate", work), study.template)
        progress.done()

    names = [f"{method}-{n}" for n in range(1, number + 1)]
    left = await run_units(((name, partial(revise_one, name)) for name in names), study.config.run.concurrency)
    return tuple(found[name] for name in names if name in found), tuple(left)


def _diagnosis(data: dict[str, Any]) -> Diagnosis:
    causes = tuple(Cause(**cause) for cause in data["findings"])
    return Diagnosis(BoundaryId(data["unit"], data["index"]), data["channel"], causes, tuple(data["refused"]))


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    template = candidate.template
    return {
        "name": candidate.name,
        "parts": {part: template.part(part) for part in ("system", "first", "update")} if template else None,
        "rules": [[rule.clause, rule.section, list(rule.boundaries)] for rule in candidate.rules],
        "refused": list(candidate.refused),
    }


def candidate_from_json(data: dict[str, Any], original: Template) -> Candidate:
    parts = data["parts"]
    template = Template(**parts, frame=original.frame) if parts else None
    rules = tuple(Rule(clause, section, tuple(boundaries)) for clause, section, boundaries in data["rules"])
    return Candidate(data["name"], template, rules, tuple(data["refused"]))
