"""Step 4: run each candidate end to end on the training tasks that compact most, and keep the best.

The original takes part as a reference and stays if no candidate beats it. No test task is ever used. A run that its
environment broke says nothing about a template: it is retried, and then left out for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from recompact.adaptation.method import Method
from recompact.engine.collection import trajectory_unit
from recompact.engine.execution.scheduler import Unit
from recompact.engine.shared_starts import SharedStart, can_share, play_starts
from recompact.engine.store.runs import BROKEN, TrajectoryRow, continuation_rows, failed_compactions, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Fit, Selection
from recompact.values.stats import Estimate, student
from recompact.values.tables import Number, Table, columns
from recompact.values.template import Template
from recompact.values.trajectory import Trajectory

PHASE = "select"
TESTED = "tested causes"
CAVEAT = "Training tasks with the most compactions. A template is selected here, so this is no evidence that it helps."


async def choose(study: Study, candidates: Sequence[Candidate], method: Method | None = None) -> Selection:
    """Select by the paper's rule; runs only check candidates that rest on tested causes.

    A method that already selected along the way gets fresh runs: those that made a winner win would flatter it.
    """
    under = f"{method.name}/" if method and method.reselects else ""
    return await (check if method and method.tested else select)(study, candidates, under)


def fit_tasks(store: Store, count: int, seed: int) -> tuple[str, ...]:
    """The training tasks with the most compactions under the original template; ties by steps, then by seed."""
    rows = [row for row in trajectories(store) if row.ending != BROKEN]

    def rank(row: TrajectoryRow) -> tuple[int, int, str]:
        return -row.compactions, -row.steps, hashlib.sha256(f"{seed}/{row.task}".encode()).hexdigest()

    return tuple(row.task for row in sorted(rows, key=rank)[:count])


def solvable_tasks(store: Store, most: int, seed: int) -> tuple[str, ...]:
    """The training tasks that were compacted and that some run or continuation solved, those with most compactions
    first: on the others no template can show anything."""
    solved = {row.task for row in trajectories(store) if row.success}
    solved |= {row.unit.partition("/")[2] for row in continuation_rows(store) if row.value > 0}
    compacted = {row.task for row in trajectories(store) if row.compactions and row.ending != BROKEN}
    ranked = fit_tasks(store, len(trajectories(store)), seed)
    return tuple(task for task in ranked if task in solved & compacted)[:most]


@dataclass(frozen=True, order=True)
class Cell:
    """One run of one fit task, the same for every template."""

    task: str
    run: int

    def __str__(self) -> str:
        return f"{self.task}, run {self.run}"


Rows = Mapping[Cell, TrajectoryRow]


async def select(study: Study, candidates: Sequence[Candidate], under: str = "") -> Selection:
    """The paper's rule: every valid candidate and the original on all fit tasks.

    `under` names another selection in the same run, with its own runs.
    """
    settings = study.config.adapt
    tasks = fit_tasks(study.store, settings.fit_tasks, study.config.run.seed)
    templates = contestants(study, candidates)
    cells = [Cell(task, run) for task in tasks for run in range(settings.fit_runs)]
    rows = await fit_runs(study, templates, cells, under)
    shared, excluded = whole_cells(rows, cells)
    fits = [fit_of(study.store, name, rows[name], shared, cells) for name in templates]
    return Selection(tuple(fits), best(fits), tasks, excluded=tuple(map(str, excluded)))


async def check(study: Study, candidates: Sequence[Candidate], under: str = "") -> Selection:
    """The rule for candidates that rest on tested causes: runs are to refute them, not to crown one by luck.

    As many runs as the paper's rule would take go to the few templates that there are, on training tasks that the agent
    can solve at all. The first candidate is taken unless it is clearly worse than the original, or another one clearly
    better than it; what it gains is stated with its interval: better, worse, or that these runs cannot tell.
    """
    settings = study.config.adapt
    templates = contestants(study, candidates)
    runs = (1 + settings.candidates) * settings.fit_tasks * settings.fit_runs // len(templates)
    tasks = solvable_tasks(study.store, runs, study.config.run.seed)
    cells = [Cell(tasks[number % len(tasks)], number // len(tasks)) for number in range(runs)] if tasks else []
    rows = await fit_runs(study, templates, cells, f"{under}check/")
    shared, excluded = whole_cells(rows, cells)
    first, *others = [name for name in templates if name != ORIGINAL]
    winner = first
    for name in others:
        ahead = difference(rows[name], rows[winner], shared)
        if ahead is not None and ahead.low > 0:
            winner = name
    gain = difference(rows[winner], rows[ORIGINAL], shared)
    if not shared or (gain is not None and gain.high < 0):
        winner = ORIGINAL
    return Selection(
        tuple(fit_of(study.store, name, rows[name], shared, cells) for name in templates),
        winner,
        tasks,
        TESTED,
        tuple(map(str, excluded)),
        gain=(gain.value, gain.low, gain.high) if gain else None,
    )


def contestants(study: Study, candidates: Sequence[Candidate]) -> dict[str, Template]:
    """The templates by name, the original first."""
    return {ORIGINAL: study.template, **{c.name: c.template for c in candidates if c.template is not None}}


async def fit_runs(
    study: Study, templates: Mapping[str, Template], cells: Sequence[Cell], under: str = ""
) -> dict[str, Rows]:
    """The runs of each template; those that an environment broke are tried again."""
    tasks = {task.id: task for task in await study.tasks()}
    named = {(t.hash, cell): _unit(t, cell, under) for t in templates.values() for cell in cells}
    finished, budget = study.store.finished("trajectory"), study.config.compressor.budget
    starts: dict[str, SharedStart] = {}
    if can_share(study):
        for (_, cell), name in named.items():
            if name not in finished:
                starts[name] = SharedStart(f"{PHASE}/{under}".rstrip("/"), budget, tasks[cell.task], cell.run)
    usable = await play_starts(study, starts.values()) if starts else frozenset[str]()
    units = [
        trajectory_unit(
            replace(study, template=template),
            name,
            tasks[cell.task],
            phase=PHASE,
            run=cell.run,
            snapshots=False,
            start=starts[name].name if name in starts and starts[name].name in usable else "",
        )
        for template in {t.hash: t for t in templates.values()}.values()
        for cell in cells
        for name in [named[template.hash, cell]]
    ]
    rows = await runs_of(study, PHASE, units)
    return {name: {cell: rows[named[t.hash, cell]] for cell in cells} for name, t in templates.items()}


async def runs_of(study: Study, phase: str, units: Sequence[Unit[Trajectory]]) -> dict[str, TrajectoryRow]:
    """Runs by the names of their units; those that an environment broke are tried again."""
    for attempt in range(1 + study.config.adapt.fit_retries):
        await study.complete(phase, "trajectory", units)
        rows = {row.unit: row for row in trajectories(study.store, phase=phase)}
        broken = [unit.name for unit in units if rows[unit.name].ending == BROKEN]
        if not broken or attempt == study.config.adapt.fit_retries:
            break
        for name in broken:
            study.store.reopen(name)
    return rows


def whole_cells(rows: Mapping[str, Rows], cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells in which no template's environment broke, and the others: templates are compared on the same runs."""
    broken = {cell for own in rows.values() for cell in cells if own[cell].ending == BROKEN}
    return [cell for cell in cells if cell not in broken], sorted(broken)


def fit_of(store: Store, name: str, rows: Rows, shared: Sequence[Cell], cells: Sequence[Cell]) -> Fit:
    """How a template did on the cells that count."""
    runs = [rows[cell] for cell in shared]
    steps = fmean(row.steps for row in runs) if runs else 0.0
    broken = sum(rows[cell].ending == BROKEN for cell in cells)
    failed = failed_compactions(store, runs).number
    return Fit(name, len(runs), sum(row.success for row in runs), steps, broken, failed)


def difference(one: Rows, other: Rows, cells: Sequence[Cell]) -> Estimate | None:
    """How much more often one template succeeds than another, task by task; None where there is too little to say."""
    by_task: dict[str, list[float]] = {}
    for cell in cells:
        by_task.setdefault(cell.task, []).append(one[cell].value - other[cell].value)
    means = [fmean(own) for own in by_task.values()]
    if len(means) < 2:
        return None
    error = stdev(means) / len(means) ** 0.5
    value = fmean(means)
    return student(value, error, len(means) - 1) if error else Estimate(value, value, value)


def best(fits: Sequence[Fit]) -> str:
    """Highest pass rate, then fewest steps; the original where none is better.

    >>> best([Fit("original", 12, 8, 20.0), Fit("a", 12, 9, 25.0), Fit("b", 12, 9, 21.0)])
    'b'
    >>> best([Fit("original", 12, 9, 20.0), Fit("a", 12, 9, 20.0)])
    'original'
    """
    ranked = sorted(fits, key=lambda fit: (-fit.rate, fit.steps, fit.name != ORIGINAL))
    return ranked[0].name


def _unit(template: Template, cell: Cell, under: str) -> str:
    """Named by the template's hash, so that two candidates with the same text are run once."""
    return f"{PHASE}/{under}{template.hash[:16]}/{cell.task}/{cell.run}"


def fit_table(selection: Selection) -> Table:
    """One row for each template."""
    fits = [(fit.name, fit) for fit in selection.fits]
    more = [key for key in ("broken", "failed") if any(getattr(fit, key) for _, fit in fits)]
    heads = ("template", "runs", "passed", "mean steps", *more)
    rows = tuple(
        (name, fit.runs, fit.passed, Number(fit.steps), *(getattr(fit, key) for key in more)) for name, fit in fits
    )
    return Table("Selection on the fit tasks", columns(*heads, failed="failed compactions"), rows, (CAVEAT,))
