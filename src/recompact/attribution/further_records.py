"""The draws that a run has in addition to its verification, by purpose and boundary; `further_draws` makes them."""

from __future__ import annotations

from typing import Literal, get_args

from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import TrajectoryRow, boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.values.outcome import ARMS, BoundaryId, ContinuationArm, Draw, Outcome, Outcomes
from recompact.values.trajectory import Trajectory

Purpose = Literal["control", "confirm", "resample"]
"""control: both arms from PRE. confirm: PRE and POST as in the verification. resample: POST with a separate summary
for each draw."""


def further_unit(purpose: Purpose, task: str, index: int, arm: ContinuationArm, number: int) -> str:
    """The name of one draw; everything random in it comes from this name."""
    return f"{purpose}/{task}/{index}/{arm}/{number}"


def further_outcomes(store: Store, purpose: Purpose) -> dict[BoundaryId, Outcomes]:
    """The draws of this kind that a run has, by boundary."""
    assert purpose in get_args(Purpose)
    arms: dict[BoundaryId, dict[str, dict[int, Outcome]]] = {}
    for draw, row in further_rows(store, purpose):
        tokens = sum(usage.total for usage in row.usage.values())
        at = arms.setdefault(draw.boundary, {arm: {} for arm in ARMS})
        at[draw.arm][draw.number] = Outcome(row.value, row.steps, tokens)
    return {id: Outcomes(of["PRE"], of["POST"]) for id, of in arms.items()}


def further_rows(store: Store, purpose: Purpose) -> list[tuple[Draw, TrajectoryRow]]:
    """The draws of this kind with their records. Those of boundaries that the run no longer has, since their task was
    collected again, belong to none."""
    known = {(row.task, row.index): BoundaryId(row.unit, row.index) for row in boundary_rows(store)}
    draws = []
    for row in trajectories(store, phase=purpose):
        _, index, arm, number = row.unit.rsplit("/", 3)
        if id := known.get((row.task, int(index))):
            draws.append((Draw(id, "PRE" if arm == "PRE" else "POST", int(number)), row))
    return draws


def further_draws(store: Store) -> dict[str, int]:
    """How many draws of each kind a run has besides its verification."""
    return {purpose: len(further_rows(store, purpose)) for purpose in get_args(Purpose)}


def fresh_summaries(store: Store) -> dict[BoundaryId, int]:
    """How many different summaries the draws with fresh ones have: a compressor may write the same one each time."""
    texts: dict[BoundaryId, set[str]] = {}
    for draw, row in further_rows(store, "resample"):
        texts.setdefault(draw.boundary, set()).add(summary_text(read_trajectory(store, row.unit)))
    return {id: len(each) for id, each in texts.items()}


def summary_text(draw: Trajectory) -> str:
    """The words of the summary that a draw with a fresh one continued from; empty for other draws."""
    summary = draw.boundaries[0].post.summary if draw.boundaries else None
    return summary.text if summary else ""
