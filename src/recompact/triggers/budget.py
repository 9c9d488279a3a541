"""Over the budget: the paper's trigger."""

from __future__ import annotations

from recompact.triggers.protocol import Moment


def trigger(moment: Moment) -> bool:
    return moment.full
