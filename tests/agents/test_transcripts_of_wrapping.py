"""What `recompact wrap` writes down: every message and every compaction."""

from __future__ import annotations

from recompact.agents.wrapping import transcript
from recompact.chat import assistant, user
from recompact.context import Context, Summary, Turn
from recompact.trajectory import Boundary, Score, Trajectory


def count(text: str) -> int:
    return len(text)


def test_a_compaction_after_the_last_turn_is_marked_too() -> None:
    prefix = (user("Do it."),)
    turns = tuple(Turn.measured(assistant(f"step {n}"), (user(f"result {n}"),), count) for n in range(3))
    boundaries = tuple(
        Boundary(number, step, Context(prefix), Context(prefix, Summary.measured(f"summary {step}", count)), None, ())
        for number, step in ((1, 1), (2, 3))
    )
    trajectory = Trajectory("t", turns, boundaries, "context overflow", Score.of(False), Context(prefix))
    told = [(each["content"], each.get("compaction", False)) for each in transcript(trajectory)]
    expected = [("Do it.", False), ("step 0", False), ("result 0", False), ("summary 1", True), ("step 1", False)]
    expected += [("result 1", False), ("step 2", False), ("result 2", False), ("summary 3", True)]
    assert told == expected
