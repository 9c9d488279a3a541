"""Where a benchmark judges what was done, the step limit does not take it away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from fakes import Scripted

from recompact.engine.rollout import Agent, run_episode
from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.chat import Reply, ToolCall, ToolSpec, Usage, assistant, user
from recompact.values.tokens import counter
from recompact.values.trajectory import Score


class Desk:
    usage: ClassVar[dict[str, Any]] = {}
    changes: ClassVar[dict[str, int]] = {}

    def __init__(self, opening: Opening) -> None:
        self.opening = opening

    async def start(self) -> Opening:
        return self.opening

    async def close(self) -> None: ...

    async def step(self, action: Any) -> Observation:
        return Observation("saved")

    async def score(self) -> Score:
        return Score.of(True)


@pytest.mark.parametrize("judged", [True, False])
async def test_work_that_is_done_at_the_step_limit(judged: bool) -> None:
    opening = replace(Opening((user("Save it."),), (ToolSpec("save", "Save."),)), judged_at_limit=judged)
    model = Scripted(*(Reply(assistant("", ToolCall(f"c{n}", "save", "{}")), Usage()) for n in range(2)))
    desk: Any = Desk(opening)
    played = await run_episode(Task("t", ""), desk, Agent(model), count=counter(), step_limit=2)
    assert (played.ending, played.steps, played.score.success) == ("step limit", 2, judged)
