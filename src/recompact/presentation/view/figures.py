"""The report's figures as a view, for the tasks or the trajectories that a filter leaves.

Drawing takes time, so pages link here and, where scripts run, fetch the figures once everything else is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from markupsafe import Markup

from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.pages import TrajectoryQuery, matching_units
from recompact.engine.store.runs import last_change
from recompact.engine.store.store import Store
from recompact.presentation.report.figures.figure import available
from recompact.presentation.report.figures.sets import FigureSet, boundary_set, evaluation_set
from recompact.presentation.report.html.page import drawn_figures, figure_gaps
from recompact.presentation.view.compare import CompareQuery, compare_tasks, known_query
from recompact.presentation.view.runs import RunLine
from recompact.presentation.view.verdicts import JUDGED, open_moment, phase_of
from recompact.values.texts import quantity

_DRAWING = Lock()  # matplotlib's settings belong to the whole process, and pages are made in threads


@dataclass(frozen=True)
class Drawings:
    """Figures with their titles and captions, and which are missing and why."""

    figures: tuple[tuple[str, str, Markup], ...] = ()
    gaps: tuple[tuple[str, str], ...] = ()
    drawable: bool = True  # false without matplotlib


@dataclass(frozen=True)
class FiguresPage:
    """Figures, and their subject in words."""

    line: RunLine
    subject: str
    drawings: Drawings = field(default_factory=Drawings)
    problem: str = ""
    by_outcome: bool = False  # tasks were chosen by how they came out


def arm_figures(store: Store, line: RunLine, query: CompareQuery) -> FiguresPage:
    """The figures of an evaluation, for the tasks that a query asks for."""
    query = known_query(store, query)
    title, drawn = _of_arms(str(store.path), last_change(store.path), line.place.name, query)
    return FiguresPage(line, title, drawn, by_outcome=bool(query.outcome))


@lru_cache(maxsize=8)
def _of_arms(path: str, changed: float, name: str, query: CompareQuery) -> tuple[str, Drawings]:
    report = compare_tasks(path, changed, name, query)
    return report.evaluation.title, _draw(lambda: evaluation_set(path, report.evaluation))


def boundary_figures(store: Store, line: RunLine, query: TrajectoryQuery) -> FiguresPage:
    """The figures of the boundaries whose trajectories a query asks for."""
    count = line.counts.boundaries if line.counts else 0
    if count > JUDGED:
        return FiguresPage(line, "", problem=f"With {count:,} boundaries, draw the figures with `recompact figures`.")
    query = replace(query, phase=phase_of(store))
    chosen, drawn = _of_boundaries(str(store.path), last_change(store.path), query, line.simulated)
    words = [quantity(chosen, "boundary"), query.task and f"task like {query.task!r}", query.group]
    words.append(query.outcome and f"trajectory with {query.outcome}")
    return FiguresPage(line, ", ".join(filter(None, words)), drawn)


@lru_cache(maxsize=8)
def _of_boundaries(path: str, changed: float, query: TrajectoryQuery, simulated: bool) -> tuple[int, Drawings]:
    with open_moment(Path(path)) as store:
        every, units = read_verdicts(store), matching_units(store, query)
    chosen = tuple(verdict for verdict in every.verdicts if verdict.id.unit in units)
    return len(chosen), _draw(lambda: boundary_set(path, replace(every, verdicts=chosen), simulated))


def _draw(figure_set: Callable[[], FigureSet]) -> Drawings:
    with _DRAWING:
        sets = (("", figure_set()),)
        return Drawings(tuple(drawn_figures(sets)), tuple(figure_gaps(sets)), available())
