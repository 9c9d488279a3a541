"""Continuations: the same frozen agent continues from a boundary, with and without the compaction, to the end.

PRE and POST start from the same restored environment and differ in nothing but the context. Compaction is off, and a
continuation may take the steps that remained at the boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from recompact.attribution.agenda import LeftOut
from recompact.attribution.records import says_nothing
from recompact.compressors.protocol import Compressor
from recompact.engine.collection import unit_of
from recompact.engine.execution.episodes import run_episode, with_differences
from recompact.engine.rollout import Agent
from recompact.engine.store.records import read_trajectory
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.errors import RecompactError
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request, Usage
from recompact.values.outcome import ContinuationArm, Draw, Outcome
from recompact.values.trajectory import Boundary, Score, Trajectory


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
        recall = study.schedule.recall
        continuation = await run_episode(
            task,
            study.episodes.episode(task, study.ask(calls)),
            with_reply_callback(study.agent(calls), answered),
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
        continuation = broken_draw(task, boundary, failure)
    return with_differences(continuation, calls)


def broken_draw(task: Task, boundary: Boundary, failure: RecompactError) -> Trajectory:
    """The record of a draw that says nothing about the agent."""
    return Trajectory(task.id, (), (), "environment error", Score.of(False), boundary.pre, error=str(failure))


def outcome_of(draw: Draw, continuation: Trajectory) -> Outcome | LeftOut:
    """What a continuation says about its boundary."""
    if reason := says_nothing(draw.arm, continuation.ending, continuation.error):
        return LeftOut(reason)
    tokens = sum(usage.total for usage in continuation.usage.values())
    return Outcome(continuation.score.value, continuation.steps, tokens, continuation.ending == "step limit")


def with_reply_callback(agent: Agent, callback: Callable[[], None]) -> Agent:
    """The agent, with `callback` called at each reply."""
    return replace(agent, model=_WithReplyCallback(agent.model, callback))


@dataclass(frozen=True)
class _WithReplyCallback:
    model: ChatModel
    callback: Callable[[], None]

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request) -> Reply:
        reply = await self.model.reply(request)
        self.callback()
        return reply


async def recompress(boundary: Boundary, compressor: Compressor, budget: int) -> tuple[Boundary, Usage]:
    """The boundary with another summary in POST, and what it cost."""
    compaction = await compressor.compress(boundary.pre, budget)
    changed = replace(boundary, post=compaction.context, asked_again=compaction.asked_again, cut=compaction.cut)
    return changed, compaction.usage
