"""Selection for candidates that rest on tested causes: runs are to refute them, not to crown one by luck.

As many runs as the paper's rule would take go to the few templates that there are, on training tasks that the agent can
solve at all. The first candidate is taken unless it is clearly worse than the original, or another one clearly better
than it; what it gains is stated with its interval: better, worse, or that these runs cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from recompact.adaptation.selection import (
    BROKEN,
    Cell,
    Rows,
    contestants,
    fit_of,
    fit_runs,
    fit_tasks,
    whole_cells,
)
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Selection
from recompact.values.stats import Estimate, student

RULE = "tested causes"


async def check(study: Study, candidates: Sequence[Candidate], under: str = "") -> Selection:
    """Run the candidates and the original on the same tasks, and keep the first unless the runs speak against it."""
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
        tuple(fit_of(name, rows[name], shared, cells) for name in templates),
        winner,
        tasks,
        RULE,
        tuple(map(str, excluded)),
        gain=(gain.value, gain.low, gain.high) if gain else None,
    )


def solvable_tasks(store: Store, most: int, seed: int) -> tuple[str, ...]:
    """The training tasks that were compacted and that some run or continuation solved, those with most compactions
    first: on the others no template can show anything."""
    solved = {row.task for row in trajectories(store) if row.success}
    solved |= {row.unit.partition("/")[2] for row in continuation_rows(store) if row.value > 0}
    compacted = {row.task for row in trajectories(store) if row.compactions and row.ending != BROKEN}
    ranked = fit_tasks(store, len(trajectories(store)), seed)
    return tuple(task for task in ranked if task in solved & compacted)[:most]


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
