"""Suites for hosts on a cluster: safes whose state is bytes, a directory or the process, and which can ask a model."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safes_suite import DESKS, HOUSES, Burglar, code_of, visit

from recompact.environments.protocol import Observation, Opening, Strategy, Task
from recompact.values.chat import Reply, Request, ToolSpec, system, user
from recompact.values.trajectory import Action, Score

SICK = "RECOMPACT_TEST_SICK"  # where this variable is set, the suite cannot be loaded
TOOLS = tuple(
    ToolSpec(name, name, {"type": "object", "properties": {}}) for name in ("visit", "unlock", "finish", "ask", "fail")
)


class Safe:
    """A house with desks and a safe. What was done lies in a directory, or in memory with the other strategies."""

    def __init__(self, task: Task, snapshots: Strategy, seconds: float, ballast: int, asks: bool) -> None:
        self.task = task
        self.snapshots = snapshots
        self.directory = Path(tempfile.mkdtemp())
        self._seconds = seconds
        self._opened = False
        if asks:
            self.ask: Callable[[str, Request], Reply] | None = None
        (self.directory / "ballast").write_bytes(bytes(range(256)) * (ballast // 256))

    def start(self) -> Opening:
        return Opening((system("Use the tools."), user(self.task.text)), TOOLS)

    def step(self, action: Action) -> Observation:
        time.sleep(self._seconds)
        if action.name == "finish":
            return Observation("Good bye.", done=True)
        if action.name == "fail":
            raise RuntimeError("this environment is broken")
        if action.name == "ask":
            assert self.ask is not None
            return Observation(self.ask("oracle", Request((user("Which code?"),))).message.content)
        if action.name == "visit":
            return Observation(visit(**action.arguments))
        self._opened = action.arguments.get("code") == code_of(int(action.arguments["house"]))
        if self._opened and self.snapshots == "directory":
            (self.directory / "open").write_text("It is open.")
        return Observation("It opens." if self._opened else "It stays shut.")

    def score(self) -> Score:
        place = (self.directory / "open").exists() if self.snapshots == "directory" else self._opened
        return Score.of(place)

    def snapshot(self) -> bytes:
        if self.snapshots == "replay":
            raise NotImplementedError
        return json.dumps(self._opened).encode()

    def restore(self, state: bytes) -> None:
        self._opened = json.loads(state)

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class Safes:
    """`seconds` is what a step takes, `ballast` the bytes that a snapshot of a directory has besides; those that ask a
    model need a host."""

    name = "safes"

    def __init__(
        self, snapshots: Strategy = "directory", seconds: float = 0.0, ballast: int = 0, asks: bool = False
    ) -> None:
        if SICK in os.environ:
            raise RuntimeError("a package is missing on this node")
        self._settings = (snapshots, seconds, ballast, asks)

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"safe-{n}", f"Visit desks 1 to {DESKS} of house {n}, then open its safe.") for n in HOUSES]

    def environment(self, task: Task) -> Safe:
        return Safe(task, *self._settings)


class CountingBurglar(Burglar):
    """Remembers the seed of each call, which names the unit and the ordinal: a call that is sent twice is seen."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seeds: list[int | None] = []
        self._pause = seconds

    async def reply(self, request: Request) -> Reply:
        import asyncio

        self.seeds.append(request.decoding.seed)
        await asyncio.sleep(self._pause)
        return await super().reply(request)


def safes_config(directory: Path, host: str, more: str = "", **options: Any) -> str:
    """The config of a study that adapts the burglar's prompt from its evidence alone."""
    told = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    return f"""
[suite]
use = "{Path(__file__)}:Safes"
host = {host}
options = {{ {told} }}
[agent]
model = "burglar"
[models.burglar]
use = "{Path(__file__)}:CountingBurglar"
[compressor]
budget = 200
[run]
concurrency = 6
[adapt]
method = "facts"
fit_tasks = 3
{more}
"""
