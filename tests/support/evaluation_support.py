"""What the tests of evaluation share: rows made by hand, and where the released runs are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.chat import Usage

ROOT = Path(__file__).parents[2]


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
    data = Path(os.environ.get("RECOMPACT_DATA", ROOT.parent / "shared" / "data"))
    path = data / "reference_runs" / "tau2_retail.csv"
    if not path.is_file():
        pytest.skip(f"the released runs are not at {path}: set RECOMPACT_DATA to the directory that has reference_runs")
    return path
