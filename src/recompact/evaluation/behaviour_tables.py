"""Behaviour after a compaction as tables, as a sentence for each arm, and as notes on what is counted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recompact.evaluation.behaviour import ANY, CALLS, FIRST, HELD, KEPT, STEPS, ArmBehaviour, Behaviours, Ratio
from recompact.evaluation.caveats import left_out
from recompact.evaluation.summary import SIMULATED
from recompact.values.stats import RESAMPLES
from recompact.values.tables import Cell, Column, Number, Row, Table, columns
from recompact.values.texts import quantity

HOOKS = "docs/environments.md shows how"


def behaviour_table(behaviours: Behaviours) -> Table:
    """One row for each arm; only the columns that some arm has."""
    kept = [key for key in _keys(behaviours) if key.startswith(KEPT)]
    keys = [key for key in (FIRST, STEPS, *kept, CALLS) if key in _keys(behaviours)]
    rows = tuple((arm.label, arm.compactions, *_cells(arm, keys)) for arm in behaviours.arms)
    title = f"{behaviours.suite}: behaviour after a compaction"
    return Table(title, _columns("compactions", keys), rows, notes(behaviours))


def summary_table(behaviours: Behaviours) -> Table | None:
    """The share of an arm's summaries that hold any literal of a kind; None where no arm wrote a summary."""
    keys = [key for key in _keys(behaviours) if key.startswith(HELD)]
    writers = [(arm, [arm.figures[key].of for key in keys if key in arm.figures]) for arm in behaviours.arms]
    rows = tuple((arm.label, max(of), *_cells(arm, keys)) for arm, of in writers if of)
    return Table("Summaries that hold any of them", _columns("summaries", keys), rows) if rows else None


def _keys(behaviours: Behaviours) -> list[str]:
    """The figures that some arm has."""
    return list(dict.fromkeys(key for arm in behaviours.arms for key in arm.figures))


def _columns(count: str, keys: list[str]) -> tuple[Column, ...]:
    return (*columns("arm", count), *(Column(key.replace(".", "_"), _title(key)) for key in keys))


def _title(key: str) -> str:
    if key.startswith(KEPT):
        return f"{key.removeprefix(KEPT)} kept, %"
    if key.startswith(HELD):
        return f"{key.removeprefix(HELD)}, %"
    return {FIRST: "look-up first, %", STEPS: "steps to change", CALLS: "look-ups a task"}[key]


def _cells(arm: ArmBehaviour, keys: list[str]) -> Row:
    return tuple(_cell(key, arm.figures[key]) if key in arm.figures else None for key in keys)


def _cell(key: str, ratio: Ratio) -> Cell:
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
    lines.append("kept: of the literals in what a summary replaced, the share that stands in the summary.")
    if not behaviours.says_literals:
        lines.append(
            f"The suite {behaviours.suite!r} does not name kinds of literals: {ANY} are all numbers, dates, ids,"
            f" addresses and quoted words; tokens and call signatures apart need a method literals(text); {HOOKS}."
        )
    lines += left_out(behaviours.left_out, behaviours.broken)
    return (*lines, SIMULATED) if behaviours.simulated else tuple(lines)


def sentence(arm: ArmBehaviour) -> str:
    """One arm in plain words."""
    figures, parts = arm.figures, []
    if not arm.compactions:
        parts.append("nothing was compacted")
    if first := figures.get(FIRST):
        after = quantity(first.of, "compaction")
        parts.append(f"after {after} the first action was a documentation look-up in {_percent(first)}")
    if steps := figures.get(STEPS):
        parts.append(f"it took {_plain(steps)} steps to the next change or the end")
    kept = {key.removeprefix(KEPT): figure for key, figure in figures.items() if key.startswith(KEPT)}
    if kept:
        each = [f"{_percent(figure)} of the {kind}" for kind, figure in kept.items()]
        parts.append(f"summaries kept {_list_parts(each)}")
    if calls := figures.get(CALLS):
        parts.append(f"a task took {_plain(calls)} documentation calls")
    return f"{arm.label}: {'; '.join(parts) or 'nothing can be said'}."


def _percent(figure: Ratio) -> str:
    return f"{100 * figure.value:.0f} % ({100 * figure.low:.0f} to {100 * figure.high:.0f})"


def _plain(figure: Ratio) -> str:
    return f"{figure.value:.1f} ({figure.low:.1f} to {figure.high:.1f})"


def _list_parts(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def to_json(behaviours: Behaviours) -> dict[str, Any]:
    """All figures, in full."""
    arms = [{**asdict(arm), "sentence": sentence(arm)} for arm in behaviours.arms]
    return {**asdict(behaviours), "arms": arms, "notes": list(notes(behaviours))}
