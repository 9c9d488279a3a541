"""One trajectory as a view: its tokens against the budget, its compactions, and its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.engine.store.calls import count_calls
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import TrajectoryRow, trajectory_row
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.timeline import Mark, marks_of
from recompact.presentation.report.document import Piece, shorten
from recompact.presentation.view.run import arm_labels
from recompact.presentation.view.runs import RunLine
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


@dataclass(frozen=True)
class TrajectoryPage:
    """A trajectory, with those of its turns that fit on a page."""

    line: RunLine
    row: TrajectoryRow
    arm: str
    task: tuple[Piece, ...]
    curve: Curve
    turns: tuple[TurnView, ...]
    start: int  # turns before the first one shown
    total: int
    error: str
    incidents: tuple[str, ...]
    calls: int  # in the journal
    command: str

    @property
    def more(self) -> int:
        return self.total - self.start - len(self.turns)


def trajectory_view(store: Store, line: RunLine, unit: str, start: int) -> TrajectoryPage:
    """The trajectory of a unit; `start` turns are skipped."""
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
    return TrajectoryPage(
        line=line,
        row=row,
        arm=arm,
        task=shorten(asked[-1], TEXT) if asked else (),
        curve=_curve(sizes, _budget(store, arm), tuple(marks.values())),
        turns=tuple(turns),
        start=start,
        total=len(sizes),
        error=head.error,
        incidents=tuple(f"step {i.step}: {i.kind}: {i.text}" for i in head.incidents),
        calls=count_calls(store, unit),
        command=_command(store, row, arm),
    )


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


def _command(store: Store, row: TrajectoryRow, arm: str) -> str:
    chosen = ["--arm", arm, "--run", str(row.run + 1)] if arm else []
    return command_line("show", store.path, row.task, *chosen)
