"""Runs as files in a directory, and the rows that tables show of a run."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.records import NONE_FAILED, FailedCompactions, failed_in_all, failed_in_unit
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId
from recompact.values.texts import quantity
from recompact.values.trajectory import Ending

SUFFIX = ".db"
BROKEN: Ending = "environment error"


@dataclass(frozen=True)
class Overview:
    """One run at a glance. Counts are of finished trajectories; tokens are all that was paid for."""

    name: str
    path: str
    suite: str
    compressor: str
    trajectories: int
    success: int
    steps: int
    compactions: int
    peak: float
    endings: Mapping[str, int]
    incidents: int
    tokens: Mapping[str, int]
    simulated: bool
    skipped: tuple[str, ...] = ()  # tasks that the run goes on without
    set_aside: int = 0  # units that would fail again if they were played again
    suite_changes: int = 0  # to the suite, that the run went on with
    stage: str = ""  # the last with records, or that it has only begun
    models: tuple[str, ...] = ()  # that were asked
    changed: str = ""  # when something was last recorded, in UTC
    failed_compactions: FailedCompactions = NONE_FAILED


WRAPPED = "wrap"
"""The suite of an agent that `recompact wrap` ran once, and the phase of its trajectory."""


def run_path(name: str, directory: Path) -> Path:
    """The file of a run: a path stays as it is, a bare name is looked for in the directory of runs."""
    if name.endswith(SUFFIX) or "/" in name:
        return Path(name)
    return named_run_path(name, directory)


def named_run_path(name: str, directory: Path) -> Path:
    """The file of a run that is given by name alone, as --run does."""
    if not re.fullmatch(r"[\w.@+-]+", name):
        raise InputError(f"{name!r} is not a name for a run: give one with --run, of letters, digits, and . _ - + @")
    return directory / f"{name.removesuffix(SUFFIX)}{SUFFIX}"


def find_run(name: str, directory: Path) -> Path:
    """An existing run by name or path."""
    path = run_path(name, directory)
    if not path.is_file():
        names = sorted(p.stem for p in directory.glob(f"*{SUFFIX}"))
        hint = f"there are {', '.join(names)}" if names else f"{directory} has none yet: give the run's file, or --dir"
        raise InputError(f"there is no run {name!r} ({path}); {hint}")
    return path


def note_config(store: Store, config: Path) -> None:
    """Record the path of a run's config relative to the run, so that both can be moved together."""
    # Its path and not its content: prices, limits and ceilings may change between two commands.
    where = os.path.relpath(config.resolve(), store.path.parent.resolve())
    if store.metadata.config_file != where:
        store.set_metadata(replace(store.metadata, config_file=where))


def config_of(store: Store) -> Path:
    """The config file of a run."""
    where = store.metadata.config_file
    path = Path(os.path.normpath(store.path.parent.resolve() / where)) if where else None
    if path is None or not path.is_file():
        reason = f"its config is no longer at {path}" if path else "it does not say where its config is"
        raise InputError(f"{store.path}: {reason}: name the config and the run, as in CONFIG --run {store.path.stem}")
    return path


@contextmanager
def open_run(path: Path | str) -> Iterator[Store]:
    """A run to write to. A new one in which nothing was recorded leaves no file behind."""
    path = Path(path)
    new = not path.exists()
    store = Store.open(path)
    try:
        yield store
        store.check_file()
    finally:
        if new and not store.finished() and not store.spent():
            store.discard()
        else:
            store.close()


def overview(store: Store) -> Overview:
    metadata = store.metadata
    phase = "evaluate" if metadata.command == "evaluate" else WRAPPED if metadata.suite == WRAPPED else "collect"
    rows = trajectories(store, phase=phase)
    tokens: Counter[str] = Counter()
    for (_, role), usage in store.spent().items():
        tokens[role] += usage.total
    compressor, models, simulated = overview_of_models(store)
    n = len(rows)
    return Overview(
        name=store.path.stem,
        path=str(store.path),
        suite=metadata.suite or "?",
        compressor=compressor,
        trajectories=n,
        success=sum(row.success for row in rows),
        steps=sum(row.steps for row in rows),
        compactions=sum(row.compactions for row in rows),
        peak=sum(row.peak for row in rows) / n if n else 0.0,
        endings=dict(Counter(row.ending for row in rows)),
        incidents=sum(row.incidents for row in rows),
        tokens=dict(sorted(tokens.items())),
        simulated=simulated,
        skipped=metadata.skipped,
        set_aside=len(store.units_set_aside()),
        suite_changes=len(metadata.suite_changes),
        stage=stage_of(metadata, n),
        models=models,
        changed=datetime.fromtimestamp(last_change(store.path), UTC).isoformat(timespec="minutes"),
        failed_compactions=failed_compactions(store, rows),
    )


def overview_of_models(store: Store) -> tuple[str, tuple[str, ...], bool]:
    """What compresses, the models that were asked, and whether all of them are simulated."""
    metadata = store.metadata
    models = {model for model, _ in store.spent()}
    evaluated = metadata.command == "evaluate"
    compressor = quantity(len(metadata.arms), "arm") if evaluated else _compressor(metadata.identity)
    return compressor, tuple(sorted(models)), is_simulated(store)


def is_simulated(store: Store) -> bool:
    """Whether all models that a run has asked are simulated."""
    models = {model for model, _ in store.spent()}
    return bool(models) and models <= set(store.metadata.simulated)


def stage_of(metadata: RunMetadata, trajectories: int) -> str:
    """How far a run with so many finished trajectories has got."""
    if metadata.suite == WRAPPED:
        return "a wrapped agent"
    if not trajectories:
        return "begun"
    if metadata.command == "evaluate":
        return "evaluated"
    return "adapted" if metadata.adaptations else "verified" if metadata.verified else "collected"


def last_change(path: Path) -> float:
    """Of the file, or of the log beside it where SQLite puts what is new."""
    files = (path, Path(f"{path}-wal"))
    return max((file.stat().st_mtime for file in files if file.exists() and file.stat().st_size), default=0.0)


def _compressor(identity: Mapping[str, Any]) -> str:
    settings = identity.get("compressor", {})
    kind = settings.get("kind", "?")
    if kind == "none":
        return "none"
    words = [kind, str(settings.get("budget"))]
    if kind == "prompted":
        words.insert(1, f"prefix, {settings['rendering']}" if settings["scope"] == "prefix" else settings["scope"])
    return " ".join(words)


@dataclass(frozen=True)
class TrajectoryRow:
    """What a table shows of one trajectory."""

    unit: str
    task: str
    run: int
    groups: Mapping[str, str]
    success: bool
    value: float
    ending: Ending
    steps: int
    compactions: int
    peak: int
    peak_reported: int
    usage: Mapping[str, Usage]
    incidents: int

    @property
    def tokens(self) -> int:
        return sum(usage.total for usage in self.usage.values())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "usage": {role: usage.to_json() for role, usage in self.usage.items()}}


def retry_broken(store: Store, phase: str) -> int:
    """Let trajectories that ended because their environment broke be made anew. Returns how many there are."""
    broken = broken_trajectories(store, phase)
    for row in broken:
        store.reopen(row.unit)
    return len(broken)


def broken_trajectories(store: Store, phase: str) -> list[TrajectoryRow]:
    """The trajectories that ended because their environment broke: they say nothing about the agent."""
    return [row for row in trajectories(store, phase=phase) if row.ending == BROKEN]


def trajectories(store: Store, task: str | None = None, phase: str = "collect") -> list[TrajectoryRow]:
    """The trajectories of a phase, all or those of one task. Tasks that the run skips are left out."""
    return _trajectory_rows(store, "phase = ? AND (? IS NULL OR task = ?)", phase, task, task)


def _trajectory_rows(store: Store, condition: str, *parameters: Any) -> list[TrajectoryRow]:
    skipped = _skipped_tasks(store)
    rows = map(trajectory_of_row, store._select(f"{TRAJECTORY} WHERE {condition} ORDER BY task, unit", parameters))
    return [row for row in rows if row.task not in skipped]


def recorded_phases(store: Store) -> tuple[str, ...]:
    """The phases that have a trajectory, in the order in which they came."""
    rows = store._rows("SELECT phase, min(rowid) AS first FROM trajectories GROUP BY phase ORDER BY first")
    return tuple(row["phase"] for row in rows)


def failed_compactions(store: Store, rows: Iterable[TrajectoryRow] | None = None) -> FailedCompactions:
    """The compactions that failed in these trajectories, or in all collected ones, from their incidents."""
    if rows is None:
        rows = _trajectory_rows(store, "phase = 'collect' AND incidents > 0")
    return failed_in_all(failed_in_unit(store, row.unit) for row in rows if row.incidents)


def _skipped_tasks(store: Store) -> frozenset[str]:
    """As in the metadata, without reading the rest of it for every query."""
    rows = store._rows("SELECT value FROM meta WHERE key = 'skipped'")
    return frozenset(json.loads(rows[0]["value"])) if rows else frozenset()


def trajectory_row(store: Store, unit: str) -> TrajectoryRow:
    """The trajectory of one unit, whatever its phase."""
    rows = store._select(f"{TRAJECTORY} WHERE unit = ?", (unit,))
    if not rows:
        raise LookupError(f"{store.path} has no trajectory {unit}")
    return trajectory_of_row(rows[0])


TRAJECTORY = (
    "SELECT t.unit, t.task, t.run, t.groups, t.success, t.value, t.ending, t.steps, t.compactions, t.peak,"
    " t.peak_reported, t.usage, t.incidents FROM trajectories t"
)
"""The columns of a `TrajectoryRow`, in its order."""


def trajectory_of_row(row: Sequence[Any]) -> TrajectoryRow:
    unit, task, run, groups, success, *numbers, usage, incidents = row
    return TrajectoryRow(*(unit, task, run, json.loads(groups), bool(success), *numbers, _usage(usage), incidents))


def _usage(text: str) -> dict[str, Usage]:
    return {role: Usage(*counts) for role, counts in json.loads(text).items()}


@dataclass(frozen=True)
class BoundaryRow:
    """What a table shows of one boundary, with its trajectory's length and outcome beside it."""

    unit: str
    index: int
    task: str
    step: int
    pre_tokens: int
    post_tokens: int
    trajectory_steps: int
    trajectory_success: bool

    @property
    def id(self) -> BoundaryId:
        return BoundaryId(self.unit, self.index)


_BOUNDARIES = (
    "SELECT b.unit, b.idx, t.task, b.step, b.pre_tokens, b.post_tokens, t.steps, t.success"
    " FROM boundaries b JOIN trajectories t ON t.unit = b.unit"
)


def boundary_rows(store: Store) -> list[BoundaryRow]:
    """All collected boundaries, in the order of their trajectories, except those of skipped tasks."""
    skipped = _skipped_tasks(store)
    rows = _select_boundaries(store, "t.phase = 'collect' ORDER BY b.unit, b.idx")
    return [row for row in rows if row.task not in skipped] if skipped else rows


def boundaries_of(store: Store, unit: str) -> list[BoundaryRow]:
    """The boundaries of one trajectory in order, whatever its phase."""
    return _select_boundaries(store, "b.unit = ? ORDER BY b.idx", unit)


def boundary_row(store: Store, unit: str, index: int) -> BoundaryRow:
    """One boundary, whatever the phase of its trajectory."""
    rows = _select_boundaries(store, "b.unit = ? AND b.idx = ?", unit, index)
    if not rows:
        raise LookupError(f"{store.path} has no boundary {index} of {unit}")
    return rows[0]


def _select_boundaries(store: Store, condition: str, *parameters: Any) -> list[BoundaryRow]:
    rows = store._select(f"{_BOUNDARIES} WHERE {condition}", parameters)
    return [BoundaryRow(*(*values, bool(success))) for *values, success in rows]


@dataclass(frozen=True)
class ContinuationRow:
    """One continuation: its boundary, how it ended and what it cost. Unit `name` has all of it."""

    name: str
    unit: str
    index: int
    arm: str
    draw: int
    success: bool
    value: float
    ending: Ending
    steps: int
    usage: Mapping[str, Usage]
    error: str

    @property
    def boundary(self) -> BoundaryId:
        return BoundaryId(self.unit, self.index)

    @property
    def tokens(self) -> int:
        return sum(usage.total for usage in self.usage.values())


def continuation_rows(store: Store, unit: str | None = None, index: int | None = None) -> list[ContinuationRow]:
    """Continuations by draw, of all boundaries or of one; PRE comes before POST. Skipped tasks are left out."""
    rows = store._select(
        "SELECT c.name, c.unit, c.idx, c.arm, c.draw, c.success, c.value, c.ending, c.steps, c.usage, c.error, t.task"
        " FROM continuations c LEFT JOIN trajectories t ON t.unit = c.unit"
        " WHERE (? IS NULL OR c.unit = ?) AND (? IS NULL OR c.idx = ?)"
        " ORDER BY c.unit, c.idx, c.draw, c.arm DESC",
        (unit, unit, index, index),
    )
    skipped = _skipped_tasks(store)
    return [
        ContinuationRow(*(*key, bool(success), value, ending, steps, _usage(usage), error))
        for *key, success, value, ending, steps, usage, error, task in rows
        if task not in skipped
    ]


def phase_digest(store: Store, kind: str, without: Collection[str] = ()) -> str:
    """One hash over the results of one kind of unit, in order of name; later phases of the run do not change it."""
    total = hashlib.sha256()
    for row in store._rows("SELECT name, result FROM units WHERE kind = ? ORDER BY name", (kind,)):
        if row["name"] not in without:
            total.update(row["name"].encode() + b"\0" + row["result"])
    return total.hexdigest()
