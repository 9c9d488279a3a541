"""Up to its first compaction no template matters: arms that compact at the same place share that part of an episode.

A shared start is a unit of work like any other, with random numbers of its own. It is played once for each task, run
and budget, and every arm goes on from there in an environment restored to that moment. Where a snapshot is not exact
(the actions would be done again), nothing is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from recompact.agents.suite import AgentSuite
from recompact.engine.collection import trajectory_unit
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.calls import usage_by_unit
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import BROKEN, trajectories, trajectory_row
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import Task
from recompact.values.trajectory import Ending

PHASE = "shared"
EXACT = ("state", "directory")
"""The strategies that put an environment back as it was."""


@dataclass(frozen=True)
class SharedStart:
    """The beginning of one run of a task under a budget; `under` is how the names of the arms' units begin."""

    under: str
    budget: int
    task: Task
    run: int

    @property
    def name(self) -> str:
        return f"{self.under}/{PHASE}/{self.budget}/{self.task.id}/{self.run}"


def can_share(study: Study) -> bool:
    """Whether the arms of a study may share their starts: not where a program is the agent, whose state is its own."""
    external = study.config.agent.external or isinstance(study.episodes, AgentSuite)
    return study.config.run.share_prefix and not external


async def play_starts(study: Study, starts: Iterable[SharedStart]) -> frozenset[str]:
    """Play these, and return the names of those that arms can go on from."""
    every = list({start.name: start for start in starts}.values())
    for start in every:  # until one tells whether the environment can be put back exactly
        await _play(study, [start])
        ending, usable = _state(study.store, start)
        if ending == "compaction due" and not usable:
            return frozenset()
        if ending == "compaction due":
            break
    for _ in range(1 + study.config.adapt.fit_retries):
        await _play(study, every)
        broken = [start for start in every if _state(study.store, start)[0] == BROKEN]
        for start in broken:  # an environment that breaks says nothing about the arms: it is tried again
            study.store.reopen(start.name)
        if not broken:
            break
    return frozenset(start.name for start in every if _state(study.store, start)[1])


async def _play(study: Study, starts: Iterable[SharedStart]) -> None:
    """Play and record these. What cannot be finished is left to the arms, which then begin by themselves."""
    units = []
    for start in starts:
        compressor = replace(study.config.compressor, budget=start.budget)
        under = replace(study, config=replace(study.config, compressor=compressor))
        units.append(trajectory_unit(under, start.name, start.task, phase=PHASE, run=start.run, stop_when_due=True))
    with suppress(Unfinished):
        await study.complete(PHASE, "trajectory", units)


def _state(store: Store, start: SharedStart) -> tuple[Ending | None, bool]:
    """How a start ended, if it is there, and whether an arm can go on from it or take it as it is."""
    if start.name not in store.finished("trajectory"):
        return None, False
    ending = trajectory_row(store, start.name).ending
    if ending != "compaction due":
        return ending, ending != BROKEN
    snapshot = read_trajectory(store, start.name).boundaries[-1].snapshot
    return ending, snapshot is not None and snapshot.strategy in EXACT


@dataclass(frozen=True)
class Sharing:
    """What the arms of a phase took, each by itself, and what was played and paid for."""

    steps: int
    steps_played: int
    tokens: int
    tokens_paid: int

    @property
    def statement(self) -> str:
        """What sharing saved; empty where nothing was shared."""
        if self.steps_played >= self.steps:
            return ""
        share = 100 * (1 - self.steps_played / self.steps)
        saved = self.tokens - self.tokens_paid
        return (
            f"Arms that compact at the same place shared their steps up to there: {share:.0f} % of all steps and"
            f" {100 * saved / max(1, self.tokens):.0f} % of all tokens ({saved / 1000:,.0f} thousand) were saved"
            " ([run] share_prefix)."
        )


def sharing(store: Store, phase: str) -> Sharing:
    """What sharing saved in a phase: the usage of its trajectories, each with its shared steps, beside the journal."""
    rows = trajectories(store, phase=phase)
    units = {row.unit for row in rows}
    paid = {
        unit: usage
        for unit, usage in usage_by_unit(store).items()
        if unit in units or (unit.startswith(f"{phase}/") and f"/{PHASE}/" in unit)
    }
    calls = usage_by_unit(store, ("agent",))
    return Sharing(
        steps=sum(row.usage["agent"].calls for row in rows if "agent" in row.usage),
        steps_played=sum(calls[unit].calls for unit in paid if unit in calls),
        tokens=sum(usage.total for row in rows for usage in row.usage.values()),
        tokens_paid=sum(usage.total for usage in paid.values()),
    )
