"""What the tests of evaluation share: rows made by hand, and where the released runs are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from needs import RELEASED_RUNS, require

from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.chat import Usage


def arm(name: str, outcomes: Sequence[str], scope: str | None = None, steps: int = 10) -> ArmRuns:
    """An arm from one text per task: `110` is solved in the first two of three runs."""
    rows = tuple(
        TaskRun(
            task=f"t{n:03d}",
            run=run,
            success=mark == "1",
            steps=steps + n % 3,
            compactions=run,
            peak=1000 + n,
            peak_reported=2000 + n,
            usage={"agent": Usage(100, 10, 40), "compressor": Usage(20, 5)},
            ending="finished",
            groups={"difficulty": "easy" if n % 2 else "hard"},
        )
        for n, runs in enumerate(outcomes)
        for run, mark in enumerate(runs)
    )
    return ArmRuns(name, scope, rows)


def reference_runs() -> Path:
    """The released figures, or a skip that says where they are looked for."""
    require("released runs")
    return RELEASED_RUNS
