"""Everything about one boundary: its verdict, both contexts, what was dropped, and the continuations side by side.

The terminal, the report, the viewer and the optimizer all render what they show of a boundary from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recompact.attribution.divergence import (
    Dropped,
    actions_of,
    find_dropped,
    first_divergence,
    needed_facts,
    repeated_actions,
)
from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.calls import compressor_usage
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import ContinuationRow, continuation_rows
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId
from recompact.values.receipt import Receipt, receipt
from recompact.values.trajectory import Action, Boundary, Trajectory


@dataclass(frozen=True)
class Continuation:
    """One draw: its record, its trajectory, its actions, and which of them (from 0) had been done before."""

    row: ContinuationRow
    trajectory: Trajectory
    actions: tuple[Action, ...]
    repeated: tuple[int, ...]


@dataclass(frozen=True)
class DrawPair:
    """The PRE and the POST continuation of one draw. `number` and `divergence` (the first action in which the two
    differ) count from 0."""

    number: int
    pre: Continuation | None
    post: Continuation | None

    @property
    def divergence(self) -> int | None:
        return first_divergence(self.pre.actions, self.post.actions) if self.pre and self.post else None


@dataclass(frozen=True)
class BoundaryView:
    """One boundary in full: `boundary` has both contexts, and `continuations` are all of its draws that were made."""

    verdict: Verdict
    boundary: Boundary
    continuations: tuple[Continuation, ...]
    usage: Usage = Usage()  # of the calls that wrote the summary

    @property
    def id(self) -> BoundaryId:
        return self.verdict.id

    @cached_property
    def dropped(self) -> Dropped:
        """What stood before the compaction and nowhere after it."""
        return find_dropped(self.boundary)

    @cached_property
    def receipt(self) -> Receipt:
        """What the compaction dropped, kept, pinned and lost, and its cost."""
        return receipt(self.boundary.pre, self.boundary.post, self.usage)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The dropped literals that a continuation from before the compaction used."""
        return needed_facts(self.boundary, [c.trajectory for c in self.continuations if c.row.arm == "PRE"])

    @property
    def pairs(self) -> tuple[DrawPair, ...]:
        by_draw = {(c.row.arm, c.row.draw): c for c in self.continuations}
        numbers = sorted({c.row.draw for c in self.continuations})
        return tuple(DrawPair(n, by_draw.get(("PRE", n)), by_draw.get(("POST", n))) for n in numbers)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.verdict.to_json(),
            "pre": [message.to_json() for message in self.boundary.pre.messages],
            "post": [message.to_json() for message in self.boundary.post.messages],
            "receipt": self.receipt.to_json(),
            "needed": list(self.needed),
            "dropped": {"literals": list(self.dropped.literals), "lines": list(self.dropped.lines)},
            "pairs": [
                {
                    "draw": pair.number + 1,
                    "first_divergence": pair.divergence,
                    "PRE": _to_json(pair.pre),
                    "POST": _to_json(pair.post),
                }
                for pair in self.pairs
            ],
        }


def boundary_view(store: Store, boundary: BoundaryId | Verdict) -> BoundaryView:
    """A boundary in full. For many, pass their verdicts: a run that has not stored them is judged as a whole."""
    verdict = boundary if isinstance(boundary, Verdict) else read_verdicts(store).of(boundary)
    value = read_boundary(store, verdict.id)
    continuations = []
    for row in continuation_rows(store, verdict.id.unit, verdict.id.index):
        trajectory = read_trajectory(store, row.name)
        actions = actions_of(trajectory)
        continuations.append(Continuation(row, trajectory, actions, repeated_actions(value.actions, actions)))
    usage = compressor_usage(store, verdict.id.unit, value.step)
    return BoundaryView(verdict, value, tuple(continuations), usage)


def _to_json(continuation: Continuation | None) -> dict[str, Any] | None:
    if continuation is None:
        return None
    return {
        "success": continuation.row.success,
        "value": continuation.row.value,
        "details": dict(continuation.trajectory.score.details),
        "ending": continuation.row.ending,
        "steps": continuation.row.steps,
        "usage": {role: usage.to_json() for role, usage in continuation.row.usage.items()},
        "actions": [action.to_json() for action in continuation.actions],
        "repeated": list(continuation.repeated),
        "error": continuation.row.error,
    }
