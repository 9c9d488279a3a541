"""Draws in addition to a verification: an A/A control, fresh pairs that confirm what was retained, and fresh summaries.

Each is its own unit with its own seeds, recorded in the same run; a verification never sees them. What comes to
nothing is not recorded, and the same command tries it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

from recompact.attribution.agenda import DrawAgenda
from recompact.attribution.allocation import Allocation, in_turn
from recompact.attribution.allocation_parser import most_draws
from recompact.attribution.chained import Chained
from recompact.attribution.continuations import continue_from, recompress
from recompact.attribution.verify import RunOutcomes, outcome_of, places, telling
from recompact.chat import Usage
from recompact.collection import unit_of as collected_unit
from recompact.compressors.protocol import CompactionFailed
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import InputError
from recompact.execution.episodes import with_differences
from recompact.execution.executor import Unit
from recompact.execution.scheduler import run_agenda
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.outcome import ARMS, BoundaryId, ContinuationArm, Draw, Outcome, Outcomes
from recompact.store.plan import bound_stage
from recompact.store.records import read_boundary, read_trajectory, write_trajectory
from recompact.store.runs import TrajectoryRow, boundary_rows, trajectories
from recompact.store.store import Store
from recompact.study import Study
from recompact.trajectory import Boundary, Score, Trajectory

Purpose = Literal["control", "confirm", "resample"]
"""control: both arms from PRE. confirm: PRE and POST as in the verification. resample: POST with a separate summary
for each draw."""


@dataclass(frozen=True)
class PostOnly:
    """`draws` POST draws at every boundary; PRE has its draws elsewhere."""

    draws: int

    @property
    def name(self) -> str:
        return f"resampled {self.draws}"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, "POST", number)
            for boundary, own in outcomes.items()
            for number in range(self.draws)
            if number not in own.post
        )

    def retained(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return ()


def without_chaining(allocation: Allocation) -> Allocation:
    """A chained draw begins after the compaction, so a control with both arms from PRE cannot have one."""
    return allocation.inner if isinstance(allocation, Chained) else allocation


def further_unit(purpose: Purpose, task: str, index: int, arm: ContinuationArm, number: int) -> str:
    """The name of one draw; everything random in it comes from this name."""
    return f"{purpose}/{task}/{index}/{arm}/{number}"


def further_outcomes(store: Store, purpose: Purpose) -> dict[BoundaryId, Outcomes]:
    """The draws of this kind that a run has, by boundary."""
    assert purpose in get_args(Purpose)
    arms: dict[BoundaryId, dict[str, dict[int, Outcome]]] = {}
    for draw, row in further_rows(store, purpose):
        tokens = sum(usage.total for usage in row.usage.values())
        at = arms.setdefault(draw.boundary, {arm: {} for arm in ARMS})
        at[draw.arm][draw.number] = Outcome(row.value, row.steps, tokens)
    return {id: Outcomes(of["PRE"], of["POST"]) for id, of in arms.items()}


def further_rows(store: Store, purpose: Purpose) -> list[tuple[Draw, TrajectoryRow]]:
    """The draws of this kind with their records. Those of boundaries that the run no longer has, since their task was
    collected again, belong to none."""
    known = {(row.task, row.index): BoundaryId(row.unit, row.index) for row in boundary_rows(store)}
    draws = []
    for row in trajectories(store, phase=purpose):
        _, index, arm, number = row.unit.rsplit("/", 3)
        if id := known.get((row.task, int(index))):
            draws.append((Draw(id, "PRE" if arm == "PRE" else "POST", int(number)), row))
    return draws


def further_draws(store: Store) -> dict[str, int]:
    """How many draws of each kind a run has besides its verification."""
    return {purpose: len(further_rows(store, purpose)) for purpose in get_args(Purpose)}


def fresh_summaries(store: Store) -> dict[BoundaryId, int]:
    """How many different summaries the draws with fresh ones have: a compressor may write the same one each time."""
    texts: dict[BoundaryId, set[str]] = {}
    for draw, row in further_rows(store, "resample"):
        texts.setdefault(draw.boundary, set()).add(summary_text(read_trajectory(store, row.unit)))
    return {id: len(each) for id, each in texts.items()}


def summary_text(draw: Trajectory) -> str:
    """The words of the summary that a draw with a fresh one continued from; empty for other draws."""
    summary = draw.boundaries[0].post.summary if draw.boundaries else None
    return summary.text if summary else ""


async def make_further_draws(
    study: Study, purpose: Purpose, allocation: Allocation, boundaries: Collection[BoundaryId]
) -> RunOutcomes:
    """Make the draws that the allocation asks for at these boundaries; those that the run has are reused."""
    tasks = {collected_unit(task): task for task in await study.tasks()}
    existing = further_outcomes(study.store, purpose)
    outcomes = {id: existing.get(id, Outcomes()) for id in sorted(boundaries)}

    @lru_cache(maxsize=2 * study.config.run.concurrency)
    def boundary(id: BoundaryId) -> Boundary:
        return read_boundary(study.store, id.unit, id.index)

    finished = sum(len(own.pre) + len(own.post) for own in outcomes.values())
    study.progress.stage(purpose, None, finished)
    own = len(outcomes) * allocation.draws if isinstance(allocation, PostOnly) else None
    bound_stage(study.progress, most_draws(allocation, outcomes) if own is None else own)
    at_once = places(study)
    agenda = DrawAgenda(
        allocation,
        outcomes,
        unit_of=lambda draw: _unit(
            study, purpose, tasks[draw.boundary.unit], boundary(draw.boundary), draw, agenda.answered
        ),
        outcome_of=outcome_of,
        concurrency=at_once,
        slots=study.agent_slots,
        progress=study.progress,
        finished=finished,
    )
    await run_agenda(agenda, study.executor, at_once, study.progress)
    return RunOutcomes(agenda.outcomes, agenda.left_out)


def _unit(
    study: Study, purpose: Purpose, task: Task, boundary: Boundary, draw: Draw, answered: Callable[[Draw], None]
) -> Unit[Trajectory]:
    name = further_unit(purpose, task.id, boundary.index, draw.arm, draw.number)

    async def play(calls: UnitCalls) -> Trajectory:
        at, usage = boundary, {}
        try:
            if purpose == "resample":
                at, usage["compressor"] = await _with_fresh_summary(study, task, boundary, calls)
            continuation = await continue_from(
                task,
                at,
                "PRE" if purpose == "control" else draw.arm,
                study.episodes.episode(task, study.ask(calls)),
                telling(study.agent(calls), lambda: answered(draw)),
                count=study.count,
                step_limit=study.config.run.step_limit,
                observation_tokens=study.config.run.observation_tokens,
                progress=study.progress,
            )
        except (EnvironmentFailed, CompactionFailed, ContextOverflow, Refused) as failure:
            return Trajectory(task.id, (), (), "environment error", Score.of(False), boundary.pre, error=str(failure))
        summaries = (at,) if purpose == "resample" else ()
        continuation = replace(continuation, boundaries=summaries, usage={**continuation.usage, **usage})
        return with_differences(continuation, calls)

    def record(continuation: Trajectory, seconds: float) -> None:
        if isinstance(outcome_of(draw, continuation), Outcome):
            write_trajectory(
                study.store,
                name,
                continuation,
                phase=purpose,
                run=draw.number,
                groups=task.groups,
                seconds=seconds,
            )

    return Unit(name, play, record, group=str(draw.boundary))


async def _with_fresh_summary(study: Study, task: Task, boundary: Boundary, calls: UnitCalls) -> tuple[Boundary, Usage]:
    """The same history compressed once more."""
    episode = study.episodes.episode(task, study.ask(calls))
    try:
        opening = await episode.start()  # a compressor may want to know the tools
    finally:
        await episode.close()
    compressor = study.compressor(calls, task, opening)
    if compressor is None:
        raise InputError(f"{study.store.path} was collected without a compressor: there is no summary to draw anew")
    return await recompress(boundary, compressor, study.config.compressor.budget)
