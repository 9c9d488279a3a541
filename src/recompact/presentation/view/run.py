"""A run as a view: what it found, in the report's words, and a page of its trajectories with their compactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from recompact.attribution.legend import headline
from recompact.attribution.statement import control_of
from recompact.engine.store.pages import TrajectoryQuery, group_values, trajectory_page
from recompact.engine.store.runs import TrajectoryRow, failed_compactions, trajectories
from recompact.engine.store.store import Store
from recompact.presentation.report.content.answer import Claim
from recompact.presentation.report.content.harm import harm_claim, harm_of
from recompact.presentation.report.content.timeline import Mark, marks_of
from recompact.presentation.view.runs import RunLine
from recompact.presentation.view.verdicts import JUDGED, harm_order, phase_of, verdicts_of_run, verdicts_of_unit


@dataclass(frozen=True)
class Row:
    """One trajectory in the list, with its compactions."""

    row: TrajectoryRow
    arm: str
    marks: tuple[Mark, ...]


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
    def longest(self) -> int:
        """The steps of the longest trajectory on the page."""
        return max((each.row.steps for each in self.rows), default=0)

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
    phase, arms = phase_of(store), arm_labels(store)
    order = harm_order(store) if query.order == "harm" else None
    listed, total = trajectory_page(store, replace(query, phase=phase), order)
    claim, note = _claim(store, line)
    rows = tuple(_row(store, row, arms) for row in listed)
    failed = "" if claim else _failures(store, line)
    return RunPage(line, claim, note, rows, query, total, arms, tuple(group_values(store, phase)), failed)


def arm_labels(store: Store) -> dict[str, str]:
    """The labels of an evaluation's arms, by key."""
    metadata = store.metadata
    return {metadata.arms[label]["key"]: label for label in metadata.arm_order}


def _row(store: Store, row: TrajectoryRow, arms: Mapping[str, str]) -> Row:
    arm = arms.get(row.unit.split("/", 2)[1], "") if arms else ""
    return Row(row, arm, marks_of(verdicts_of_unit(store, row.unit)))


def _claim(store: Store, line: RunLine) -> tuple[Claim | None, str]:
    """The result of the run in the report's words, or where to find it."""
    counts = line.counts
    if counts is None or not counts.continuations:
        return None, ""
    if (verification := verdicts_of_run(store)) is not None:
        control = control_of(store, verification.settings)
        return harm_claim(harm_of(verification, len(trajectories(store)), control)), ""
    note = f"This run has {counts.boundaries:,} boundaries: `recompact boundaries` and the report show more."
    if line.kinds is None:
        return None, f"`recompact verify` stores the verdicts when it finishes. {note}"
    return Claim(headline(line.kinds)), note


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
