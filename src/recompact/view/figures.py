"""The report's figures as a view, for the tasks or boundaries that a filter leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from markupsafe import Markup

from recompact.report.figures.figure import available
from recompact.report.figures.sets import FigureSet, boundary_set
from recompact.report.html.page import drawn_figures, figure_gaps
from recompact.store.pages import TrajectoryQuery, matching_units
from recompact.store.runs import last_change
from recompact.store.store import Store
from recompact.view.run import judged
from recompact.view.runs import JUDGED, RunLine, phase_of

_DRAWING = Lock()  # matplotlib's settings belong to the whole process, and pages are made in threads


@dataclass(frozen=True)
class Drawings:
    """Figures with their titles and captions, and which are missing and why."""

    figures: tuple[tuple[str, str, Markup], ...] = ()
    gaps: tuple[tuple[str, str], ...] = ()
    drawable: bool = True  # false without matplotlib


def drawings(figure_set: Callable[[], FigureSet]) -> Drawings:
    """The figures of a set, drawn."""
    with _DRAWING:
        sets = (("", figure_set()),)
        return Drawings(tuple(drawn_figures(sets)), tuple(figure_gaps(sets)), available())


@dataclass(frozen=True)
class FiguresPage:
    """What the compactions of some trajectories did."""

    line: RunLine
    query: TrajectoryQuery
    drawings: Drawings
    boundaries: int
    problem: str = ""


def figures_page(store: Store, line: RunLine, query: TrajectoryQuery) -> FiguresPage:
    """The figures of the boundaries whose trajectories a query asks for."""
    boundaries = line.counts.boundaries if line.counts else 0
    if line.evaluation or boundaries > JUDGED:
        few = f"with {boundaries:,} boundaries, draw them with `recompact figures`"
        why = "those of an evaluation stand beside its arms" if line.evaluation else few
        return FiguresPage(line, query, Drawings(), 0, f"There are no figures here: {why}.")
    query = replace(query, phase=phase_of(store))
    count, drawn = _boundary_drawings(str(store.path), last_change(store.path), query, line.simulated)
    return FiguresPage(line, query, drawn, count)


@lru_cache(maxsize=8)
def _boundary_drawings(path: str, changed: float, query: TrajectoryQuery, simulated: bool) -> tuple[int, Drawings]:
    with Store.read(Path(path)) as store:
        every, units = judged(store), matching_units(store, query)
    chosen = tuple(finding for finding in every.boundaries if finding.id.unit in units)
    return len(chosen), drawings(lambda: boundary_set(path, replace(every, boundaries=chosen), simulated))
