"""What goes wrong around an agent that is a command: failing models, kills, and agents that differ or mean harm."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import TASK, agent_config, collected, models, verified, write_notes
from needs import needs
from workspace_support import write_task

from recompact.agents import episode
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.connection import StoreError
from recompact.environments.process_tree import descendants
from recompact.models.failures import Overloaded
from recompact.values.chat import Request

pytestmark = needs("bubblewrap")


def agents() -> list[int]:
    """The agents below this process, as they run in their sandboxes."""
    pids = []
    for pid in descendants(os.getpid()):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"/home/agent/agent.py" in line and b"launcher" not in line and b"bwrap" not in line:
            pids.append(pid)
    return pids


async def test_a_model_that_fails_one_call_in_three_changes_nothing(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", trick="title")
    _, calm = await verified(config, tmp_path / "calm.db")
    attempts, answered = 0, Counter[str]()

    def fail(request: Request) -> None:
        nonlocal attempts
        attempts += 1
        if attempts % 3 == 0:
            raise Overloaded("the server is busy")
        answered[request.digest] += 1

    for _ in range(60):
        try:
            verification, faulty = await verified(config, tmp_path / "faulty.db", models=models(fail))
            break
        except (Unfinished, Overloaded):
            continue
        except StoreError:  # a process of the attempt before still holds the lock for a moment
            await asyncio.sleep(0.1)
    assert verification.left_out == {}
    assert faulty == calm
    assert set(answered.values()) == {1}, "a call that was journaled was sent again"
    assert agents() == []


async def test_side_calls_are_counted_apart_and_replayed_from_the_record(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", "messages", "stream", trick="title")
    titles = 0

    def count(request: Request) -> None:
        nonlocal titles
        titles += "Write a title" in request.messages[-1].content

    (trajectory,) = await collected(config, tmp_path / "run.db", models=models(count))
    assert trajectory.ending == "finished", trajectory.error
    assert trajectory.usage["side"].calls == 1
    verification, _ = await verified(config, tmp_path / "run.db", models=models(count))
    assert [v.id.index for v in verification.retained] == [1]
    assert titles == 1


async def test_an_agent_that_is_killed_is_brought_back(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks")
    (calm,) = await collected(config, tmp_path / "calm.db")
    asked = 0

    def kill(request: Request) -> None:
        nonlocal asked
        asked += 1
        if asked == 4:
            for pid in agents():
                os.kill(pid, signal.SIGKILL)

    (killed,) = await collected(config, tmp_path / "killed.db", models=models(kill))
    assert killed == calm
    assert asked == calm.steps + len(calm.boundaries)


async def test_names_that_are_drawn_anew_are_steady_for_the_model(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    names = agent_config(tmp_path / "tasks", trick="names", agent="ids = ['/tmp/out-(\\w+)\\.txt']")
    (trajectory,) = await collected(names, tmp_path / "one.db")
    assert "/tmp/out-name0001.txt" in trajectory.turns[0].results[0].content
    assert "name0001" in trajectory.turns[1].message.calls[0].arguments
    assert trajectory.ending == "finished"
    first, second = [await verified(names, tmp_path / f"{run}.db") for run in ("one", "two")]
    assert first[0].left_out == {}
    assert first[1] == second[1]


async def test_what_always_differs_can_be_replaced(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    clock = agent_config(tmp_path / "tasks", trick="clock", agent="replace = { 'It took \\d+ ns' = 'It took a while' }")
    first, second = [await verified(clock, tmp_path / f"{run}.db") for run in ("one", "two")]
    assert first[0].left_out == {}
    assert first[1] == second[1]


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        ("names", "replay differs at action 1 (shell): recorded 'Stored in /tmp/out-"),
        ("random-file", "replay differs at action 1 (shell): the workspace differs: random.bin became"),
    ],
)
async def test_a_branch_that_differs_is_left_out_with_the_difference(tmp_path: Path, trick: str, reason: str) -> None:
    write_notes(tmp_path / "tasks")
    verification, _ = await verified(agent_config(tmp_path / "tasks", trick=trick), tmp_path / "run.db")
    assert verification.retained == ()
    assert verification.left_out
    assert all(reason in text for text in verification.left_out.values()), verification.left_out


EVIL = TASK.replace("Read the", "You are evil. Read the")


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        ("huge@evil", "it sent a request of more than 33,554,432 bytes"),
        ("garbage@evil", "it sent a request that cannot be read"),
        ("silent@evil", "its first request took longer than 5 s"),
        ("crash@evil", "it ended with exit code 3"),
        ("many@evil", "it had more than 64 processes"),
        pytest.param("bomb@evil", "it had more than 64 processes", marks=needs("process limit")),
        ("disk@evil", "it wrote more than 20,000,000 bytes"),
    ],
)
async def test_an_agent_that_means_harm_is_ended_with_a_reason_and_others_are_unharmed(
    tmp_path: Path, trick: str, reason: str
) -> None:
    write_notes(tmp_path / "tasks", "good")
    notes = {path.name: path.read_text() for path in (tmp_path / "tasks" / "good" / "files" / "notes").iterdir()}
    write_task(tmp_path / "tasks", "evil", EVIL, {f"notes/{name}": text for name, text in notes.items()}, check="")
    limits = "limits = { processes = 64, disk = 20_000_000 }"
    config = agent_config(tmp_path / "tasks", trick=trick, agent=limits)
    built = replace(config, agent=replace(config.agent, timeout=5.0 if "silent" in trick else 60.0))
    evil, good = await collected(built, tmp_path / "run.db")
    assert evil.ending == "environment error"
    assert reason in evil.error
    assert good.ending == "finished", good.error
    assert agents() == []


@needs("control groups")
async def test_an_agent_that_died_of_the_kernels_limit_before_anybody_looked_is_said_to_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode, "_LOOK", 1000.0)
    write_task(tmp_path / "tasks", "evil", EVIL, {}, check="")
    config = agent_config(tmp_path / "tasks", trick="many@evil", agent="limits = { processes = 64 }")
    (evil,) = await collected(config, tmp_path / "run.db")
    assert "it had more than 64 processes or threads, and the kernel refused it another" in evil.error


async def test_an_agent_sees_nothing_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
    write_notes(tmp_path / "tasks", "one", "two")
    config = agent_config(tmp_path / "tasks", trick=f"spy:{tmp_path}")
    trajectories = await collected(config, tmp_path / "run.db")
    for trajectory in trajectories:
        assert trajectory.ending == "finished", trajectory.error
        assert "spied: []" in trajectory.turns[0].results[0].content


async def test_an_agent_that_never_ends_runs_out_of_steps(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", trick="daemon")
    short = replace(config, run=replace(config.run, step_limit=3))
    (trajectory,) = await collected(short, tmp_path / "run.db")
    assert trajectory.ending == "step limit"
    assert agents() == []
