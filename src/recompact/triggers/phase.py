"""At a safe point of the work, once the soft budget is exceeded; at the latest over the budget."""

from __future__ import annotations

from recompact.triggers.protocol import Moment
from recompact.values.call_effects import SAFE


def trigger(moment: Moment) -> bool:
    return moment.full or (moment.nearly_full and moment.phase in SAFE)
