"""One trajectory as a view: its tokens against the budget, its compactions, and its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.engine.store.calls import count_calls
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import trajectory_row
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.overview import Mark, marks_of
from recompact.presentation.report.document import Piece, shorten
from recompact.presentation.view.runs import Page, Parameters, RunLine, arm_labels, number_in
from recompact.presentation.view.verdicts import verdicts_of_unit
from recompact.values.context import Turn
from recompact.values.texts import command_line
from recompact.values.trajectory import Boundary

TEXT = 1_500  # characters of one text
TURNS = 100  # on one page
WIDTH, HEIGHT = 640, 140  # of the drawing


@dataclass(frozen=True)
class TurnView:
    """A turn: what the agent wrote, did and saw; `mark` is the compaction right before it."""

    number: int
    words: tuple[Piece, ...]
    calls: tuple[tuple[Piece, ...], ...]
    results: tuple[tuple[Piece, ...], ...]
    context: int  # tokens of history after it
    mark: Mark | None


@dataclass(frozen=True)
class Curve:
    """Tokens of history over the steps, drawn beside the budget; coordinates are those of the drawing."""

    points: str
    budget: int | None
    ceiling: float | None
    most: int
    marks: tuple[tuple[float, Mark], ...]
    size: tuple[int, int] = (WIDTH, HEIGHT)


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
    turns: list[TurnView] = []
    size, before = 0, None
    for part in parts:
        if isinstance(part, Boundary):
            size, before = part.post.size, marks.get(part.index)
            continue
        size += part.tokens
        sizes.append(size)
        if start < len(sizes) <= start + TURNS:
            turns.append(_turn(part, len(sizes), size, before))
        before = None
    arm = arm_labels(store).get(unit.split("/", 2)[1], "") if line.evaluation else ""
    asked = [message.content for message in head.context.prefix if message.role == "user"]
    chosen = ["--arm", arm, "--run", str(row.run + 1)] if arm else []
    return "trajectory.html.jinja", {
        "row": row,
        "arm": arm,
        "task": shorten(asked[-1], TEXT) if asked else (),
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


def _turn(turn: Turn, number: int, size: int, mark: Mark | None) -> TurnView:
    return TurnView(
        number,
        shorten(turn.message.content, TEXT) if turn.message.content else (),
        tuple(shorten(f"{call.name}({call.arguments})", TEXT) for call in turn.message.calls),
        tuple(shorten(result.content, TEXT) for result in turn.results),
        size,
        mark,
    )


def _budget(store: Store, arm: str) -> int | None:
    metadata = store.metadata
    settings = metadata.arms[arm] if arm else metadata.identity.get("compressor", {})
    return settings.get("budget") if settings.get("kind") != "none" else None


def _curve(sizes: Sequence[int], budget: int | None, marks: Sequence[Mark]) -> Curve:
    most = max([*sizes, budget or 0, 1])
    across = (WIDTH - 20) / max(1, len(sizes))
    points = " ".join(f"{10 + n * across:.1f},{_height(size, most):.1f}" for n, size in enumerate([0, *sizes]))
    placed = tuple((10 + mark.step * across, mark) for mark in marks)
    return Curve(points, budget, _height(budget, most) if budget else None, most, placed)


def _height(size: int, most: int) -> float:
    return HEIGHT - 12 - (HEIGHT - 34) * size / most
