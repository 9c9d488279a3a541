"""A run as a view: what it found, in the report's words, and a page of its trajectories with their compactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from recompact.attribution.findings import Findings, findings
from recompact.attribution.statement import control_of
from recompact.engine.store.pages import BoundaryPoint, ListedTrajectory, TrajectoryQuery, group_values, trajectory_page
from recompact.engine.store.runs import TrajectoryRow, failed_compactions, last_change, trajectories
from recompact.engine.store.store import Store
from recompact.presentation.report.content.answer import Claim
from recompact.presentation.report.content.harm import harm_claim, harm_of
from recompact.presentation.view.runs import JUDGED, RunLine, open_moment, phase_of, thresholds_of
from recompact.values.outcome import BoundaryId


@dataclass(frozen=True)
class Mark:
    """A compaction on the line of its trajectory: where (a share of it), how harmful, and of which boundary."""

    x: float
    kind: str  # harmful, harmless or open
    title: str
    boundary: str
    step: int


@dataclass(frozen=True)
class Row:
    """One trajectory in the list. `length` is its share of the longest one on the page."""

    row: TrajectoryRow
    arm: str
    marks: tuple[Mark, ...]
    length: float


@dataclass(frozen=True)
class RunPage:
    """A run with a page of its trajectories."""

    line: RunLine
    claim: Claim | None
    note: str
    rows: tuple[Row, ...]
    query: TrajectoryQuery
    total: int
    arms: Mapping[str, str]  # key -> label
    groups: tuple[str, ...]
    failed: str = ""  # compactions that failed, where the claim does not say so

    @property
    def drawable(self) -> bool:
        """Whether there are draws to make figures of, and few enough of them."""
        counts = self.line.counts
        return not self.line.evaluation and counts is not None and counts.continuations > 0 and not self.note

    @property
    def shown(self) -> tuple[int, int]:
        """The first and the last trajectory of the page, from 1."""
        return (self.query.offset + 1 if self.rows else 0), self.query.offset + len(self.rows)

    def address(self, **changes: object) -> str:
        """The address of the same list with other settings."""
        names = ("task", "arm", "outcome", "group", "order", "offset")
        values = {name: changes.get(name, getattr(self.query, name)) for name in names}
        return "?" + urlencode({name: value for name, value in values.items() if value})


def run_page(store: Store, line: RunLine, query: TrajectoryQuery) -> RunPage:
    """The page of a run that a query asks for."""
    phase, thresholds, arms = phase_of(store), thresholds_of(store), arm_labels(store)
    listed, total = trajectory_page(store, replace(query, phase=phase), thresholds)
    claim, note = _claim(store, line)
    longest = max((each.row.steps for each in listed), default=0) or 1
    rows = tuple(_row(each, arms, thresholds, longest) for each in listed)
    failed = "" if claim else _failures(store, line)
    return RunPage(line, claim, note, rows, query, total, arms, tuple(group_values(store, phase)), failed)


def arm_labels(store: Store) -> dict[str, str]:
    """The labels of an evaluation's arms, by key."""
    metadata = store.metadata
    return {metadata.arms[label]["key"]: label for label in metadata.arm_order}


def _row(each: ListedTrajectory, arms: Mapping[str, str], thresholds: tuple[float, float], longest: int) -> Row:
    marks = tuple(mark_of(each.row, point, thresholds, longest) for point in each.boundaries)
    arm = arms.get(each.row.unit.split("/", 2)[1], "") if arms else ""
    return Row(each.row, arm, marks, each.row.steps / longest)


def mark_of(row: TrajectoryRow, point: BoundaryPoint, thresholds: tuple[float, float], longest: int) -> Mark:
    """How a compaction is drawn: by the differences between the means of its draws."""
    id = BoundaryId(row.unit, point.index)
    where = f"{id}, after step {point.step}"
    x = point.step / longest
    if point.hazard is None or point.burden is None:
        return Mark(x, "open", f"{where}: no draws in both arms", str(id), point.step)
    reached = point.hazard >= thresholds[0] - 1e-9 or point.burden >= thresholds[1] - 1e-9
    title = f"{where}: H {point.hazard:+.2f}, B {point.burden:+.1f}"
    return Mark(x, "harmful" if reached else "harmless", title, str(id), point.step)


def _claim(store: Store, line: RunLine) -> tuple[Claim | None, str]:
    """What the run came to, in the report's words, or why it is not said here."""
    counts = line.counts
    if counts is None or not counts.continuations:
        return None, ""
    if counts.boundaries > JUDGED:
        return None, (
            f"With {counts.boundaries:,} boundaries, verdicts are left to `recompact verify` and the report; sorted by"
            " harm, the list goes by the means of draws."
        )
    every = judge_run(store)
    return harm_claim(harm_of(every, len(trajectories(store)), control_of(store, every.settings))), ""


def _failures(store: Store, line: RunLine) -> str:
    """How many compactions failed. Whole trajectories say so, which takes too long where there are very many."""
    if line.counts is None or line.counts.trajectories > JUDGED:
        return ""
    rows = trajectories(store, phase=phase_of(store))
    failed = failed_compactions(store, rows)
    if not failed.number:
        return ""
    words = failed.words if any(row.compactions for row in rows) else failed.nothing_compacted
    return f"{words[0].upper()}{words[1:]}."


def judge_run(store: Store) -> Findings:
    """All boundaries with their verdicts, recomputed only when the file has changed."""
    return _judge_file(str(store.path), last_change(store.path))


@lru_cache(maxsize=4)
def _judge_file(path: str, changed: float) -> Findings:
    with open_moment(Path(path)) as store:
        return findings(store)
