"""Continuations: the same frozen agent continues from a boundary, with and without the compaction, to the end.

PRE and POST start from the same restored environment and differ in nothing but the context. Compaction is off, and a
continuation may take the steps that remained at the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recompact.compressors.protocol import Compressor
from recompact.engine.execution.episodes import run_episode
from recompact.engine.rollout import BY_BUDGET, Agent
from recompact.environments.protocol import Episode, Task
from recompact.triggers.protocol import Schedule
from recompact.values.chat import Usage
from recompact.values.context import Turn
from recompact.values.outcome import ContinuationArm
from recompact.values.progress import SILENT, Progress
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Boundary, Trajectory


def continuation_unit(task: str, index: int, arm: ContinuationArm, draw: int) -> str:
    """The name of one draw; everything random in it comes from this name."""
    return f"continue/{task}/{index}/{arm}/{draw}"


async def continue_from(
    task: Task,
    boundary: Boundary,
    arm: ContinuationArm,
    episode: Episode,
    agent: Agent,
    *,
    count: TokenCounter,
    step_limit: int,
    observation_tokens: int,
    schedule: Schedule = BY_BUDGET,
    earlier: Sequence[Turn] = (),
    progress: Progress = SILENT,
) -> Trajectory:
    """One continuation: a single draw from Q∅ of the boundary's state and the arm's context. The agent has the tools
    that the loop offered it before, and may recall the `earlier` turns."""
    return await run_episode(
        task,
        episode,
        agent,
        count=count,
        step_limit=step_limit - boundary.step,
        snapshot=boundary.snapshot,
        context=boundary.pre if arm == "PRE" else boundary.post,
        actions=boundary.actions,
        schedule=schedule,
        earlier=earlier,
        observation_tokens=observation_tokens,
        progress=progress,
    )


async def recompress(boundary: Boundary, compressor: Compressor, budget: int) -> tuple[Boundary, Usage]:
    """The boundary with another summary in POST, and what it cost."""
    compaction = await compressor.compress(boundary.pre, budget)
    changed = replace(boundary, post=compaction.context, asked_again=compaction.asked_again, cut=compaction.cut)
    return changed, compaction.usage
