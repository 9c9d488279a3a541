"""The trajectories of a verified run as a picture: their steps, and their compactions by the harm that they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recompact.attribution.judgement import Verification
from recompact.attribution.legend import entry_of
from recompact.engine.store.verdicts import Kind, Verdict
from recompact.values.tables import format_signed
from recompact.values.texts import quantity

TRACKS = 8  # trajectories at most, so that the picture fits on the first screen
NAMES, LENGTH, ROW = 210, 470, 26  # units of the drawing: for names, for the longest trajectory, from row to row


@dataclass(frozen=True)
class Mark:
    """One compaction. `anchor` is where it is shown in full, if it is."""

    x: float
    kind: Kind
    title: str
    anchor: str


@dataclass(frozen=True)
class Track:
    """One trajectory: how it ended, and where it is on the drawing."""

    name: str
    title: str
    success: bool
    y: int
    end: float
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Timeline:
    """The trajectories of the first boundaries by harm; `hidden` counts those that are not shown."""

    tracks: tuple[Track, ...]
    hidden: int
    start: int = NAMES

    @property
    def size(self) -> tuple[int, int]:
        return NAMES + LENGTH + 40, ROW * len(self.tracks) + 8


def timeline(verification: Verification, anchors: Mapping[str, str]) -> Timeline | None:
    """None where nothing was compacted. `anchors` say where each boundary is shown."""
    by_unit: dict[str, list[Verdict]] = {}
    for verdict in verification.verdicts:
        by_unit.setdefault(verdict.id.unit, []).append(verdict)
    shown = list(by_unit.values())[:TRACKS]
    if not shown:
        return None
    longest = max(boundaries[0].row.trajectory_steps for boundaries in shown) or 1
    tracks = []
    for number, boundaries in enumerate(shown):
        row = boundaries[0].row
        ordered = sorted(boundaries, key=lambda verdict: verdict.row.step)
        marks = tuple(_mark(verdict, NAMES + LENGTH * verdict.row.step / longest, anchors) for verdict in ordered)
        outcome = "success" if row.trajectory_success else "failure"
        title = f"{row.task}: {quantity(row.trajectory_steps, 'step')}, {outcome}"
        end = NAMES + LENGTH * row.trajectory_steps / longest
        tracks.append(Track(row.task, title, row.trajectory_success, ROW * number + ROW // 2 + 4, end, marks))
    return Timeline(tuple(tracks), len(by_unit) - len(shown))


def _mark(verdict: Verdict, x: float, anchors: Mapping[str, str]) -> Mark:
    return Mark(x, verdict.kind, mark_title(verdict), anchors.get(str(verdict.id), ""))


def mark_title(verdict: Verdict) -> str:
    """What a mark says when it is pointed at: where the compaction was, the verdict, and its numbers."""
    effect, words = verdict.effect, f"{verdict.id}, after step {verdict.row.step}: {entry_of(verdict).label}"
    if effect is None:
        return words
    return f"{words}, H {format_signed(effect.hazard, 2)}, B {format_signed(effect.burden, 1)}"
