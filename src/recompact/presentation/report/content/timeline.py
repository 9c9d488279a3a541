"""The trajectories of a verified run as a picture: their steps, and their compactions by the harm that they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from recompact.attribution.findings import Finding, Findings
from recompact.presentation.report.content.harm import is_harmful
from recompact.values.tables import format_signed
from recompact.values.texts import quantity

TRACKS = 8  # trajectories at most, so that the picture fits on the first screen
NAMES, LENGTH, ROW = 210, 470, 26  # units of the drawing: for names, for the longest trajectory, from row to row


@dataclass(frozen=True)
class Mark:
    """One compaction. `anchor` is where it is shown in full, if it is."""

    x: float
    kind: Literal["harmful", "harmless", "open"]
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
    """The trajectories of the first boundaries in the list of findings; `hidden` counts those that are not shown."""

    tracks: tuple[Track, ...]
    hidden: int
    start: int = NAMES

    @property
    def size(self) -> tuple[int, int]:
        return NAMES + LENGTH + 40, ROW * len(self.tracks) + 8


def timeline(findings: Findings, anchors: Mapping[str, str]) -> Timeline | None:
    """None where nothing was compacted. `anchors` say where each boundary is shown."""
    by_unit: dict[str, list[Finding]] = {}
    for finding in findings.boundaries:
        by_unit.setdefault(finding.id.unit, []).append(finding)
    shown = list(by_unit.values())[:TRACKS]
    if not shown:
        return None
    longest = max(boundaries[0].row.trajectory_steps for boundaries in shown) or 1
    tracks = []
    for number, boundaries in enumerate(shown):
        row = boundaries[0].row
        ordered = sorted(boundaries, key=lambda finding: finding.row.step)
        marks = tuple(
            _mark(findings, finding, NAMES + LENGTH * finding.row.step / longest, anchors) for finding in ordered
        )
        outcome = "success" if row.trajectory_success else "failure"
        title = f"{row.task}: {quantity(row.trajectory_steps, 'step')}, {outcome}"
        end = NAMES + LENGTH * row.trajectory_steps / longest
        tracks.append(Track(row.task, title, row.trajectory_success, ROW * number + ROW // 2 + 4, end, marks))
    return Timeline(tuple(tracks), len(by_unit) - len(shown))


def _mark(findings: Findings, finding: Finding, x: float, anchors: Mapping[str, str]) -> Mark:
    effect, where = finding.effect, f"{finding.id}, after step {finding.row.step}"
    anchor = anchors.get(str(finding.id), "")
    if effect is None:
        return Mark(x, "open", f"{where}: no verdict", anchor)
    harmful = is_harmful(findings, finding)
    numbers = f"H {format_signed(effect.hazard, 2)}, B {format_signed(effect.burden, 1)}"
    verdict = "retained" if harmful else "not retained"
    return Mark(x, "harmful" if harmful else "harmless", f"{where}: {verdict}, {numbers}", anchor)
