"""Verdicts that are made elsewhere: an episode of a grading suite judges the evidence that another episode left.

For environments in whose process an agent's code runs, which could otherwise read the answers or forge its score. The
grader is kept frozen once it has started, and later verdicts are made in fresh branches of it.
"""

from __future__ import annotations

from recompact.environments.protocol import Episodes, Task
from recompact.environments.snapshots.holders import Holders
from recompact.environments.snapshots.replay import record
from recompact.environments.snapshots.strategy import FORK
from recompact.values.trajectory import Action, Score

_GRADING = Task("grading", "Judge the evidence of an episode.")


async def grade(grader: Episodes, warm: Holders, task: Task, evidence: Score) -> Score:
    """The verdict on an episode whose own score holds, in its details, what is to be judged.

    `warm` are the grader's holders: one that has started is kept there.
    """
    episode = grader.episode(_GRADING)
    try:
        await episode.start()
        await episode.restore(record([], FORK))
        if not warm.count:
            await episode.snapshot()
        await episode.step(Action("judge", {"task": task.id, **evidence.details}))
        return await episode.score()
    finally:
        await episode.close()
