"""A suite whose environments do nothing but take time; loaded by the hosts that `cluster.py` starts."""

from __future__ import annotations

import json
import time

from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

TASK = Task("bench", "Read them all.")
OBSERVATION = json.dumps([{"id": n, "sender": f"person-{n}", "amount": n * 7.5} for n in range(8)])


class Waiting:
    """An environment whose step takes `seconds` and does nothing else; it is never done."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def start(self) -> Opening:
        tool = ToolSpec("look", "Look at a page.", {"type": "object", "properties": {"page": {"type": "integer"}}})
        return Opening((system("Read the pages."), user(TASK.text)), (tool,))

    def step(self, action: Action) -> Observation:
        if self._seconds:
            time.sleep(self._seconds)
        return Observation(f"page {action.arguments['page']}: {OBSERVATION}")

    def score(self) -> Score:
        return Score.of(True)

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...

    def close(self) -> None: ...


class WaitingSuite:
    """Has one task."""

    name = "waiting"

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def tasks(self, split: str) -> list[Task]:
        return [TASK]

    def environment(self, task: Task) -> Waiting:
        return Waiting(self._seconds)
