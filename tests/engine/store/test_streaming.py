"""A long trajectory is shown without ever being in memory as a whole."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace
from pathlib import Path

from examples import examples
from hypothesis import given, strategies as st
from report_support import claim
from rich.console import Console

from recompact.engine.store.records import read_trajectory, stream_trajectory, write_trajectory
from recompact.engine.store.store import Store
from recompact.presentation.report.terminal import print_trajectory
from recompact.values.chat import Message, ToolCall, assistant, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.trajectory import Action, Boundary, Score, Snapshot, Trajectory

PREFIX = (user("Do it."),)
MEGABYTE = 1 << 20


def trajectory(steps: int, every: int, state: int = 0, text: str = "") -> Trajectory:
    """A trajectory that is compacted after every so many steps, with a state of so many bytes at each boundary."""
    turns = tuple(Turn(assistant(f"Step {n}.{text}"), (user(f"Seen {n}.{text}"),), 4) for n in range(steps))
    boundaries = tuple(
        Boundary(
            index=number,
            step=step,
            pre=Context(PREFIX, None, turns[step - every : step]),
            post=Context(PREFIX, Summary(f"Summary {number}.", 3), turns[step - 1 : step]),
            snapshot=Snapshot("state", number.to_bytes(4, "big") * (state // 4)),
            actions=tuple(Action("look", {"page": n}) for n in range(step)),
        )
        for number, step in enumerate(range(every, steps + 1, every), 1)
    )
    return Trajectory("t", turns, boundaries, "finished", Score.of(True, answer="42"), Context(PREFIX, None, turns))


@examples(25)
@given(steps=st.integers(1, 12), every=st.integers(1, 5))
def test_the_parts_are_those_of_the_trajectory_in_their_order(tmp_path_factory: object, steps: int, every: int) -> None:
    whole = trajectory(steps, every, state=8)
    with Store.open(Path(tmp_path_factory.mktemp("stream")) / "r.db") as store:  # type: ignore[attr-defined]
        claim(store, "collect")
        write_trajectory(store, "u", whole, phase="collect", run=0, groups={}, seconds=0.0)
        head, parts = stream_trajectory(store, "u")
        streamed = list(parts)
        assert read_trajectory(store, "u") == whole
    assert tuple(part for part in streamed if isinstance(part, Turn)) == whole.turns
    lean = tuple(replace(boundary, snapshot=None, actions=()) for boundary in whole.boundaries)
    assert tuple(part for part in streamed if isinstance(part, Boundary)) == lean
    for place, part in enumerate(streamed):
        if isinstance(part, Boundary):
            assert sum(isinstance(earlier, Turn) for earlier in streamed[:place]) == part.step
    assert (head.score, head.ending, head.context.prefix) == (whole.score, whole.ending, whole.context.prefix)


def test_a_thousand_steps_take_little_memory(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.db") as store:
        claim(store, "collect")
        long = trajectory(1000, 25, state=MEGABYTE, text=" word" * 200)
        write_trajectory(store, "u", long, phase="collect", run=0, groups={}, seconds=0.0)
        del long
        tracemalloc.start()
        _, parts = stream_trajectory(store, "u")
        numbers = sum(isinstance(part, Turn) for part in parts)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert numbers == 1000
    assert peak < 12 * MEGABYTE  # forty states and contexts are 40 MB, and all actions before each boundary as much


def test_what_is_shown_of_a_streamed_trajectory(tmp_path: Path) -> None:
    out = io.StringIO()
    with Store.open(tmp_path / "r.db") as store:
        claim(store, "collect")
        call = ToolCall("c", "look", "{}")
        whole = replace(trajectory(4, 2), turns=(Turn(Message("assistant", "", (call,)), (), 1),) * 4)
        write_trajectory(store, "u", whole, phase="collect", run=0, groups={}, seconds=0.0)
        print_trajectory(Console(file=out, width=100), *stream_trajectory(store, "u"))
    shown = out.getvalue()
    assert shown.index("step 2") < shown.index("boundary 1") < shown.index("step 3") < shown.index("boundary 2")
    assert "4 steps, 2 compactions" in shown
    assert "score: answer: 42" in shown
