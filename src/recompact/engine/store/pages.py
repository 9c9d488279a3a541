"""Trajectories and boundaries page by page, for whoever must not load a whole run: filtered, sorted and counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.runs import TRAJECTORY, TrajectoryRow, trajectory_of_row, trajectory_row
from recompact.engine.store.store import Store

ORDERS = {
    "task": "t.task, t.unit",
    "harm": "t.task, t.unit",  # by their verdicts first
    "steps": "t.steps DESC, t.unit",
    "compactions": "t.compactions DESC, t.unit",
    "peak": "t.peak DESC, t.unit",
}
"""What trajectories can be sorted by."""

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


def trajectory_page(
    store: Store, query: TrajectoryQuery, harm_order: Mapping[str, int] | None = None
) -> tuple[list[TrajectoryRow], int]:
    """The trajectories of one page, and how many there are on all pages. Sorted by harm they follow `harm_order`, which
    has a rank for each unit that has one."""
    if query.order == "harm":
        ranks, last = harm_order or {}, len(harm_order or {})
        units = sorted(matching_units(store, query), key=lambda unit: (unit not in ranks, ranks.get(unit, last), unit))
        shown = units[max(0, query.offset) :][: query.limit]
        return [trajectory_row(store, unit) for unit in shown], len(units)
    where, parameters = _conditions(query)
    total = store._rows(f"SELECT count(*) AS n FROM trajectories t WHERE {where}", parameters)[0]["n"]
    order = ORDERS.get(query.order, ORDERS["task"])
    rows = store._select(
        f"{TRAJECTORY} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",
        (*parameters, query.limit, max(0, query.offset)),
    )
    return [trajectory_of_row(row) for row in rows], total


def matching_units(store: Store, query: TrajectoryQuery) -> frozenset[str]:
    """The units of all trajectories that a query asks for, on any page."""
    where, parameters = _conditions(query)
    return frozenset(row["unit"] for row in store._rows(f"SELECT t.unit FROM trajectories t WHERE {where}", parameters))


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


@dataclass(frozen=True)
class RunCounts:
    """How much a run holds, counted by the database; boundaries are those of the trajectories that are counted."""

    trajectories: int
    success: int
    steps: float  # mean
    boundaries: int
    continuations: int


def run_counts(store: Store, phase: str) -> RunCounts:
    """The counts of a run; what is being written counts as soon as it is there."""
    (row,) = store._rows(
        "SELECT count(*) AS n, ifnull(sum(success), 0) AS success, ifnull(avg(steps), 0) AS steps,"
        f" ifnull(sum(compactions), 0) AS boundaries FROM trajectories t WHERE phase = ? AND {_NOT_SKIPPED}",
        (phase,),
    )
    # In `main`, where no row is checked: no value of any is read.
    continuations = store._rows("SELECT count(*) AS n FROM main.continuations")[0]["n"]
    return RunCounts(row["n"], row["success"], row["steps"], row["boundaries"], continuations)


def group_values(store: Store, phase: str) -> list[str]:
    """All groups of the tasks, as key=value."""
    rows = store._rows("SELECT DISTINCT groups FROM trajectories WHERE phase = ?", (phase,))
    pairs = {f"{key}={value}" for row in rows for key, value in json.loads(row["groups"]).items()}
    return sorted(pairs)
