"""The arms of an evaluation as a view: the report's tables, sentences and figures, for the tasks of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from markupsafe import Markup

from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.pages import TrajectoryQuery, group_values, matching_units
from recompact.engine.store.runs import last_change
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.evaluate import unit_of
from recompact.evaluation.metrics import group_tasks
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.runs import EvaluationReport, evaluated_run
from recompact.presentation.report.figures.drawing import available
from recompact.presentation.report.figures.sets import FigureSet, boundary_set, evaluation_set
from recompact.presentation.report.html.page import drawn_figures, figure_gaps
from recompact.presentation.view.runs import Page, Parameters, RunLine, filter_in, text_in
from recompact.presentation.view.verdicts import JUDGED, open_moment, phase_of
from recompact.values.texts import quantity

_DRAWING = Lock()  # matplotlib's settings belong to the whole process, and pages are made in threads
BY_OUTCOME = (
    "You chose these tasks by their outcome. The figures hold for them alone and do not compare the arms, so no"
    " difference is marked here."
)
LISTED = 200  # tasks in which two arms differ
OUTCOMES = {
    "differ": "with different numbers of successes in the two arms",
    "first": "with more successes in the first arm",
    "second": "with more successes in the second arm",
}
"""The outcomes by which tasks can be chosen."""


@dataclass(frozen=True)
class CompareQuery:
    """Which tasks are wanted, and which two arms are set side by side task by task."""

    group: str = ""  # key=value
    task: str = ""  # contained in its name
    outcome: str = ""
    first: str = ""
    second: str = ""


@dataclass(frozen=True)
class TaskOutcome:
    """One task in two arms: which runs succeeded, with the unit of each."""

    task: str
    first: tuple[tuple[str, bool], ...]
    second: tuple[tuple[str, bool], ...]
    balance: int  # successes of the first minus those of the second


def compare_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The arms of an evaluation side by side, and two of them task by task."""
    if not line.evaluation:
        raise InputError(f"{store.path} is not an evaluation: it has only one arm")
    groups, labels = group_values(store, phase_of(store)), store.metadata.arm_order
    query = _query_in(parameters, groups, labels)
    page: dict[str, Any] = {"query": query, "groups": groups, "arms": labels, "outcomes": OUTCOMES}
    page |= {"filter": _filled_parameters(parameters), "chosen_by_outcome": BY_OUTCOME}
    page |= {"report": None, "problem": "", "differing": (), "hidden": 0, "equal": 0}
    try:
        report = compare_tasks(str(store.path), last_change(store.path), line.place.name, query)
    except InputError as error:
        return "compare.html.jinja", {**page, "problem": str(error)}
    arms = {arm.label: arm for arm in report.evaluation.arms}
    both = query.first in arms and query.second in arms
    every = _outcomes(report.evaluation, arms[query.first], arms[query.second]) if both else []
    differing = sorted((each for each in every if each.balance), key=lambda each: (-abs(each.balance), each.task))
    hidden, equal = max(0, len(differing) - LISTED), len(every) - len(differing)
    page |= {"report": report, "differing": differing[:LISTED], "hidden": hidden, "equal": equal}
    return "compare.html.jinja", page


def _filled_parameters(parameters: Parameters) -> dict[str, str]:
    """What the address asks for, to link to another view of the same."""
    keys = ("task", "arm", "outcome", "group", "first", "second")
    return {key: text for key in keys if (text := text_in(parameters, key))}


def _query_in(parameters: Parameters, groups: Sequence[str], labels: Sequence[str]) -> CompareQuery:
    """What an address asks for, without what does not exist, and with two arms to set side by side where there are
    two."""
    keys = ("group", "task", "outcome", "first", "second")
    group, task, outcome, first, second = (text_in(parameters, key) for key in keys)
    first = first if first in labels else labels[-1] if labels else ""
    others = [label for label in labels if label != first]
    second = second if second in others else others[0] if others else ""
    outcome = outcome if outcome in OUTCOMES and second else ""
    return CompareQuery(group if group in groups else "", task.strip(), outcome, first, second)


@lru_cache(maxsize=16)
def compare_tasks(path: str, changed: float, name: str, query: CompareQuery) -> EvaluationReport:
    """The report about the tasks of a query, recomputed only when the file has changed."""

    def choose(evaluation: Evaluation) -> tuple[str, Sequence[str]]:
        words, tasks = _choose_tasks(evaluation, query)
        if words and not tasks:
            raise InputError(f"no task that every arm has finished matches: {words}")
        return words, tasks

    with open_moment(Path(path)) as store:
        return evaluated_run(store, name, False, choose)


def _choose_tasks(evaluation: Evaluation, query: CompareQuery) -> tuple[str, Sequence[str]]:
    """The words that say which tasks a query asks for, and those tasks; no words for all of them."""
    tasks, words = list(evaluation.shared.tasks), []
    if query.group:
        key, _, value = query.group.partition("=")
        tasks, words = list(group_tasks(evaluation.arms, tasks, key).get(value, ())), [f"{key} {value}"]
    if query.task:
        tasks = [task for task in tasks if query.task.lower() in task.lower()]
        words.append(f"named like {query.task!r}")
    arms = {arm.label: arm for arm in evaluation.arms}
    if query.outcome and query.first in arms and query.second in arms:
        balances = {each.task: each.balance for each in _outcomes(evaluation, arms[query.first], arms[query.second])}
        signs = {"differ": (-1, 1), "first": (1,), "second": (-1,)}[query.outcome]
        tasks = [task for task in tasks if (balances[task] > 0) - (balances[task] < 0) in signs]
        words.append(OUTCOMES[query.outcome])
    return ", ".join(words), tasks


def _outcomes(evaluation: Evaluation, first: ArmRuns, second: ArmRuns) -> list[TaskOutcome]:
    """How each task came out in two arms."""
    shared, rows = evaluation.shared, [(arm.settings["key"], arm.by_task()) for arm in (first, second)]
    outcomes = []
    for task in shared.tasks:
        sides = [
            tuple((unit_of(key, task, run), tasks[task][run].success) for run in range(shared.runs))
            for key, tasks in rows
        ]
        balance = sum(success for _, success in sides[0]) - sum(success for _, success in sides[1])
        outcomes.append(TaskOutcome(task, sides[0], sides[1], balance))
    return outcomes


# --- figures: drawing takes time, so pages link here and, where scripts run, fetch them once all else is there


Drawings = tuple[bool, tuple[tuple[str, str, Markup], ...], tuple[tuple[str, str], ...]]
"""Whether matplotlib is there, figures with their titles and captions, and which are missing and why."""


def figures_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The report's figures of what the list that links here shows, so the address has the same filter."""
    page: dict[str, Any] = {"filter": _filled_parameters(parameters), "chosen_by_outcome": BY_OUTCOME, "problem": ""}
    path, changed = str(store.path), last_change(store.path)
    if line.evaluation:
        groups, labels = group_values(store, phase_of(store)), store.metadata.arm_order
        query = _query_in(parameters, groups, labels)
        subject, drawings = _of_arms(path, changed, line.place.name, query)
        page["by_outcome"] = bool(query.outcome)
    else:
        count = line.counts.boundaries if line.counts else 0
        if count > JUDGED:
            problem = f"With {count:,} boundaries, draw the figures with `recompact figures`."
            return "figures.html.jinja", {**page, "problem": problem}
        subject, drawings = _of_boundaries(
            path, changed, replace(filter_in(parameters), phase=phase_of(store)), line.simulated
        )
        page["by_outcome"] = False
    return "figures.html.jinja", {**page, "subject": subject, "drawings": drawings}


@lru_cache(maxsize=8)
def _of_arms(path: str, changed: float, name: str, query: CompareQuery) -> tuple[str, Drawings]:
    report = compare_tasks(path, changed, name, query)
    return report.evaluation.title, _draw(lambda: evaluation_set(path, report.evaluation))


@lru_cache(maxsize=8)
def _of_boundaries(path: str, changed: float, query: TrajectoryQuery, simulated: bool) -> tuple[str, Drawings]:
    """The figures of the boundaries whose trajectories a query asks for, and which these are in words."""
    with open_moment(Path(path)) as store:
        every, units = read_verdicts(store), matching_units(store, query)
    chosen = tuple(verdict for verdict in every.verdicts if verdict.id.unit in units)
    words = [quantity(len(chosen), "boundary"), query.task and f"task like {query.task!r}", query.group]
    words.append(query.outcome and f"trajectory with {query.outcome}")
    drawings = _draw(lambda: boundary_set(path, replace(every, verdicts=chosen), simulated))
    return ", ".join(filter(None, words)), drawings


def _draw(figure_set: Callable[[], FigureSet]) -> Drawings:
    with _DRAWING:
        sets = (("", figure_set()),)
        return available(), tuple(drawn_figures(sets)), tuple(figure_gaps(sets))
