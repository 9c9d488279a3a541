"""The method as the paper describes it: collect, verify, revise, select."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from recompact.adaptation.inputs import inputs_of
from recompact.adaptation.method import Method
from recompact.adaptation.registry import method_of
from recompact.adaptation.selection import choose
from recompact.attribution.records import settings_of
from recompact.attribution.registry import allocation_named, with_allocation
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, EvidenceCounts, Proposal, Selection
from recompact.values.template import Template

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
    evidence: EvidenceCounts | None = None
    statement: str = ""  # why there was nothing to select from
    unusable: bool = False  # the optimizer gave nothing that could be used: the next command asks it again

    @property
    def winning(self) -> Candidate | None:
        """The candidate that won, if the original did not stay."""
        return next((candidate for candidate in self.candidates if candidate.name == self.winner), None)


async def adapt(study: Study, until: Stage = "select", allocation: str | None = None) -> Adaptation:
    """Steps 1 to 4, or up to one of them. Whatever the run already has is reused.

    The run's existing verification is used as it is; `allocation` asks for another one.
    """
    stages = STAGES[: STAGES.index(until) + 1]
    method = method_of(study)
    proposal, selection = Proposal(()), None
    effects = "verify" in stages and method.needs_effects
    if effects:
        check_allocation(verifying(study, allocation))  # a mistake in it must not cost step 1
    await collect(study)  # step 1
    if effects:
        await verify(verifying(study, allocation))  # step 2
    if "revise" in stages:
        proposal = Proposal.of(await method.propose(await inputs_of(study)))  # step 3
        write_adaptation(study.store, _record(study, method, proposal, None))  # a stop in step 4 loses nothing
    candidates = proposal.candidates
    if "select" in stages and any(candidate.template for candidate in candidates):
        selection = await choose(study, candidates, method)  # step 4
        write_adaptation(study.store, _record(study, method, proposal, selection))
    winner = selection.winner if selection else ORIGINAL
    template = {c.name: c.template for c in candidates}.get(winner) or study.template
    return Adaptation(
        method, template, winner, candidates, selection, proposal.evidence, proposal.statement, proposal.unusable
    )


def verifying(study: Study, allocation: str | None = None) -> Study:
    """The study with the settings that its boundaries are verified by: those of the run's own verification, if it has
    one, so that what was paid for is never overridden by a default."""
    config = study.config
    settings = settings_of(study.store, config.verify)
    if allocation is not None:
        settings = with_allocation(config.verify, allocation)
    return replace(study, config=replace(config, verify=settings))


def check_allocation(study: Study) -> None:
    """Refuse settings that name no allocation, or options that it does not take."""
    allocation_named(study.config.verify, directory=study.config.directory)


def _record(study: Study, method: Method, proposal: Proposal, selection: Selection | None) -> AdaptationRecord:
    return AdaptationRecord(
        method=method.name,
        cites=method.cites,
        original=study.template.hash,
        candidates=proposal.candidates,
        selection=selection,
        reasons=dict(method.reasons(study.store)),
        evidence=proposal.evidence,
        statement=proposal.statement,
    )
