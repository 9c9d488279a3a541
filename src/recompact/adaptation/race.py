"""Selection with power: clauses that close nothing are dropped, the others race, and the winner is measured afresh.

A race spends at most as many runs as the paper's rule would, and the last measurement comes on top. All templates still
in it run on the same tasks; a candidate that is clearly behind the leader leaves, and the runs that this saves go to
those that stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from recompact.adaptation.checking import check
from recompact.adaptation.method import Method
from recompact.adaptation.pruning import prune
from recompact.adaptation.selection import (
    BROKEN,
    Cell,
    Rows,
    best,
    contestants,
    fit_of,
    fit_runs,
    fit_tasks,
    select,
    whole_cells,
)
from recompact.engine.store.runs import TrajectoryRow
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Fit, Selection
from recompact.values.stats import student
from recompact.values.template import Template

HEAT = 4  # tasks that are run before the standings are looked at
WRONGLY = 0.05  # how probably, at each look, a template that is as good as all others may be sent away


async def choose(
    study: Study, candidates: Sequence[Candidate], method: Method | None = None
) -> tuple[tuple[Candidate, ...], Selection]:
    """Select by the rule that the config names: the candidates as they took part, and the selection.

    A method that already selected along the way gets fresh runs: those that made a winner win would flatter it. Runs
    only check candidates that rest on tested causes, unless the config asks for a race.
    """
    under = f"{method.name}/" if method and method.reselects else ""
    if study.config.adapt.selection == "racing":
        return await race(study, candidates, under)
    if method and method.tested:
        return tuple(candidates), await check(study, candidates, under)
    return tuple(candidates), await select(study, candidates, under)


async def race(
    study: Study, candidates: Sequence[Candidate], under: str = ""
) -> tuple[tuple[Candidate, ...], Selection]:
    """Prune, race, and run the winner again on fresh seeds."""
    settings = study.config.adapt
    pruned = await prune(study, candidates)
    tasks = fit_tasks(study.store, settings.fit_tasks, study.config.run.seed)
    templates = contestants(study, pruned.candidates)
    allowed = len(contestants(study, candidates)) * len(tasks) * settings.fit_runs
    course = _Course(study, templates, tasks, f"{under}race/")
    await course.run(allowed)
    fits, excluded = course.fits(), course.excluded()
    staying = [fit for fit in fits if fit.name in course.staying]
    winner = best(staying) if any(fit.runs for fit in staying) else ORIGINAL
    confirmed: tuple[Fit, ...] = ()
    excluded_fresh: tuple[str, ...] = ()
    if winner != ORIGINAL:
        finalists = {ORIGINAL: templates[ORIGINAL], winner: templates[winner]}
        cells = [Cell(task, run) for task in tasks for run in range(settings.fit_runs)]
        rows = await fit_runs(study, finalists, cells, f"{under}confirm/")
        shared, broken = whole_cells(rows, cells)
        confirmed = tuple(fit_of(name, rows[name], shared, cells) for name in finalists)
        excluded_fresh = tuple(map(str, broken))
    notes = (*pruned.notes, *course.notes)
    selection = Selection(
        tuple(fits), winner, tasks, "racing", tuple(map(str, excluded)), confirmed, notes, excluded_fresh
    )
    return pruned.candidates, selection


@dataclass
class _Course:
    """A race that is under way: who is still in it, and the runs so far."""

    study: Study
    templates: Mapping[str, Template]
    tasks: Sequence[str]
    under: str
    rows: dict[str, dict[Cell, TrajectoryRow]] = field(default_factory=dict)
    staying: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    async def run(self, allowed: int) -> None:
        """Heat by heat, until the runs are spent or there is nothing left to compare."""
        self.staying, self.rows = list(self.templates), {name: {} for name in self.templates}
        spent = turn = 0
        while len(self.staying) > 1 and self.tasks:
            heat = [Cell(task, turn) for task in self._heat(spent_cells=len(self.rows[ORIGINAL]))]
            if spent + len(heat) * len(self.staying) > allowed:
                break
            running = {name: self.templates[name] for name in self.staying}
            for name, rows in (await fit_runs(self.study, running, heat, self.under)).items():
                self.rows[name].update(rows)
            spent += len(heat) * len(self.staying)
            turn = len(self.rows[ORIGINAL]) // len(self.tasks)
            self._send_away()

    def _heat(self, spent_cells: int) -> Sequence[str]:
        """The next tasks of this round; the last heat of a round may be short."""
        at = spent_cells % len(self.tasks)
        return self.tasks[at : at + HEAT]

    def _send_away(self) -> None:
        fits = {fit.name: fit for fit in self.fits() if fit.name in self.staying}
        leader, rivals = best(list(fits.values())), len(fits) - 1
        for name in list(self.staying):
            if name not in (leader, ORIGINAL) and behind(self.rows[leader], self.rows[name], rivals):
                self.staying.remove(name)
                self.notes.append(f"{name} left the race after {fits[name].words}.")

    def fits(self) -> list[Fit]:
        """Each template on the cells that it ran and in which no other's environment broke."""
        fits = []
        for name, own in self.rows.items():
            cells = list(own)
            beside = {other: rows for other, rows in self.rows.items() if rows.keys() >= own.keys()}
            shared, _ = whole_cells(beside, cells)
            fits.append(fit_of(name, own, shared, cells))
        return fits

    def excluded(self) -> list[Cell]:
        return sorted({cell for own in self.rows.values() for cell, row in own.items() if row.ending == BROKEN})


def behind(leader: Rows, other: Rows, rivals: int = 1) -> bool:
    """Whether a template is clearly behind, by its differences from the leader task by task.

    Any of its rivals may lead by luck, so the more there are, the clearer the difference has to be (Bonferroni).
    """
    by_task: dict[str, list[float]] = {}
    for cell in leader.keys() & other.keys():
        if BROKEN not in (leader[cell].ending, other[cell].ending):
            by_task.setdefault(cell.task, []).append(leader[cell].value - other[cell].value)
    differences = [fmean(by_task[task]) for task in sorted(by_task)]
    if len(differences) < 2:
        return False
    error = stdev(differences) / len(differences) ** 0.5
    if not error:
        return differences[0] > 0
    confidence = 1 - 2 * WRONGLY / max(1, rivals)  # two-sided, of which one side is looked at
    return student(fmean(differences), error, len(differences) - 1, confidence).low > 0
