"""Candidates drawn independently, each as a unit of work of its own, whichever method draws them.

In goes a way to draw one candidate by its name, out come so many of them as the config asks for. A candidate that never
becomes valid is in the result like the others, with what was wrong; one whose model failed is named as unfinished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.revision import Candidate, Rule
from recompact.adaptation.units import Progress, as_unit
from recompact.execution.schedule import Unfinished, run_units
from recompact.study import Study
from recompact.template import Template

Drawn = tuple[tuple[Candidate, ...], tuple[Unfinished, ...]]
"""Candidates, and the units that a model's failure left unfinished."""


async def draw_candidates(
    study: Study,
    progress: Progress,
    method: str,
    draw: Callable[[Optimizer, str], Awaitable[Candidate]],
    under: str = "",
) -> Drawn:
    """So many candidates. `under` tells units apart that start from another template than the study's."""
    progress.begin("revise", study.config.adapt.candidates)
    found: dict[str, Candidate] = {}

    async def draw_one(name: str) -> None:
        async def work() -> dict[str, Any]:
            return candidate_to_json(await draw(study.optimizer(calls), name))

        unit = f"revise/{method}/{under}{name}"
        calls = study.calls(unit)
        found[name] = candidate_from_json(await as_unit(study.store, unit, "candidate", work), study.template)
        progress.done()

    names = [f"{method}-{n}" for n in range(1, study.config.adapt.candidates + 1)]
    left = await run_units(((name, partial(draw_one, name)) for name in names), study.config.run.concurrency)
    return tuple(found[name] for name in names if name in found), tuple(left)


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
