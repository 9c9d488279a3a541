"""Verdicts that are made elsewhere: an episode of a grading suite judges the evidence that another episode left.

For environments in whose process an agent's code runs, which could otherwise read the answers or forge its score.
"""

from __future__ import annotations

from recompact.environments.protocol import Episodes, Task
from recompact.values.trajectory import Action, Score

_GRADING = Task("grading", "Judge the evidence of an episode.")


async def grade(grader: Episodes, task: Task, evidence: Score) -> Score:
    """The verdict on an episode whose own score holds, in its details, what is to be judged."""
    episode = grader.episode(_GRADING)
    try:
        await episode.start()
        await episode.step(Action("judge", {"task": task.id, **evidence.details}))
        return await episode.score()
    finally:
        await episode.close()
