from __future__ import annotations

from random import Random

import pytest

from recompact.attribution.controls import IdentityCheck, TaskRuns, check_identity


def toy(tasks: int, runs: int, seed: int, *, bias: float = 0.0) -> list[TaskRuns]:
    """Trajectories of up to three boundaries, each of which multiplies the chance of success by a factor."""
    chance = Random(seed)
    out = []
    for number in range(tasks):
        start = chance.random()
        compacted, hazards = [], []
        for _ in range(runs):
            p, lost = start, 0.0
            for _ in range(chance.randint(0, 3)):
                q = p * chance.choice([1.0, 1.0, 0.4])
                # One draw in each arm: noisy, but unbiased.
                lost += float(chance.random() < p) - float(chance.random() < q) + bias
                p = q
            compacted.append(float(chance.random() < p))
            hazards.append(lost)
        uncompacted = [float(chance.random() < start) for _ in range(runs)]
        out.append(TaskRuns(str(number), tuple(compacted), tuple(hazards), tuple(uncompacted)))
    return out


def test_identity_holds_where_it_must() -> None:
    check = check_identity(toy(200, 10, seed=1))
    assert check.agrees
    assert (check.tasks, check.trajectories) == (200, 2000)
    assert check.difference.value == pytest.approx(check.compacted.value - check.uncompacted.value)
    assert check.difference.high < 0
    assert check.predicted.low < check.difference.value < check.predicted.high


def test_identity_interval_has_its_coverage() -> None:
    agree = sum(check_identity(toy(60, 4, seed), resamples=300).agrees is True for seed in range(60))
    assert agree >= 51


def test_identity_fails_where_hazards_are_wrong() -> None:
    assert not check_identity(toy(200, 10, seed=1, bias=0.1)).agrees


@pytest.mark.parametrize("tasks", [1, 5, 6])
def test_a_few_tasks_are_no_verdict_on_the_theorem(tasks: int) -> None:
    """One task has an interval without width: whatever the gap is, that would disagree."""
    check = check_identity([TaskRuns(str(n), (0.0,), (0.25,), (1.0,)) for n in range(tasks)])
    assert check.gap.value == pytest.approx(-0.75)
    assert check.agrees is (None if tasks < 6 else False)
    assert ("they do not agree" in check.verdict) == (tasks == 6)


def alike(tasks: int, hazard: float) -> IdentityCheck:
    """Tasks that lose half a reward, of which continuations say that they lose so much."""
    return check_identity([TaskRuns(str(n), (0.5,), (hazard,), (1.0,)) for n in range(tasks)], resamples=20)


@pytest.mark.parametrize(
    ("tasks", "hazard", "agrees", "verdict"),
    [
        (5, 0.5, None, "with fewer than 6 tasks an interval over tasks tells nothing"),
        (6, 0.5, True, "they agree"),
        (6, 0.25, False, "they do not agree"),
        (6, 0.75, False, "they do not agree"),
    ],
)
def test_the_verdict_says_whether_the_gap_may_be_nothing(
    tasks: int, hazard: float, agrees: bool | None, verdict: str
) -> None:
    check = alike(tasks, hazard)
    assert (check.agrees, check.verdict) == (agrees, verdict)
    assert check.predicted.value == -hazard
    assert check.gap.value == hazard - 0.5


def test_each_task_counts_the_same_however_often_it_was_run() -> None:
    often = TaskRuns("often", (0.0,) * 9, (1.0,) * 9, (1.0, 0.0))
    check = check_identity([often, TaskRuns("once", (1.0,), (0.0,), (1.0,))], resamples=10)
    assert (check.compacted.value, check.uncompacted.value, check.predicted.value) == (0.5, 0.75, -0.5)
    assert (check.tasks, check.trajectories) == (2, 10)
