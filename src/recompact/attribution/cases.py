"""Everything about one boundary: its finding, both contexts, what was dropped, and the continuations side by side.

In goes a run and the name of a boundary, out comes its evidence. It is what a person is shown, and what a diagnosis
starts from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recompact.attribution.divergence import Dropped, actions_of, dropped, first_divergence, repeated
from recompact.attribution.findings import Finding, by_id, findings
from recompact.outcome import BoundaryId
from recompact.store.records import read_boundary, read_trajectory
from recompact.store.runs import ContinuationRow, continuation_rows
from recompact.store.store import Store
from recompact.trajectory import Action, Boundary, Trajectory


@dataclass(frozen=True)
class Continuation:
    """One draw: its record, its trajectory, its actions, and which of them (from 0) had been done before."""

    row: ContinuationRow
    trajectory: Trajectory
    actions: tuple[Action, ...]
    repeated: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """PRE and POST of one number. `divergence` is the first action (from 0) in which they differ."""

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
    continuations: tuple[Continuation, ...]

    @property
    def pairs(self) -> tuple[Comparison, ...]:
        by_draw = {(made.row.arm, made.row.draw): made for made in self.continuations}
        numbers = sorted({made.row.draw for made in self.continuations})
        return tuple(Comparison(n, by_draw.get(("PRE", n)), by_draw.get(("POST", n))) for n in numbers)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.finding.to_json(),
            "pre": [message.to_json() for message in self.boundary.pre.messages],
            "post": [message.to_json() for message in self.boundary.post.messages],
            "dropped": {"literals": list(self.dropped.literals), "lines": list(self.dropped.lines)},
            "pairs": [
                {
                    "draw": pair.number,
                    "first_divergence": pair.divergence,
                    "PRE": _to_json(pair.pre),
                    "POST": _to_json(pair.post),
                }
                for pair in self.pairs
            ],
        }


def evidence_of(store: Store, id: BoundaryId, finding: Finding | None = None) -> Evidence:
    """The evidence about one boundary. Whoever wants it for many gives the finding, which takes all boundaries."""
    boundary = read_boundary(store, id.unit, id.index)
    made = []
    for row in continuation_rows(store, id.unit, id.index):
        trajectory = read_trajectory(store, row.name)
        actions = actions_of(trajectory)
        made.append(Continuation(row, trajectory, actions, repeated(boundary.actions, actions)))
    return Evidence(finding or by_id(findings(store))[id], boundary, dropped(boundary), tuple(made))


def _to_json(made: Continuation | None) -> dict[str, Any] | None:
    if made is None:
        return None
    return {
        "success": made.row.success,
        "value": made.row.value,
        "ending": made.row.ending,
        "steps": made.row.steps,
        "usage": {role: usage.to_json() for role, usage in made.row.usage.items()},
        "actions": [action.to_json() for action in made.actions],
        "repeated": list(made.repeated),
        "error": made.row.error,
    }
