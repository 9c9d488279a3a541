"""One episode from beginning to end: start it, bring it to a snapshot where one is given, roll out, close it.

What collection, continuations and evaluation have in common besides the rollout itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recompact.compressors.protocol import Compressor
from recompact.engine.rollout import BY_BUDGET, OBSERVATION_TOKENS, Agent, rollout
from recompact.environments.protocol import EnvironmentFailed, Episode, Opening, Task
from recompact.models.journal import UnitCalls
from recompact.triggers.protocol import Schedule
from recompact.values.context import Context, Turn
from recompact.values.progress import SILENT, Progress
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Action, Incident, Score, Snapshot, Trajectory


async def run_episode(
    task: Task,
    episode: Episode,
    agent: Agent,
    *,
    count: TokenCounter,
    step_limit: int,
    compressor: Callable[[Opening], Compressor | None] = lambda opening: None,
    budget: int = 4096,
    schedule: Schedule = BY_BUDGET,
    snapshot: Snapshot | None = None,
    context: Context | None = None,
    actions: Sequence[Action] = (),
    earlier: Sequence[Turn] = (),
    snapshots: bool = True,
    observation_tokens: int = OBSERVATION_TOKENS,
    progress: Progress = SILENT,
    start: Trajectory | None = None,
    stop_when_due: bool = False,
) -> Trajectory:
    """An environment that fails to start or to restore ends its own trajectory, with no steps."""
    if start is not None:
        snapshot = start.boundaries[-1].snapshot
    try:
        if snapshot is not None and (expect := getattr(episode, "expect", None)) is not None:
            expect(snapshot)  # some begin differently where they know what they will be restored to
        opening = await episode.start()
        if snapshot is not None:
            await episode.restore(snapshot)
        trajectory = await rollout(
            task=task.id,
            agent=agent,
            episode=episode,
            opening=opening,
            count=count,
            context=context,
            compressor=compressor(opening),
            budget=budget,
            schedule=schedule,
            step_limit=step_limit,
            actions=actions,
            earlier=earlier,
            snapshots=snapshots,
            observation_tokens=observation_tokens,
            progress=progress,
            start=start,
            stop_when_due=stop_when_due,
        )
    except EnvironmentFailed as failure:
        empty = context if context is not None else Context(())
        trajectory = Trajectory(task.id, (), (), "environment error", Score.of(False), empty, error=str(failure))
    finally:
        await episode.close()
    for change, times in sorted(episode.changes.items()):
        text = f"{change}, {times} times" if times > 1 else change
        trajectory = trajectory.with_incident(Incident(trajectory.steps, "value changed", text))
    return trajectory


def with_differences(trajectory: Trajectory, calls: UnitCalls) -> Trajectory:
    """The trajectory, with an incident where a resumed unit diverged from its journal."""
    if not calls.differed:
        return trajectory
    text = "when it was resumed the environment answered differently, so part of it was run anew"
    return trajectory.with_incident(Incident(0, "replay differed", text))
