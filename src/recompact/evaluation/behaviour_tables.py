"""Behaviour after a compaction as a table, as a sentence for each arm, and as notes on what is counted.

Comes in: the figures of all arms. Goes out: a table as a value, for any format, and words. Nothing is printed here.
"""

from __future__ import annotations

from typing import Any

from recompact.evaluation.behaviour import ANY, CALLS, FIRST, HELD, KEPT, STEPS, ArmBehaviour, Behaviours, Figure
from recompact.evaluation.summary import SIMULATED, counted, left_out
from recompact.stats import RESAMPLES
from recompact.tables import Cell, Column, Number, Table

HOOKS = "docs/environments.md shows how"


def behaviour_table(found: Behaviours) -> Table:
    """One row for each arm; only the columns that some arm has."""
    present = dict.fromkeys(key for arm in found.arms for key in arm.figures)
    kept = [key for key in present if key.startswith(KEPT)]
    keys = [key for key in (FIRST, STEPS, *kept, CALLS) if key in present]
    heads = (Column("arm", "arm"), Column("compactions", "compactions"))
    columns = (*heads, *(Column(key.replace(".", "_"), _title(key)) for key in keys))
    rows = tuple(
        (arm.label, arm.compactions, *(_cell(key, arm.figures.get(key)) for key in keys)) for arm in found.arms
    )
    return Table(f"{found.suite}: behaviour after a compaction", columns, rows, notes(found))


def summary_table(found: Behaviours) -> Table | None:
    """In what share of an arm's summaries there is any literal of a kind; None where nobody wrote a summary."""
    keys = list(dict.fromkeys(key for arm in found.arms for key in arm.figures if key.startswith(HELD)))
    writers = [arm for arm in found.arms if any(key in arm.figures for key in keys)]
    if not writers:
        return None
    heads = (Column("arm", "arm"), Column("summaries", "summaries"))
    columns = (*heads, *(Column(key.replace(".", "_"), f"{key.removeprefix(HELD)}, %") for key in keys))
    rows = tuple(
        (
            arm.label,
            max(arm.figures[key].of for key in keys if key in arm.figures),
            *(_cell(key, arm.figures.get(key)) for key in keys),
        )
        for arm in writers
    )
    return Table("Summaries that hold any of them", columns, rows)


def _title(key: str) -> str:
    if key.startswith(KEPT):
        return f"{key.removeprefix(KEPT)} kept, %"
    return {FIRST: "look-up first, %", STEPS: "steps to change", CALLS: "look-ups a task"}[key]


def _cell(key: str, figure: Figure | None) -> Cell:
    if figure is None:
        return None
    scale, digits = (100, 0) if key == FIRST or key.startswith((KEPT, HELD)) else (1, 1)
    return Number(scale * figure.value, digits, interval=(scale * figure.low, scale * figure.high))


def notes(found: Behaviours) -> tuple[str, ...]:
    """What the columns mean, and what is missing and how to get it."""
    tasks = found.arms[0].tasks
    said = [f"{counted(tasks, 'task')}; 95 % intervals: bootstrap over tasks, {RESAMPLES:,} resamples."]
    said += ["With fewer than 20 tasks they come out too narrow."] if tasks < 20 else []
    if found.says_behaviour:
        said.append(
            "look-up first: compactions whose first action after is a documentation look-up; steps to change: from a"
            " compaction to the next mutation, or to the end; look-ups a task: documentation calls per trajectory."
        )
    else:
        said.append(
            f"The suite {found.suite!r} does not say which actions look something up or change something, so what the"
            f" agent did after a compaction is not counted: give it a method behaviour(action); {HOOKS}."
        )
    said.append("kept: of the literals in what a summary replaced, the share that stands in the summary.")
    if not found.says_literals:
        said.append(
            f"The suite {found.suite!r} does not name kinds of literals: {ANY} are all numbers, dates, ids, addresses"
            f" and quoted words; tokens and call signatures apart need a method literals(text); {HOOKS}."
        )
    if found.left_out:
        said.append(left_out(found.left_out))
    return (*said, SIMULATED) if found.simulated else tuple(said)


def sentence(arm: ArmBehaviour) -> str:
    """One arm in plain words."""
    figures, parts = arm.figures, []
    if not arm.compactions:
        parts.append("nothing was compacted")
    if first := figures.get(FIRST):
        shown = _percent(first)
        after = counted(first.of, "compaction")
        parts.append(f"after {after} the first action was a documentation look-up in {shown}")
    if steps := figures.get(STEPS):
        parts.append(f"it took {_plain(steps)} steps to the next change or the end")
    kept = {key.removeprefix(KEPT): figure for key, figure in figures.items() if key.startswith(KEPT)}
    if kept:
        each = [f"{_percent(figure)} of the {kind}" for kind, figure in kept.items()]
        parts.append(f"summaries kept {_listed(each)}")
    if calls := figures.get(CALLS):
        parts.append(f"a task took {_plain(calls)} documentation calls")
    return f"{arm.label}: {'; '.join(parts) or 'nothing can be said'}."


def _percent(figure: Figure) -> str:
    return f"{100 * figure.value:.0f} % ({100 * figure.low:.0f} to {100 * figure.high:.0f})"


def _plain(figure: Figure) -> str:
    return f"{figure.value:.1f} ({figure.low:.1f} to {figure.high:.1f})"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def to_json(found: Behaviours) -> dict[str, Any]:
    """All figures, whole."""
    return {
        "suite": found.suite,
        "says_behaviour": found.says_behaviour,
        "says_literals": found.says_literals,
        "left_out": found.left_out,
        "simulated": found.simulated,
        "arms": [{**arm.to_json(), "sentence": sentence(arm)} for arm in found.arms],
        "notes": list(notes(found)),
    }
