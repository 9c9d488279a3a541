"""Everything about one boundary: its finding, both contexts, what was dropped, and the continuations side by side.

This is what a person is shown, and what a diagnosis starts from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recompact.attribution.divergence import (
    Dropped,
    actions_of,
    find_dropped,
    first_divergence,
    needed_facts,
    repeated_actions,
)
from recompact.attribution.findings import Finding, by_id, findings
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import ContinuationRow, continuation_rows
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId
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
class Evidence:
    """One boundary in full."""

    finding: Finding
    boundary: Boundary
    dropped: Dropped
    needed: tuple[str, ...]  # the dropped literals that a continuation from before the compaction used
    continuations: tuple[Continuation, ...]

    @property
    def pairs(self) -> tuple[DrawPair, ...]:
        by_draw = {(c.row.arm, c.row.draw): c for c in self.continuations}
        numbers = sorted({c.row.draw for c in self.continuations})
        return tuple(DrawPair(n, by_draw.get(("PRE", n)), by_draw.get(("POST", n))) for n in numbers)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.finding.to_json(),
            "pre": [message.to_json() for message in self.boundary.pre.messages],
            "post": [message.to_json() for message in self.boundary.post.messages],
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


def evidence_of(store: Store, id: BoundaryId, finding: Finding | None = None) -> Evidence:
    """The evidence about one boundary. For many, pass the finding: working it out takes all boundaries."""
    boundary = read_boundary(store, id.unit, id.index)
    continuations = []
    for row in continuation_rows(store, id.unit, id.index):
        trajectory = read_trajectory(store, row.name)
        actions = actions_of(trajectory)
        continuations.append(Continuation(row, trajectory, actions, repeated_actions(boundary.actions, actions)))
    needed = needed_facts(boundary, [c.trajectory for c in continuations if c.row.arm == "PRE"])
    finding = finding or by_id(findings(store))[id]
    return Evidence(finding, boundary, find_dropped(boundary), needed, tuple(continuations))


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
