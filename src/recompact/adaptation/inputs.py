"""The inputs of a method, from a study: what it may have done is done here, under the study's limits and journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from recompact.adaptation.method import Episode, MethodInputs
from recompact.adaptation.optimizer import optimizer_of
from recompact.adaptation.selection import choose, runs_of
from recompact.attribution.bisection.bisect import bisect
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.forecast import forecast_draws
from recompact.attribution.records import settings_of
from recompact.attribution.registry import allocation_of
from recompact.attribution.verify import verify
from recompact.engine.collection import collect, trajectory_unit
from recompact.engine.execution.scheduler import Unit
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.values.candidate import Candidate
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
        running = study if compaction else study.compressing("none")
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
