"""Where a user's turn begins, once the soft budget is exceeded; at the latest over the budget."""

from __future__ import annotations

from recompact.triggers.protocol import Moment


def trigger(moment: Moment) -> bool:
    return moment.full or (moment.nearly_full and moment.phase == "user")
