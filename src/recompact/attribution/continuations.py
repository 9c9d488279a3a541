"""Continuations: the same frozen agent continues from a boundary, with and without the compaction, to the end.

PRE and POST start from the same restored environment and differ in nothing but the context. Compaction is off, and a
continuation may take the steps that remained at the boundary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from recompact.attribution.agenda import LeftOut
from recompact.attribution.records import says_nothing
from recompact.compressors.protocol import CompactionFailed, Compressor
from recompact.engine.collection import unit_of
from recompact.engine.execution.scheduler import Unit
from recompact.engine.rollout import run_episode, with_differences
from recompact.engine.store.records import read_trajectory, write_trajectory
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Opening, Task
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request
from recompact.values.outcome import BoundaryId, ContinuationArm, Draw, Outcome
from recompact.values.trajectory import Boundary, Score, Snapshot, Trajectory

NO_SUMMARY = "no summary"
"""How the reason begins where a compressor wrote nothing to continue from."""

Play = Callable[[UnitCalls], Awaitable[Trajectory]]


def continuation_unit(task: str, index: int, arm: ContinuationArm, draw: int) -> str:
    """The name of one draw; everything random in it comes from this name."""
    return f"continue/{task}/{index}/{arm}/{draw}"


async def play_draw(
    study: Study,
    task: Task,
    boundary: Boundary,
    arm: ContinuationArm,
    calls: UnitCalls,
    answered: Callable[[], None] = lambda: None,
) -> Trajectory:
    """One continuation: a single draw from Q∅ of the boundary's state and the arm's context, with `answered` called at
    each reply. Where the environment fails, that is how it ended."""
    try:
        if boundary.snapshot is None:
            raise EnvironmentFailed("the boundary has no snapshot to continue from")
        # Where the agent may look up what a compaction dropped, it has the turns before the boundary for that.
        recall, agent = study.schedule.recall, study.agent(calls)
        continuation = await run_episode(
            task,
            study.episodes.episode(task, study.ask(calls)),
            replace(agent, model=_WithReplyCallback(agent.model, answered)),
            count=study.count,
            step_limit=study.config.run.step_limit - boundary.step,
            snapshot=boundary.snapshot,
            context=boundary.pre if arm == "PRE" else boundary.post,
            actions=boundary.actions,
            schedule=study.schedule,
            earlier=read_trajectory(study.store, unit_of(task)).turns[: boundary.step] if recall else (),
            observation_tokens=study.config.run.observation_tokens,
            progress=study.progress,
        )
    except EnvironmentFailed as failure:
        continuation = broken_draw(task, boundary, str(failure))
    return with_differences(continuation, calls)


def broken_draw(task: Task, boundary: Boundary, error: str) -> Trajectory:
    """The record of a draw that says nothing about the agent."""
    return Trajectory(task.id, (), (), "environment error", Score.of(False), boundary.pre, error=error)


def outcome_of(draw: Draw, continuation: Trajectory) -> Outcome | LeftOut:
    """What a continuation says about its boundary."""
    if reason := says_nothing(draw.arm, continuation.ending, continuation.error):
        return LeftOut(reason)
    tokens = sum(usage.total for usage in continuation.usage.values())
    return Outcome(continuation.score.value, continuation.steps, tokens, continuation.ending == "step limit")


@dataclass(frozen=True)
class _WithReplyCallback:
    """A model, with `callback` called at each reply."""

    model: ChatModel
    callback: Callable[[], None]

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request) -> Reply:
        reply = await self.model.reply(request)
        self.callback()
        return reply


async def play_fresh(
    study: Study,
    task: Task,
    boundary: Boundary,
    compressor: Compressor,
    calls: UnitCalls,
    answered: Callable[[], None] = lambda: None,
) -> Trajectory:
    """One continuation from a fresh summary of the same history, which its record keeps."""
    try:
        compaction = await compressor.compress(boundary.pre, study.config.compressor.budget)
    except (CompactionFailed, ContextOverflow, Refused) as failure:
        return broken_draw(task, boundary, f"{NO_SUMMARY}: {failure}")
    fresh = replace(boundary, post=compaction.context, asked_again=compaction.asked_again, cut=compaction.cut)
    continuation = await play_draw(study, task, fresh, "POST", calls, answered)
    return replace(continuation, boundaries=(fresh,), usage={**continuation.usage, "compressor": compaction.usage})


async def opening_of(study: Study, task: Task, calls: UnitCalls, snapshot: Snapshot | None = None) -> Opening:
    """How an episode of a task begins, which a compressor may want to know; where a `snapshot` is given, it is restored
    too, to see whether it can be."""
    episode = study.episodes.episode(task, study.ask(calls))
    try:
        opening = await episode.start()
        if snapshot is not None:
            await episode.restore(snapshot)
    finally:
        await episode.close()
    return opening


def draw_beside(
    study: Study, name: str, task: Task, id: BoundaryId, arm: ContinuationArm, play: Play
) -> Unit[Trajectory]:
    """A unit that makes a draw beside those of the verification; the phase that it is recorded in and its number are in
    its name. One that says nothing about the agent is not recorded: the same command tries it again."""

    def record(continuation: Trajectory, seconds: float) -> None:
        if not says_nothing(arm, continuation.ending):
            phase, number = name.partition("/")[0], int(name.rpartition("/")[2])
            write_trajectory(
                study.store, name, continuation, phase=phase, run=number, groups=task.groups, seconds=seconds
            )

    return Unit(name, play, record, group=str(id), task=task.id)
