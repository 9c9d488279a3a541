"""Behaviour after a compaction as a table, with notes on what is counted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recompact.evaluation.behaviour import ANY, CALLS, FIRST, HELD, KEPT, STEPS, Behaviours, Ratio
from recompact.evaluation.caveats import left_out
from recompact.evaluation.summary import SIMULATED
from recompact.values.stats import RESAMPLES
from recompact.values.tables import Cell, Column, Number, Table, columns
from recompact.values.texts import quantity

HOOKS = "docs/environments.md shows how"


def behaviour_table(behaviours: Behaviours) -> Table:
    """One row for each arm; only the columns that some arm has."""
    known = list(dict.fromkeys(key for arm in behaviours.arms for key in arm.figures))
    named = [key for kind in (KEPT, HELD) for key in known if key.startswith(kind)]
    keys = [key for key in (FIRST, STEPS, *named, CALLS) if key in known]
    rows = tuple(
        (arm.label, arm.compactions, *(_cell(key, arm.figures.get(key)) for key in keys)) for arm in behaviours.arms
    )
    title = f"{behaviours.suite}: behaviour after a compaction"
    return Table(
        title,
        (*columns("arm", "compactions"), *(Column(key.replace(".", "_"), _title(key)) for key in keys)),
        rows,
        notes(behaviours),
    )


def _title(key: str) -> str:
    if key.startswith(KEPT):
        return f"{key.removeprefix(KEPT)} kept, %"
    if key.startswith(HELD):
        return f"{key.removeprefix(HELD)} held, %"
    return {FIRST: "look-up first, %", STEPS: "steps to change", CALLS: "look-ups a task"}[key]


def _cell(key: str, ratio: Ratio | None) -> Cell:
    if ratio is None:
        return None
    scale, digits = (100, 0) if key == FIRST or key.startswith((KEPT, HELD)) else (1, 1)
    return Number(scale * ratio.value, digits, interval=(scale * ratio.low, scale * ratio.high))


def notes(behaviours: Behaviours) -> tuple[str, ...]:
    """What the columns mean, and what is missing and how to get it."""
    tasks = behaviours.arms[0].tasks
    lines = [f"{quantity(tasks, 'task')}; 95 % intervals: bootstrap over tasks, {RESAMPLES:,} resamples."]
    lines += ["With fewer than 20 tasks they come out too narrow."] if tasks < 20 else []
    if behaviours.says_behaviour:
        lines.append(
            "look-up first: compactions whose first action after is a documentation look-up; steps to change: from a"
            " compaction to the next mutation, or to the end; look-ups a task: documentation calls per trajectory."
        )
    else:
        lines.append(
            f"The suite {behaviours.suite!r} does not say which actions look something up or change something, so what"
            f" the agent did after a compaction is not counted: give it a method behaviour(action); {HOOKS}."
        )
    lines.append(
        "kept: of the literals in what a summary replaced, the share that stands in the summary; held: the share of"
        " summaries that hold any."
    )
    if not behaviours.says_literals:
        lines.append(
            f"The suite {behaviours.suite!r} does not name kinds of literals: {ANY} are all numbers, dates, ids,"
            f" addresses and quoted words; tokens and call signatures apart need a method literals(text); {HOOKS}."
        )
    lines += left_out(behaviours.left_out, behaviours.broken)
    return (*lines, SIMULATED) if behaviours.simulated else tuple(lines)


def to_json(behaviours: Behaviours) -> dict[str, Any]:
    """All figures, in full."""
    return {**asdict(behaviours), "notes": list(notes(behaviours))}
