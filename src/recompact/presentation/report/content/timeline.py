"""Trajectories as lines with their compactions on them: what the report and the viewer draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recompact.attribution.judgement import Verification
from recompact.attribution.legend import entry_of
from recompact.engine.store.verdicts import Kind, Verdict
from recompact.values.outcome import BoundaryId
from recompact.values.tables import format_signed

TRACKS = 8  # trajectories at most, so that the picture fits on the first screen of a report


@dataclass(frozen=True)
class Mark:
    """One compaction on the line of its trajectory: after which step, its verdict, and both in words."""

    id: BoundaryId
    step: int
    kind: Kind
    title: str


@dataclass(frozen=True)
class Track:
    """One trajectory: its length, how it ended, and its compactions in order."""

    task: str
    steps: int
    success: bool
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Timeline:
    """The trajectories of the first boundaries by harm; `hidden` counts those that are not shown."""

    tracks: tuple[Track, ...]
    hidden: int

    @property
    def longest(self) -> int:
        return max(track.steps for track in self.tracks)


def timeline(verification: Verification) -> Timeline | None:
    """None where nothing was compacted."""
    by_unit: dict[str, list[Verdict]] = {}
    for verdict in verification.verdicts:
        by_unit.setdefault(verdict.id.unit, []).append(verdict)
    tracks = []
    for verdicts in list(by_unit.values())[:TRACKS]:
        row = verdicts[0].row
        marks = marks_of(sorted(verdicts, key=lambda verdict: verdict.row.step))
        tracks.append(Track(row.task, row.trajectory_steps, row.trajectory_success, marks))
    return Timeline(tuple(tracks), len(by_unit) - len(tracks)) if tracks else None


def marks_of(verdicts: Iterable[Verdict]) -> tuple[Mark, ...]:
    """Verdicts as marks, in the same order."""
    return tuple(Mark(each.id, each.row.step, each.kind, _title(each)) for each in verdicts)


def _title(verdict: Verdict) -> str:
    """Where the compaction was, the verdict, and its numbers."""
    effect, words = verdict.effect, f"{verdict.id}, after step {verdict.row.step}: {entry_of(verdict).label}"
    if effect is None:
        return words
    return f"{words}, H {format_signed(effect.hazard, 2)}, B {format_signed(effect.burden, 1)}"
