"""Step 4: run each candidate end to end on the training tasks that compact most, and keep the best.

The original takes part as a reference and stays if no candidate beats it. No test task is ever used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from recompact.candidate import ORIGINAL, Candidate, Fit, Selection
from recompact.collection import trajectory_unit
from recompact.store.runs import TrajectoryRow, trajectories
from recompact.store.store import Store
from recompact.study import Study
from recompact.template import Template

PHASE = "select"


def fit_tasks(store: Store, count: int, seed: int) -> tuple[str, ...]:
    """The training tasks with the most compactions under the original template; ties by steps, then by seed."""
    rows = trajectories(store)

    def rank(row: TrajectoryRow) -> tuple[int, int, str]:
        return -row.compactions, -row.steps, hashlib.sha256(f"{seed}/{row.task}".encode()).hexdigest()

    return tuple(row.task for row in sorted(rows, key=rank)[:count])


async def select(study: Study, candidates: Sequence[Candidate]) -> Selection:
    """Run every valid candidate and the original on the fit tasks, and choose."""
    settings = study.config.adapt
    chosen = fit_tasks(study.store, settings.fit_tasks, study.config.run.seed)
    tasks = {task.id: task for task in await study.tasks()}
    templates = {ORIGINAL: study.template}
    templates |= {c.name: c.template for c in candidates if c.template is not None}
    units = {
        name: trajectory_unit(
            replace(study, template=template), name, tasks[task], phase=PHASE, run=run, snapshots=False
        )
        for template in templates.values()
        for task in chosen
        for run in range(settings.fit_runs)
        for name in [_unit(template, task, run)]
    }
    await study.complete("select", "trajectory", units.values())
    rows = {row.unit: row for row in trajectories(study.store, phase=PHASE)}
    fits = []
    for name, template in templates.items():
        runs = [rows[_unit(template, task, run)] for task in chosen for run in range(settings.fit_runs)]
        fits.append(Fit(name, len(runs), sum(row.success for row in runs), fmean(row.steps for row in runs)))
    return Selection(tuple(fits), best(fits), chosen)


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
