"""The method as the paper describes it: collect, verify, revise, select."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from recompact.adaptation.method import Episode, Method, MethodInputs, method_of
from recompact.adaptation.optimizer import optimizer_of
from recompact.adaptation.selection import choose, runs_of
from recompact.attribution.bisection.bisect import bisect
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.forecast import forecast_draws
from recompact.attribution.records import settings_of
from recompact.attribution.registry import allocation_named, allocation_of, with_allocation
from recompact.attribution.verify import verify
from recompact.engine.collection import collect, trajectory_unit
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.values.candidate import ORIGINAL, Candidate, EvidenceCounts, Proposal, Selection
from recompact.values.outcome import BoundaryId
from recompact.values.progress import Progress
from recompact.values.template import Template


async def inputs_of(study: Study) -> MethodInputs:
    """What a method of this study gets."""

    async def complete(stage: str, kind: str, units: Iterable[Unit[Any]], *, progress: Progress | None = None) -> None:
        await replace(study, progress=progress or study.progress).complete(stage, kind, units)

    async def run(
        phase: str,
        episodes: Sequence[Episode],
        *,
        template: Template | None = None,
        compaction: bool = True,
        progress: Progress | None = None,
    ) -> None:
        running = study if compaction else study.compressing(replace(study.config.compressor, kind="none", options={}))
        running = replace(running, template=template or study.template, progress=progress or study.progress)
        units = [
            trajectory_unit(running, each.unit, each.task, phase=phase, run=each.number, snapshots=False)
            for each in episodes
        ]
        await runs_of(running, phase, units)

    async def select(candidates: Sequence[Candidate]) -> Candidate | None:
        if not any(candidate.template for candidate in candidates):
            return None
        selection = await choose(study, candidates)
        return next((candidate for candidate in candidates if candidate.name == selection.winner), None)

    async def causes(boundaries: Sequence[BoundaryId]) -> Iterable[Cause]:
        return (await bisect(study, boundaries)).causes.values()

    async def collect_more(number: int) -> tuple[Task, ...]:
        more = await study.add_tasks(number)
        if more:
            await collect(study)
            settings = settings_of(study.store, study.config.verify)
            await verify(replace(study, config=replace(study.config, verify=settings)))
        return more

    def expected_draws() -> int:
        draws = forecast_draws(study.store, allocation_of(study.store, study.config.verify))
        return draws.done + draws.expected.units

    return MethodInputs(
        template=study.template,
        tasks=await study.tasks(),
        records=study.store,
        settings=study.config.adapt,
        scope=study.config.compressor.scope,
        seed=study.config.run.seed,
        count=study.count,
        progress=study.progress,
        complete=complete,
        optimizer=lambda calls: optimizer_of(study, calls),
        run=run,
        select=select,
        bisect=causes,
        collect_more=collect_more,
        spare_tasks=0 if study.config.suite.tasks else len(await study.chosen_tasks()),
        expected_draws=expected_draws,
    )


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
        check_allocation(with_verification(study, allocation))  # a mistake in it must not cost step 1
    await collect(study)  # step 1
    if effects:
        await verify(with_verification(study, allocation))  # step 2
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


def with_verification(study: Study, allocation: str | None = None) -> Study:
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
