"""The runs that a viewer shows: found by name, opened for reading only, with what is known of each at a glance.

One that is being written comes with how long it may still take; each has a page of its trajectories."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from recompact.attribution.statement import control_of, headline
from recompact.engine.config_parser import load_config
from recompact.engine.store.connection import start_of_process, writer_of
from recompact.engine.store.pages import ORDERS, RunCounts, TrajectoryQuery, group_values, run_counts, trajectory_page
from recompact.engine.store.plan import StagePlan, count_units, plan_of
from recompact.engine.store.runs import (
    SUFFIX,
    config_of,
    failed_compactions,
    last_change,
    overview_of_models,
    stage_of,
    trajectories,
)
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Kind
from recompact.errors import InputError
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.presentation.report.content.answer import Claim, harm_claim, harm_of
from recompact.presentation.report.content.overview import marks_of
from recompact.presentation.report.content.runs import short_names
from recompact.presentation.view.verdicts import (
    JUDGED,
    harm_order,
    open_moment,
    phase_of,
    stored_kinds,
    verdicts_of_run,
    verdicts_of_unit,
)

Parameters = Mapping[str, str]
"""What an address asks for."""

Page = tuple[str, dict[str, Any]]
"""A template, and what it shows."""

OUTCOMES = ("success", "failure")
LONGEST = 300  # characters of a filter
LIVE = 30.0  # seconds for which a change shows that the run is being written, where its lock alone cannot

FEWEST = 3  # units of a stage before its pace means anything


@dataclass(frozen=True)
class Place:
    """A run file and its name in addresses."""

    name: str
    path: Path


@dataclass(frozen=True)
class Standing:
    """The stage that a run is at: how many of its units are done, and at this pace how many seconds are left.

    `seconds` is None where that cannot be known, and `why` says so; a stage that may be shorter than planned has at
    most that many.
    """

    stage: str
    done: int
    total: int | None
    at_most: bool
    seconds: float | None
    why: str = ""

    @property
    def units(self) -> str:
        if self.total is None:
            return f"{self.stage}: {self.done:,} done"
        return f"{self.stage}: {self.done:,} of {'at most ' * self.at_most}{self.total:,}"

    @property
    def left(self) -> str:
        """The time left in words."""
        if self.seconds is None:
            return self.why
        return f"{'at most ' * self.at_most}about {duration(self.seconds)}"


@dataclass(frozen=True)
class RunLine:
    """One run in the list. A file that cannot be read has a problem and nothing else."""

    place: Place
    stage: str = ""
    suite: str = ""
    compressor: str = ""
    models: tuple[str, ...] = ()
    simulated: bool = False
    tokens: int = 0
    cost: float | None = None  # money, where the config has prices
    counts: RunCounts | None = None
    kinds: Mapping[Kind, int] | None = None  # verdicts of each kind; None until they are stored
    evaluation: bool = False
    changed: float = 0.0  # seconds since the epoch
    live: bool = False
    standing: Standing | None = None  # at which stage, and how long it may still take
    problem: str = ""

    @property
    def success(self) -> str:
        counts = self.counts
        return f"{100 * counts.success / counts.trajectories:.1f} %" if counts and counts.trajectories else "–"

    @property
    def age(self) -> str:
        """How long ago the file changed, in words."""
        return f"{duration(time.time() - self.changed)} ago"


def places_of(runs: Sequence[str], directory: Path) -> list[Place]:
    """The runs that were named, or all of a directory, each with its own name."""
    paths: dict[Path, Path] = {}
    named = [path for run in runs for path in _find_runs(Path(run), directory)] if runs else _in_directory(directory)
    for path in named:
        paths.setdefault(path.resolve(), path)
    names = short_names([str(path) for path in paths.values()])
    return [Place(names[str(path)].replace("/", "~").removesuffix(SUFFIX), path) for path in paths.values()]


def _find_runs(run: Path, directory: Path) -> list[Path]:
    """All runs of a directory, or one by its file or its name."""
    if run.is_dir():
        return _in_directory(run)
    return [run if run.suffix == SUFFIX or len(run.parts) > 1 else directory / f"{run}{SUFFIX}"]


def _in_directory(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


def list_of_runs(places: Iterable[Place]) -> list[RunLine]:
    """All runs, the most recently changed first."""
    return sorted(map(line_of, places), key=lambda line: (-line.changed, line.place.name))


def line_of(place: Place) -> RunLine:
    """What the list shows of a run."""
    try:
        with open_moment(place.path) as store:
            return _line(store, place)
    except InputError as error:
        return RunLine(place, problem=str(error))


def _line(store: Store, place: Place) -> RunLine:
    metadata = store.metadata
    evaluation = metadata.command == EVALUATE
    compressor, models, simulated = overview_of_models(store)
    changed = last_change(place.path)
    counts = run_counts(store, phase_of(store))
    live = is_being_written(place.path, changed)
    return RunLine(
        place=place,
        stage=stage_of(metadata, counts.trajectories),
        suite=metadata.suite or "?",
        compressor=compressor,
        models=models,
        simulated=simulated,
        tokens=sum(usage.total for usage in store.spent().values()),
        cost=cost_of(store),
        counts=counts,
        kinds=stored_kinds(store),
        evaluation=evaluation,
        changed=changed,
        live=live,
        standing=standing_of(store, live),
    )


def is_being_written(path: Path, changed: float) -> bool:
    """A live writer is enough, however long its models take. Where the system does not say when a process began, the
    number of a dead writer may be another's by now, so the run must have changed lately as well."""
    writer = writer_of(path)
    return writer is not None and (start_of_process(writer) is not None or time.time() - changed < LIVE)


def cost_of(store: Store) -> float | None:
    """What the calls of a run cost at the prices in its config; None where no price is known."""
    try:
        models = load_config(config_of(store)).models
    except InputError:
        return None
    total, priced = 0.0, False
    for (name, _), usage in store.spent().items():
        if (settings := models.get(name)) and (settings.price.input or settings.price.output):
            priced = True
            total += settings.price.of(usage)
    return total if priced else None


def duration(seconds: float) -> str:
    """
    >>> [duration(seconds) for seconds in (0.2, 48, 100, 3500, 5300, 200_000)]
    ['1 s', '48 s', '2 min', '58 min', '1 h 28 min', '2 days 7 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def standing_of(store: Store, live: bool) -> Standing | None:
    """None where the file has no plan yet, or where a stopped run may have nothing left to do."""
    plan = plan_of(store)
    if plan is None:
        return None
    fresh = count_units(store) - plan.units
    done = plan.done + max(0, fresh)
    if plan.total is not None and not plan.at_most:
        done = min(done, plan.total)
    if not live:
        unfinished = plan.total is not None and not plan.at_most and done < plan.total
        return Standing(plan.stage, done, plan.total, plan.at_most, None, "stopped") if unfinished else None
    seconds, why = _seconds(plan, fresh, done, time.time())
    return Standing(plan.stage, done, plan.total, plan.at_most, seconds, why)


def _seconds(plan: StagePlan, fresh: int, done: int, now: float) -> tuple[float | None, str]:
    if plan.total is None:
        return None, "unknown: how much is left depends on the results"
    if done >= plan.total:
        return None, "this stage is about to end"
    if fresh < FEWEST or now <= plan.began:
        return None, "not known yet"
    return (now - plan.began) / fresh * (plan.total - done), ""


# --- what an address asks for


def text_in(parameters: Parameters, key: str) -> str:
    return parameters.get(key, "")[:LONGEST]


def number_in(parameters: Parameters, key: str) -> int:
    text = parameters.get(key, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def filter_in(parameters: Parameters) -> TrajectoryQuery:
    task, arm, outcome, group = (text_in(parameters, key) for key in ("task", "arm", "outcome", "group"))
    return TrajectoryQuery(task=task, arm=arm, outcome=outcome if outcome in OUTCOMES else "", group=group)


# --- one run


def run_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """What a run found, in the report's words, and a page of its trajectories."""
    phase, arms = phase_of(store), arm_labels(store)
    default = "harm" if line.counts and line.counts.continuations else "task"
    order = parameters.get("order", default)
    query = replace(
        filter_in(parameters),
        phase=phase,
        order=order if order in ORDERS else default,
        offset=number_in(parameters, "offset"),
    )
    listed, total = trajectory_page(store, query, harm_order(store) if query.order == "harm" else None)
    claim, note = _claim(store, line)

    def address(**changes: object) -> str:
        """The address of the same list with other settings."""
        names = ("task", "arm", "outcome", "group", "order", "offset")
        values = {name: changes.get(name, getattr(query, name)) for name in names}
        return "?" + urlencode({name: value for name, value in values.items() if value})

    return "run.html.jinja", {
        "claim": claim,
        "note": note,
        "failed": "" if claim else _failures(store, line),
        "rows": [
            (row, arms.get(row.unit.split("/", 2)[1], ""), marks_of(verdicts_of_unit(store, row.unit)))
            for row in listed
        ],
        "longest": max((row.steps for row in listed), default=0),
        "first": query.offset + 1,
        "last": query.offset + len(listed),
        "total": total,
        "query": query,
        "orders": tuple(ORDERS),
        "address": address,
        "arms": arms,
        "groups": tuple(group_values(store, phase)),
        # Whether there are draws to make figures of, and few enough of them.
        "drawable": not line.evaluation and line.counts and line.counts.continuations > 0 and not note,
    }


def arm_labels(store: Store) -> dict[str, str]:
    """The labels of an evaluation's arms, by key."""
    metadata = store.metadata
    return {metadata.arms[label]["key"]: label for label in metadata.arm_order}


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
