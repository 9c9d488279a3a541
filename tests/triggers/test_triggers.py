"""When to compact, and what ends compactions that gain nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from fakes import Reader, pages_suite

from recompact.compressors.fifo import Fifo
from recompact.engine.config import CompressorConfig, Config
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.errors import InputError
from recompact.triggers.protocol import Moment, Schedule
from recompact.triggers.registry import load_trigger
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Turn
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory


def moment(tool: str, *, size: int, result: str = "fine", since: int = 5) -> Moment:
    call = ToolCall("1", tool, '{"path": "a.py"}')
    results = (user("What now?"),) if tool == "ask" else (Message("tool", result, call_id="1"),)
    context = Context((system("x"),), None, (Turn(assistant(""), (), 1), Turn(assistant("", call), results, size - 1)))
    return Moment(context, budget=100, soft=60, calls=since, since=since)


@pytest.mark.parametrize(
    ("name", "tool", "size", "result", "due"),
    [
        ("phase", "edit_file", 61, "fine", True),
        ("phase", "edit_file", 60, "fine", False),
        ("phase", "edit_file", 61, "Error: no such file", False),
        ("phase", "read_file", 100, "fine", False),
        ("phase", "read_file", 101, "fine", True),
        ("turn", "ask", 61, "", True),
        ("turn", "edit_file", 100, "fine", False),
        ("turn", "edit_file", 101, "fine", True),
        ("interval:5", "read_file", 2, "fine", True),
        ("interval:6", "read_file", 1_000, "fine", False),
    ],
)
def test_triggers(name: str, tool: str, size: int, result: str, due: bool) -> None:
    trigger = load_trigger(name)
    assert trigger(moment(tool, size=size, result=result)) is due


def test_the_default_is_the_trigger_of_that_name() -> None:
    assert load_trigger("budget") is Schedule().trigger
    full = moment("read_file", size=101)
    assert load_trigger("budget")(full) is Schedule().due(full.context, 100, 5) is True


@pytest.mark.parametrize("name", ["interval", "interval:0", "interval:x", "sometimes", "phase:3", "budget:2"])
def test_what_is_no_trigger_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        load_trigger(name)


def test_a_trigger_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def late(moment):\n    return moment.calls > 3\n")
    trigger = load_trigger("mine.py:late", tmp_path)
    assert trigger(moment("read_file", size=1)) is True


async def play(compressor: object, schedule: Schedule) -> Trajectory:
    suite = pages_suite(1)
    task = suite.tasks("train")[0]
    episode = InProcessEpisode(suite.environment(task), task.id)
    return await run_episode(
        task,
        episode,
        Agent(Reader()),
        count=counter(),
        step_limit=12,
        compressor=lambda opening: compressor,  # type: ignore[return-value,arg-type]
        budget=500,
        schedule=schedule,
    )


async def test_a_gain_below_the_share_is_refused() -> None:
    assert (await play(Fifo(), Schedule())).boundaries
    assert not (await play(Fifo(), Schedule(min_gain=0.9))).boundaries


async def test_calls_between_compactions() -> None:
    steps = [b.step for b in (await play(Fifo(), Schedule(load_trigger("interval:3")))).boundaries]
    assert steps
    assert all(later - earlier >= 3 for earlier, later in pairwise(steps))


def test_settings_by_default_leave_a_run_what_it_was() -> None:
    assert not Config().identity()["compressor"].keys() & {"trigger", "soft", "min_calls", "min_gain"}
    other = Config(compressor=CompressorConfig(trigger="phase", min_calls=3))
    assert other.identity()["compressor"]["trigger"] == "phase"
    assert other.identity()["compressor"]["min_calls"] == 3
