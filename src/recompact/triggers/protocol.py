"""A trigger says when to compact: a function of the moment before each call of the agent.

What holds for all of them is decided by the schedule: a compaction must be possible, must not follow another too soon,
and must make the context smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from recompact.values.call_effects import Phase, phase_of
from recompact.values.chat import ToolSpec
from recompact.values.context import Context
from recompact.values.recall import RECALL


@dataclass(frozen=True)
class Moment:
    """The moment before a call of the agent: its context, how many calls it has made, and how many since the last
    compaction or the beginning. `soft` is the size from which a trigger may look for a good moment."""

    context: Context
    budget: int
    soft: int
    calls: int
    since: int

    @property
    def full(self) -> bool:
        return self.context.size > self.budget

    @property
    def nearly_full(self) -> bool:
        return self.context.size > self.soft

    @cached_property
    def phase(self) -> Phase:
        return phase_of(self.context.last)


Trigger = Callable[[Moment], bool]


def over_budget(moment: Moment) -> bool:
    """The paper's trigger."""
    return moment.full


@dataclass(frozen=True)
class Schedule:
    """When a rollout compacts. With `recall`, the agent may search what was dropped, for results of up to so many
    tokens."""

    trigger: Trigger = over_budget
    soft: float = 0.6
    min_calls: int = 1
    min_gain: float = 0.0
    recall: int = 0

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What the loop itself offers the agent: a trigger's tools, and recall."""
        return (*getattr(self.trigger, "tools", ()), *((RECALL,) if self.recall else ()))

    def due(self, context: Context, budget: int, calls: int, last: int | None = None) -> bool:
        """Whether to compact now. `last` is how many calls there were at the last compaction.

        A context with nothing but its most recent turn cannot get smaller, however large that turn is, so it is left
        alone: otherwise one long observation would be compacted forever. A trigger may say that it can.
        """
        if len(context.turns) < getattr(self.trigger, "least_turns", 2) or (
            last is not None and calls - last < self.min_calls
        ):
            return False
        return self.trigger(Moment(context, budget, int(self.soft * budget), calls, calls - (last or 0)))

    def gains(self, before: int, after: int) -> bool:
        """Whether a compaction is worth having: smaller, and by the share that is asked for."""
        return after < before and before - after >= self.min_gain * before


FUTILE = 2
"""So many compactions in a row that gain nothing, and there are no more in that episode."""
