"""What a step costs, counted and not timed: each text is hashed once, and a late step does what an early one did."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recompact.engine.execution.scheduler import InProcess, Unit, run_units
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Observation, Opening, Task
from recompact.models.journal import UnitCalls
from recompact.values.chat import Message, Reply, Request, ToolCall, ToolSpec, Usage, system, user
from recompact.values.tokens import counter
from recompact.values.trajectory import Action, Score, Trajectory


class Looker:
    """Asks for the next page, whatever it sees."""

    name = "looker"

    async def reply(self, request: Request) -> Reply:
        page = len(request.messages)
        call = ToolCall(f"call_{page:04}", "look", json.dumps({"page": page + 1000}))
        return Reply(Message("assistant", "", (call,)), Usage(100, 20, 0, 0, 1), model="looker")


class Pages:
    def start(self) -> Opening:
        return Opening((system("Read the pages."), user("Read them all.")), (ToolSpec("look", "Look at a page."),))

    def step(self, action: Action) -> Observation:
        return Observation(f"page {action.arguments['page']}: " + "a line of it. " * 40)

    def score(self) -> Score:
        return Score.of(True)

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...

    def close(self) -> None: ...


def play(path: Path, steps: int) -> None:
    """One episode of that many steps, journaled and recorded."""
    with Store.open(path) as store:

        async def rollout(calls: UnitCalls) -> Trajectory:
            agent = Agent(calls.bound(Looker(), "agent"))
            episode = InProcessEpisode(Pages(), "1")
            return await run_episode(Task("1", "Read."), episode, agent, count=counter("characters"), step_limit=steps)

        def record(trajectory: Trajectory, seconds: float) -> None:
            write_trajectory(store, "test/1", trajectory, phase="test", run=0, groups={}, seconds=seconds)

        asyncio.run(run_units([Unit("test/1", rollout, record)], InProcess(store), 1))


@contextmanager
def counting_calls() -> Iterator[Counter[str]]:
    """How many functions are called meanwhile, in Python and in C."""
    counts: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        counts[event] += 1

    sys.setprofile(note)
    try:
        yield counts
    finally:
        sys.setprofile(None)


def test_a_step_hashes_each_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six: the seed, the request, the reply and the result, and the conversation with each of these two."""
    hashed: list[bytes] = []
    real = hashlib.sha256

    def sha256(data: bytes = b"", **options: Any) -> Any:
        hashed.append(data)
        return real(data, **options)

    monkeypatch.setattr(hashlib, "sha256", sha256)
    numbers = []
    for steps in (20, 40):
        hashed.clear()
        play(tmp_path / f"{steps}.db", steps)
        numbers.append(len(hashed))
        assert len(set(hashed)) > 5 * steps
    assert numbers[1] - numbers[0] == 6 * 20


def test_a_late_step_calls_no_more_than_an_early_one(tmp_path: Path) -> None:
    play(tmp_path / "first.db", 20)  # the first time, it imports and fills caches
    numbers = []
    for steps in (40, 80, 120):
        with counting_calls() as counts:
            play(tmp_path / f"{steps}.db", steps)
        numbers.append(counts["call"] + counts["c_call"])
    early, late = numbers[1] - numbers[0], numbers[2] - numbers[1]
    assert late <= 1.02 * early  # buffers grow, and the journal is moved into the file now and then
