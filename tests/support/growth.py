"""How the time of some work grows with its size, since how long it takes depends on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times longer it takes on four times the size: about 4 where time is linear, 16 where it is quadratic.
    Of three tries the least, and no more of them than it takes to be below `LINEAR`: others use the machine too."""

    def seconds(size: int) -> float:
        started = time.process_time()
        work(size)
        return time.process_time() - started

    work(size)  # the first time, it imports and fills caches
    least = float("inf")
    for _ in range(3):
        least = min(least, seconds(4 * size) / max(seconds(size), 0.001))
        if least < LINEAR:
            break
    return least


LINEAR = 9.0  # below this it is not quadratic
