"""Rules as a second outcome: how many violations a compaction adds, where a suite reports them with its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId
from recompact.values.stats import FEWEST, Estimate, bootstrap_ratios
from recompact.values.tables import Number
from recompact.values.texts import quantity
from recompact.values.trajectory import Score


@dataclass(frozen=True)
class ViolationEffect:
    """Violations per continuation before and after the compactions that have draws in both arms, and how many more
    there are after, with its interval by resampling trajectories. Only draws count that all of them have: where
    outcomes decide who is drawn again, the others would bias it."""

    boundaries: int
    pre: float
    post: float
    added: Estimate
    trajectories: int = FEWEST  # with fewer than that, no interval is shown

    @property
    def sentence(self) -> str:
        e = self.added
        sure = f"95 % interval {e.low:+.2f} to {e.high:+.2f}, " if self.trajectories >= FEWEST else ""
        return (
            f"Rules: {self.post:.2f} violations in a continuation after a compaction, {self.pre:.2f} without it:"
            f" {e.value:+.2f} ({sure}{quantity(self.boundaries, 'compaction')})."
        )

    @property
    def cell(self) -> Number:
        """What is added, as a table shows it."""
        e = self.added
        return Number(e.value, 2, interval=(e.low, e.high) if self.trajectories >= FEWEST else None, signed=True)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def violations_added(store: Store) -> ViolationEffect | None:
    """None where the suite reports no violations, or no boundary has draws with them in both arms."""
    draws: dict[BoundaryId, dict[str, dict[int, int]]] = {}
    for row in continuation_rows(store):
        if (violations := Score(*store.result(row.name)["score"]).violations) is None:
            if row.ending == "finished":
                return None  # a suite reports them always or never
            continue
        draws.setdefault(BoundaryId(row.unit, row.index), {}).setdefault(row.arm, {})[row.draw] = len(violations)
    complete = {id: arms for id, arms in draws.items() if len(arms) == 2}
    numbers = [arm.keys() for arms in complete.values() for arm in arms.values()]
    common = set(numbers[0]).intersection(*numbers) if numbers else set()
    if not common:
        return None
    both = {id: {name: [arm[n] for n in common] for name, arm in arms.items()} for id, arms in complete.items()}
    units = sorted({id.unit for id in both})
    added = [_sum_of(both, unit, "POST") - _sum_of(both, unit, "PRE") for unit in units]
    number = [float(sum(id.unit == unit for id in both)) for unit in units]
    [estimate] = bootstrap_ratios([(added, number)])
    assert estimate is not None
    pre, post = (sum(_sum_of(both, unit, arm) for unit in units) / len(both) for arm in ("PRE", "POST"))
    return ViolationEffect(len(both), pre, post, estimate, len(units))


def _sum_of(both: dict[BoundaryId, dict[str, list[int]]], unit: str, arm: str) -> float:
    """Over the boundaries of a trajectory: the mean of each one's draws."""
    means: Sequence[float] = [fmean(arms[arm]) for id, arms in both.items() if id.unit == unit]
    return sum(means)
