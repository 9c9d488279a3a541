"""Sequential tests of a mean by betting: they may be looked at after every value, and be continued at any time.

Somebody bets against "the mean is at most so much", each time a fixed share of what is left. If the claim is true, no
stake multiplies the money by twenty with a probability above one in twenty, whenever one looks (Ville's inequality).
The money here is spread evenly over all shares from none to the highest that cannot lose everything, so there is
nothing to choose. Values lie between -1 and 1, and need no distribution. The method is that of Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

ERROR = 0.05
"""How often a claim that is false may be made, whenever one stops."""

MANY = 1_000_000
_STAKES = 64


def first_above(values: Sequence[float], threshold: float, error: float = ERROR) -> int | None:
    """After how many values it is shown that their mean is above the threshold; None where it is not.

    >>> first_above([0.0] * 100, -0.03), first_above([0.0] * 200, -0.03) is not None, first_above([0.0] * 200, 0.0)
    (None, True, None)
    """
    import numpy as np

    if not values or threshold >= 1:
        return None
    reached = np.nonzero(_log_money(_log_factors(values, threshold).cumsum(axis=1)) >= -math.log(error))[0]
    return int(reached[0]) + 1 if len(reached) else None


def lower_bound(values: Sequence[float], error: float = ERROR) -> float:
    """The largest threshold that the mean is shown to be above, by any of the values' beginnings; at least -1.

    >>> round(lower_bound([0.0] * 200), 3), round(lower_bound([1.0] * 20), 2), lower_bound([])
    (-0.022, 0.6, -1.0)
    """
    if not values:
        return -1.0
    low, high = -1.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if first_above(values, middle, error) else (low, middle)
    return low


def upper_bound(values: Sequence[float]) -> float:
    """The smallest threshold that the mean is shown to be below."""
    return -lower_bound([-value for value in values])


def further_values(values: Sequence[float], threshold: float) -> int | None:
    """How many more values it would take to show that the mean is above the threshold, if they were like these ones;
    None if they would never show it.

    >>> further_values([0.0] * 50, -0.03) in range(60, 110), further_values([0.0] * 50, 0.0)
    (True, None)
    """
    if not values or threshold >= 1:
        return None
    sums = _log_factors(values, threshold).sum(axis=1)
    enough = -math.log(ERROR)

    def suffices(more: int) -> bool:
        return bool(_log_money(sums[:, None] * (1 + more / len(values)))[0] >= enough)

    if not suffices(MANY):
        return None
    low, high = 0, MANY
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def _log_factors(values: Sequence[float], threshold: float) -> Array:
    """A row for each stake: by what it multiplies the money at each value, as a logarithm."""
    import numpy as np

    gains = (np.asarray(values, dtype=float) - threshold) / (1 + max(threshold, -1 + 1e-9))
    factors: Array = np.log1p(_stakes()[:, None] * gains[None, :])
    return factors


@lru_cache(maxsize=1)
def _stakes() -> Array:
    """The shares, evenly from none to everything."""
    import numpy as np

    stakes: Array = (np.arange(_STAKES) + 0.5) / _STAKES
    return stakes


def _log_money(sums: Array) -> Array:
    """The mean over the stakes, from the logarithms of each."""
    import numpy as np

    top = sums.max(axis=0)
    money: Array = top + np.log(np.exp(sums - top).mean(axis=0))
    return money
