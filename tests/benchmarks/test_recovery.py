"""What an adapted prompt wins back of what compaction cost."""

from __future__ import annotations

from random import Random

import numpy
import pytest

from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.stats import Estimate
from recovery import Recovery, recovery


def arm(name: str, solved: str) -> ArmRuns:
    """One character a task: solved or not, in a single run."""
    rows = tuple(TaskRun(f"task-{n:02d}", 0, mark == "1", 5) for n, mark in enumerate(solved))
    return ArmRuns(name, None, rows)


def test_a_worked_example() -> None:
    found = recovery(arm("none", "1111111100"), arm("prompting", "1111000000"), arm("pair", "1111110000"))
    assert found.lost.value == pytest.approx(0.4)
    assert found.won.value == pytest.approx(0.2)
    assert found.beyond_half.value == pytest.approx(0.0)
    assert found.share == pytest.approx(0.5)
    assert not found.at_least_half


def test_tasks_stay_together() -> None:
    """Each task wins back all of its own loss, so what is beyond half is half the loss in every resample."""
    found = recovery(arm("none", "1111100000"), arm("prompting", "0000000000"), arm("pair", "1111100000"))
    assert found.beyond_half.low == pytest.approx(found.lost.low / 2)
    assert found.beyond_half.high == pytest.approx(found.lost.high / 2)


def test_the_intervals_beside_numpy() -> None:
    chance = Random("recovery")
    full, before, after = ("".join(str(int(chance.random() < p)) for _ in range(90)) for p in (0.9, 0.6, 0.8))
    found = recovery(arm("none", full), arm("prompting", before), arm("pair", after))
    x, y, z = (numpy.array([int(mark) for mark in marks]) for marks in (full, before, after))
    picks = numpy.random.default_rng(5).integers(0, 90, (10_000, 90))
    for got, values in ((found.lost, x - y), (found.won, z - y), (found.beyond_half, z - y - (x - y) / 2)):
        low, high = numpy.percentile(values[picks].mean(1), (2.5, 97.5))
        assert got.value == pytest.approx(values.mean())
        assert (got.low, got.high) == pytest.approx((low, high), abs=0.06 * (high - low))


def test_nothing_lost_has_no_share() -> None:
    found = recovery(arm("none", "110"), arm("prompting", "110"), arm("pair", "111"))
    assert found.share is None
    assert "%)" not in found.words


def test_a_loss_within_noise_says_so() -> None:
    won, half = Estimate(0.08, 0.04, 0.12), Estimate(0.055, 0.03, 0.08)
    sure = Recovery(Estimate(0.05, 0.01, 0.09), won, half)
    doubtful = Recovery(Estimate(0.05, -0.01, 0.11), won, half)
    assert sure.at_least_half
    assert "interval -1.0 to +11.0" in doubtful.words
    assert "interval -1.0" not in sure.words
