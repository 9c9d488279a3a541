"""The intervals of the allocation benchmark are over tasks: orders of the same draws say nothing about other tasks."""

from __future__ import annotations

import pytest

from allocation import FIGURES, Tally, over_tasks


def recall(orders: int, found: list[int]) -> tuple[float, float]:
    """Recall's estimate and the width of its interval, for tasks with one harmful boundary each in so many orders."""
    tasks = [[Tally(hits=n * orders, retained=n * orders, harmful=orders, boundaries=orders)] for n in found]
    estimate = over_tasks(tasks, lambda tallies: FIGURES["recall"](tallies[0]))
    return estimate.value, estimate.high - estimate.low


def test_more_orders_of_the_same_draws_make_no_interval_narrower() -> None:
    found = [1, 0, 1, 1, 0, 1]
    assert recall(1, found) == recall(40, found)
    assert recall(1, found)[0] == pytest.approx(4 / 6)


def test_more_tasks_do() -> None:
    found = [1, 0, 1, 1, 0, 1]
    few, many = recall(5, found)[1], recall(5, found * 9)[1]
    assert few > 0.5
    assert many == pytest.approx(few / 3, rel=0.35)
