"""Trajectories and boundaries page by page, for whoever must not load a whole run: filtered, sorted and counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.runs import TrajectoryRow, trajectory_of_row
from recompact.engine.store.store import Store

ORDERS = {
    "task": "t.task, t.unit",
    "harm": "harm IS NULL, harm DESC, t.task, t.unit",
    "steps": "t.steps DESC, t.unit",
    "compactions": "t.compactions DESC, t.unit",
    "peak": "t.peak DESC, t.unit",
}
"""What trajectories can be sorted by."""

# For each boundary the differences between the means of its draws, as in the view `effects` of newer files.
_EFFECTS = """
    SELECT unit, idx,
        avg(CASE arm WHEN 'PRE' THEN value END) - avg(CASE arm WHEN 'POST' THEN value END) AS hazard,
        avg(CASE arm WHEN 'POST' THEN steps END) - avg(CASE arm WHEN 'PRE' THEN steps END) AS burden
    FROM continuations GROUP BY unit, idx
"""


_NOT_SKIPPED = "t.task NOT IN (SELECT j.value FROM meta m, json_each(m.value) j WHERE m.key = 'skipped')"


@dataclass(frozen=True)
class TrajectoryQuery:
    """Which trajectories are wanted: those whose task contains a text, of one arm, with one outcome, in one group."""

    phase: str = "collect"
    task: str = ""
    arm: str = ""  # the key of an arm in an evaluation
    outcome: str = ""  # success or failure
    group: str = ""  # key=value
    order: str = "task"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class BoundaryPoint:
    """A boundary on the timeline of its trajectory, with the differences between the means of its draws."""

    index: int
    step: int
    hazard: float | None
    burden: float | None


@dataclass(frozen=True)
class ListedTrajectory:
    """A trajectory in a list, with its boundaries."""

    row: TrajectoryRow
    boundaries: tuple[BoundaryPoint, ...]


def trajectory_page(
    store: Store, query: TrajectoryQuery, thresholds: tuple[float, float]
) -> tuple[list[ListedTrajectory], int]:
    """The trajectories of one page, and how many there are on all pages."""
    where, parameters = _conditions(query)
    total = store._rows(f"SELECT count(*) AS n FROM trajectories t WHERE {where}", parameters)[0]["n"]
    harm, join, order = "NULL", "", ORDERS.get(query.order, ORDERS["task"])
    if query.order == "harm":
        # In units of the thresholds, as in the paper's Eq. 6: the largest of a trajectory is one of its two largest.
        hazard, burden = thresholds
        harm = f"max(e.hazard / {hazard:f}, e.burden / {burden:f})"
        join = f" LEFT JOIN {_harms(store)} e ON e.unit = t.unit"
    rows = store._rows(
        f"SELECT t.*, {harm} AS harm FROM trajectories t{join} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",
        (*parameters, query.limit, max(0, query.offset)),
    )
    return [ListedTrajectory(trajectory_of_row(row), boundary_points(store, row["unit"])) for row in rows], total


def matching_units(store: Store, query: TrajectoryQuery) -> frozenset[str]:
    """The units of all trajectories that a query asks for, on any page."""
    where, parameters = _conditions(query)
    return frozenset(row["unit"] for row in store._rows(f"SELECT t.unit FROM trajectories t WHERE {where}", parameters))


def _harms(store: Store) -> str:
    """The largest effects of each trajectory; in a file of an older version, all its draws have to be read."""
    if store.has_table("harms"):
        return "harms"
    return f"(SELECT unit, max(hazard) AS hazard, max(burden) AS burden FROM ({_EFFECTS}) GROUP BY unit)"


def _conditions(query: TrajectoryQuery) -> tuple[str, list[Any]]:
    conditions = ["t.phase = ?", _NOT_SKIPPED]
    parameters: list[Any] = [query.phase]
    if query.task:
        conditions.append("instr(lower(t.task), lower(?)) > 0")
        parameters.append(query.task)
    if query.arm:
        conditions.append("substr(t.unit, 1, ?) = ?")
        begin = f"{query.phase}/{query.arm}/"
        parameters += [len(begin), begin]
    if query.outcome in ("success", "failure"):
        conditions.append("t.success = ?")
        parameters.append(int(query.outcome == "success"))
    if "=" in query.group:
        key, _, value = query.group.partition("=")
        conditions.append("EXISTS (SELECT 1 FROM json_each(t.groups) g WHERE g.key = ? AND g.value = ?)")
        parameters += [key, value]
    return " AND ".join(conditions), parameters


def boundary_points(store: Store, unit: str) -> tuple[BoundaryPoint, ...]:
    """The boundaries of one trajectory in order."""
    rows = store._rows(
        "SELECT b.idx, b.step,"
        " avg(CASE c.arm WHEN 'PRE' THEN c.value END) - avg(CASE c.arm WHEN 'POST' THEN c.value END) AS hazard,"
        " avg(CASE c.arm WHEN 'POST' THEN c.steps END) - avg(CASE c.arm WHEN 'PRE' THEN c.steps END) AS burden"
        " FROM boundaries b LEFT JOIN continuations c ON c.unit = b.unit AND c.idx = b.idx"
        " WHERE b.unit = ? GROUP BY b.idx ORDER BY b.idx",
        (unit,),
    )
    return tuple(BoundaryPoint(r["idx"], r["step"], r["hazard"], r["burden"]) for r in rows)


@dataclass(frozen=True)
class RunCounts:
    """How much a run holds, counted by the database."""

    trajectories: int
    success: int
    steps: float  # mean
    boundaries: int
    continuations: int


def run_counts(store: Store, phase: str) -> RunCounts:
    """The counts of a run; what is being written counts as soon as it is there."""
    (row,) = store._rows(
        "SELECT count(*) AS n, ifnull(sum(success), 0) AS success, ifnull(avg(steps), 0) AS steps FROM trajectories t"
        f" WHERE phase = ? AND {_NOT_SKIPPED}",
        (phase,),
    )
    boundaries, continuations = (
        store._rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in ("boundaries", "continuations")
    )
    return RunCounts(row["n"], row["success"], row["steps"], boundaries, continuations)


def count_reaching(store: Store, thresholds: tuple[float, float]) -> int:
    """How many boundaries reach a threshold by the means of their draws."""
    # Averages are floats: one that should be just at the threshold may miss it by the last bit.
    query = f"SELECT count(*) AS n FROM ({_EFFECTS}) WHERE hazard >= ? - 1e-9 OR burden >= ? - 1e-9"
    return int(store._rows(query, thresholds)[0]["n"])


def group_values(store: Store, phase: str) -> list[str]:
    """All groups of the tasks, as key=value."""
    rows = store._rows("SELECT DISTINCT groups FROM trajectories WHERE phase = ?", (phase,))
    pairs = {f"{key}={value}" for row in rows for key, value in json.loads(row["groups"]).items()}
    return sorted(pairs)
