"""The method as the paper tells it: collect, verify, revise, select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recompact.adaptation.registry import method_of
from recompact.adaptation.selection import select
from recompact.attribution.verify import verify
from recompact.candidate import ORIGINAL, Candidate, Selection
from recompact.collection import collect
from recompact.store.adaptations import AdaptationRecord, write_adaptation
from recompact.study import Method, Study
from recompact.template import Template

Stage = Literal["collect", "verify", "revise", "select"]
STAGES: tuple[Stage, ...] = ("collect", "verify", "revise", "select")


@dataclass(frozen=True)
class Adaptation:
    """The template to use, who wrote it, and all candidates; no selection where there was nothing to select from."""

    method: Method
    template: Template
    winner: str
    candidates: tuple[Candidate, ...]
    selection: Selection | None

    @property
    def winning(self) -> Candidate | None:
        """The candidate that won, if the original did not stay."""
        return next((candidate for candidate in self.candidates if candidate.name == self.winner), None)


async def adapt(study: Study, until: Stage = "select") -> Adaptation:
    """Steps 1 to 4, or up to one of them. Whatever the run has already is not done again."""
    stages = STAGES[: STAGES.index(until) + 1]
    method = method_of(study)
    candidates: tuple[Candidate, ...] = ()
    selection = None
    await collect(study)  # step 1
    if "verify" in stages and method.needs_effects:
        await verify(study)  # step 2
    if "revise" in stages:
        candidates = await method.propose(study)  # step 3
        write_adaptation(study.store, _record(study, method, candidates, None))  # a stop in step 4 loses nothing
    if "select" in stages and any(candidate.template for candidate in candidates):
        selection = await select(study, candidates)  # step 4
        write_adaptation(study.store, _record(study, method, candidates, selection))
    winner = selection.winner if selection else ORIGINAL
    template = {c.name: c.template for c in candidates}.get(winner) or study.template
    return Adaptation(method, template, winner, candidates, selection)


def _record(
    study: Study, method: Method, candidates: tuple[Candidate, ...], selection: Selection | None
) -> AdaptationRecord:
    return AdaptationRecord(
        method=method.name,
        cites=method.cites,
        original=study.template.hash,
        candidates=candidates,
        selection=selection,
        reasons=dict(method.reasons(study.store)),
    )
