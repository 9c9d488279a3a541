"""One trajectory as a view: its tokens against the budget, its compactions, and its turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recompact.engine.store.calls import count_calls
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import trajectory_row
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.overview import Mark, marks_of
from recompact.presentation.view.runs import Page, Parameters, RunLine, arm_labels, number_in
from recompact.presentation.view.verdicts import verdicts_of_unit
from recompact.values.context import Turn
from recompact.values.texts import command_line
from recompact.values.trajectory import Boundary

TURNS = 100  # on one page
WIDTH, HEIGHT = 640, 140  # of the drawing


def trajectory_view(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The trajectory of a unit, with those of its turns that fit on a page."""
    unit, start = parameters.get("unit", ""), number_in(parameters, "start")
    try:
        row = trajectory_row(store, unit)
    except LookupError:
        raise InputError(f"{store.path} has no trajectory {unit!r}: the run may have replaced it since") from None
    marks = {mark.id.index: mark for mark in marks_of(verdicts_of_unit(store, unit))}
    head, parts = stream_trajectory(store, unit)
    sizes: list[int] = []
    turns: list[tuple[int, Turn, int, Mark | None]] = []  # number, tokens of history after it, compaction before it
    size, before = 0, None
    for part in parts:
        if isinstance(part, Boundary):
            size, before = part.post.size, marks.get(part.index)
            continue
        size += part.tokens
        sizes.append(size)
        if start < len(sizes) <= start + TURNS:
            turns.append((len(sizes), part, size, before))
        before = None
    arm = arm_labels(store).get(unit.split("/", 2)[1], "") if line.evaluation else ""
    asked = [message.content for message in head.context.prefix if message.role == "user"]
    chosen = ["--arm", arm, "--run", str(row.run + 1)] if arm else []
    return "trajectory.html.jinja", {
        "row": row,
        "arm": arm,
        "task": asked[-1] if asked else "",
        "curve": _curve(sizes, _budget(store, arm), tuple(marks.values())),
        "turns": turns,
        "start": start,
        "total": len(sizes),
        "more": len(sizes) - start - len(turns),
        "error": head.error,
        "incidents": [f"step {i.step}: {i.kind}: {i.text}" for i in head.incidents],
        "calls": count_calls(store, unit),
        "command": command_line("show", store.path, row.task, options=chosen),
    }


def _budget(store: Store, arm: str) -> int | None:
    metadata = store.metadata
    settings = metadata.arms[arm] if arm else metadata.identity.get("compressor", {})
    return settings.get("budget") if settings.get("kind") != "none" else None


def _curve(sizes: Sequence[int], budget: int | None, marks: Sequence[Mark]) -> dict[str, Any]:
    """Tokens of history over the steps, beside the budget, in the coordinates of the drawing."""
    most = max([*sizes, budget or 0, 1])
    across = (WIDTH - 20) / max(1, len(sizes))

    def height(size: int) -> float:
        return HEIGHT - 12 - (HEIGHT - 34) * size / most

    return {
        "points": " ".join(f"{10 + n * across:.1f},{height(size):.1f}" for n, size in enumerate([0, *sizes])),
        "budget": budget,
        "ceiling": height(budget) if budget else None,
        "most": most,
        "marks": [(10 + mark.step * across, mark) for mark in marks],
        "size": (WIDTH, HEIGHT),
    }
