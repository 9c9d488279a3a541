"""How the time of some work grows with its size, since how long it takes depends on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times longer it takes on four times the size, by the best of three tries: about 4 where time is linear,
    16 where it is quadratic."""

    def seconds(size: int) -> float:
        times = []
        for _ in range(3):
            started = time.process_time()
            work(size)
            times.append(time.process_time() - started)
        return min(times)

    return seconds(4 * size) / max(seconds(size), 0.001)


LINEAR = 9.0  # below this it is not quadratic
