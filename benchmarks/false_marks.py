"""How often a paired bootstrap interval over tasks excludes zero between arms that are equal: it should be 0.05.

    python benchmarks/false_marks.py                # a minute of one core
    python benchmarks/false_marks.py --trials 500

For each number of tasks, both arms draw from the same distribution of each task, and the share of trials is printed in
which the interval of the difference excludes zero: for steps of four kinds, and for success and F1 with the rule for
marks applied (`enough_tasks`) and, in brackets, without it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from random import Random

from recompact.evaluation.paired import enough_tasks
from recompact.values.stats import bootstrap
from recompact.values.tables import Table, columns, markdown

Draw = Callable[[], float]
"""One value of one task in one arm."""

RESAMPLES = 1000
SIZES = (6, 8, 10, 15, 20, 30, 40)


def kinds(chance: Random) -> dict[str, tuple[str, Callable[[], Draw]]]:
    """By name: the metric, and what makes the distribution of a task."""

    def normal() -> Draw:
        return lambda: chance.gauss(0, 3)

    def skewed() -> Draw:
        middle = chance.uniform(5, 30)
        return lambda: round(middle * math.exp(chance.gauss(0, 0.4)))

    def limited() -> Draw:
        middle, rate = chance.uniform(8, 20), chance.betavariate(0.5, 0.3)
        return lambda: round(max(3.0, chance.gauss(middle, 3))) if chance.random() < rate else 50

    def success(runs: int) -> Callable[[], Draw]:
        def task() -> Draw:
            rate = chance.uniform(0.2, 0.9)
            return lambda: sum(chance.random() < rate for _ in range(runs)) / runs

        return task

    def f1() -> Draw:
        rate = chance.uniform(0.1, 0.7)
        return lambda: 1.0 if chance.random() < rate else max(0.0, chance.uniform(-0.6, 1.0))

    return {
        "steps, normal": ("steps", normal),
        "steps, log-normal": ("steps", skewed),
        "steps, some at the limit": ("steps", limited),
        "success, one run": ("acc", success(1)),
        "success, three runs": ("acc", success(3)),
        "F1": ("f1", f1),
    }


def false_marks(key: str, task: Callable[[], Draw], tasks: int, trials: int, seed: int) -> tuple[float, float]:
    """The share of trials whose interval excludes zero, and of those that are marked by the rule."""
    vectors = [[draw() - draw() for draw in (task() for _ in range(tasks))] for _ in range(trials)]
    excluding = marked = 0
    for vector, estimate in zip(vectors, bootstrap(vectors, RESAMPLES, seed), strict=True):
        excludes = estimate.low > 0 or estimate.high < 0
        excluding += excludes
        marked += excludes and enough_tasks(key, tasks, sum(value != 0 for value in vector))
    return excluding / trials, marked / trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    given = parser.parse_args()
    chance, rows = Random("false marks"), []
    for name, (key, task) in kinds(chance).items():
        cells = []
        for seed, tasks in enumerate(SIZES):
            excluding, marked = false_marks(key, task, tasks, given.trials, seed)
            cells.append(f"{marked:.2f} ({excluding:.2f})")
        rows.append((name, *cells))
    heads = columns("difference in", *map(str, SIZES))
    note = "Marked by the rule; in brackets, the interval alone excludes zero."
    print(markdown(Table(f"False marks between equal arms, {given.trials} trials", heads, tuple(rows), (note,))))


if __name__ == "__main__":
    main()
