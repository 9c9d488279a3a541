"""How far along a run is and how long it may still take, from the plan in its file and the units that it has."""

from __future__ import annotations

import time
from dataclasses import dataclass

from recompact.engine.store.plan import StagePlan, count_units, plan_of
from recompact.engine.store.store import Store

FEWEST = 3  # units of a stage before its pace means anything


@dataclass(frozen=True)
class Standing:
    """The stage that a run is at: how many of its units are done, and at this pace how many seconds are left.

    `seconds` is None where that cannot be known, and `why` says so; a stage that may be shorter than planned has at
    most that many.
    """

    stage: str
    done: int
    total: int | None
    at_most: bool
    seconds: float | None
    why: str = ""

    @property
    def units(self) -> str:
        if self.total is None:
            return f"{self.stage}: {self.done:,} done"
        return f"{self.stage}: {self.done:,} of {'at most ' * self.at_most}{self.total:,}"

    @property
    def left(self) -> str:
        """The time left in words."""
        if self.seconds is None:
            return self.why
        return f"{'at most ' * self.at_most}about {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """
    >>> [duration(seconds) for seconds in (0.2, 48, 100, 3500, 5300, 200_000)]
    ['1 s', '48 s', '2 min', '58 min', '1 h 28 min', '2 days 7 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def standing_of(store: Store, live: bool) -> Standing | None:
    """None where the file has no plan yet, or where a stopped run may have nothing left to do."""
    plan = plan_of(store)
    if plan is None:
        return None
    fresh = count_units(store) - plan.units
    done = plan.done + max(0, fresh)
    if plan.total is not None and not plan.at_most:
        done = min(done, plan.total)
    if not live:
        unfinished = plan.total is not None and not plan.at_most and done < plan.total
        return Standing(plan.stage, done, plan.total, plan.at_most, None, "stopped") if unfinished else None
    seconds, why = _seconds(plan, fresh, done, time.time())
    return Standing(plan.stage, done, plan.total, plan.at_most, seconds, why)


def _seconds(plan: StagePlan, fresh: int, done: int, now: float) -> tuple[float | None, str]:
    if plan.total is None:
        return None, "unknown: how much is left depends on the results"
    if done >= plan.total:
        return None, "this stage is about to end"
    if fresh < FEWEST or now <= plan.began:
        return None, "not known yet"
    return (now - plan.began) / fresh * (plan.total - done), ""
