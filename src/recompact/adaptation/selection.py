"""Step 4: run each candidate end to end on the training tasks that compact most, and keep the best.

In go candidates and the collected trajectories, out comes the selection: highest pass rate, then fewest mean steps. The
original takes part as a reference and stays if no candidate beats it. No test task is ever used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from recompact.adaptation.revision import Candidate
from recompact.collection import run_task
from recompact.environments.protocol import Task
from recompact.execution.schedule import Unfinished, run_units
from recompact.store.runs import TrajectoryRow, trajectories
from recompact.store.store import Store
from recompact.study import Study
from recompact.template import Template

PHASE = "select"
ORIGINAL = "original"


@dataclass(frozen=True)
class Fit:
    """How one template did on the fit tasks."""

    name: str
    runs: int
    passed: int
    steps: float

    @property
    def rate(self) -> float:
        return self.passed / self.runs if self.runs else 0.0


@dataclass(frozen=True)
class Selection:
    """The table of the fit runs, and who won: a candidate's name, or the original's."""

    fits: tuple[Fit, ...]
    winner: str
    tasks: tuple[str, ...]

    @property
    def statement(self) -> str:
        by_name = {fit.name: fit for fit in self.fits}
        won, original = by_name[self.winner], by_name[ORIGINAL]
        shown = f"{won.passed} of {won.runs} runs passed in {won.steps:.1f} steps"
        if self.winner == ORIGINAL:
            return f"No candidate beat the original template on the fit tasks ({shown}): it is kept."
        return f"{self.winner} was selected: {shown}; the original passed {original.passed} in {original.steps:.1f}."


def fit_tasks(store: Store, count: int, seed: int) -> tuple[str, ...]:
    """The training tasks with the most compactions under the original template; ties by steps, then by seed."""
    rows = trajectories(store)

    def rank(row: TrajectoryRow) -> tuple[int, int, str]:
        return -row.compactions, -row.steps, hashlib.sha256(f"{seed}/{row.task}".encode()).hexdigest()

    return tuple(row.task for row in sorted(rows, key=rank)[:count])


async def select(
    study: Study,
    candidates: Sequence[Candidate],
    *,
    on_begin: Callable[[int, int], None] = lambda total, done: None,
    on_done: Callable[[], None] = lambda: None,
    on_step: Callable[[], None] = lambda: None,
) -> tuple[Selection, tuple[Unfinished, ...]]:
    """Run every valid candidate and the original on the fit tasks, and choose."""
    settings = study.config.adapt
    chosen = fit_tasks(study.store, settings.fit_tasks, study.config.run.seed)
    by_id = {task.id: task for task in await study.tasks()}
    templates = {ORIGINAL: study.template}
    templates |= {c.name: c.template for c in candidates if c.template is not None}
    units = {
        _unit(template, task, run): (template, by_id[task], run)
        for template in templates.values()
        for task in chosen
        for run in range(settings.fit_runs)
    }
    finished = study.store.finished("trajectory")
    on_begin(len(units), len(finished & units.keys()))

    async def work(unit: str, template: Template, task: Task, run: int) -> None:
        other = replace(study, template=template)
        await run_task(other, unit, task, phase=PHASE, run=run, snapshots=False, on_step=on_step)
        on_done()

    todo = ((unit, partial(work, unit, *what)) for unit, what in units.items() if unit not in finished)
    unfinished = await run_units(todo, study.config.run.concurrency)
    rows = {row.unit: row for row in trajectories(study.store, phase=PHASE)}
    fits = []
    for name, template in templates.items():
        made = [rows[u] for t in chosen for r in range(settings.fit_runs) if (u := _unit(template, t, r)) in rows]
        steps = fmean(row.steps for row in made) if made else 0.0
        fits.append(Fit(name, len(made), sum(row.success for row in made), steps))
    return Selection(tuple(fits), best(fits), chosen), tuple(unfinished)


def best(fits: Sequence[Fit]) -> str:
    """Highest pass rate, then fewest steps; the original where nobody is better than it.

    >>> best([Fit("original", 12, 8, 20.0), Fit("a", 12, 9, 25.0), Fit("b", 12, 9, 21.0)])
    'b'
    >>> best([Fit("original", 12, 9, 20.0), Fit("a", 12, 9, 20.0)])
    'original'
    """
    ranked = sorted(fits, key=lambda fit: (-fit.rate, fit.steps, fit.name != ORIGINAL))
    return ranked[0].name


def _unit(template: Template, task: str, run: int) -> str:
    """Named by the template's hash, so that two candidates with the same text are run once."""
    return f"{PHASE}/{template.hash[:16]}/{task}/{run}"
