"""The arms of an evaluation as a view: the report's tables, sentences and figures, for the tasks of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from recompact.engine.store.pages import group_values
from recompact.engine.store.runs import last_change
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.evaluate import unit_of
from recompact.evaluation.metrics import group_tasks
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.runs import EvaluationReport, evaluated_run
from recompact.presentation.view.runs import RunLine
from recompact.presentation.view.verdicts import open_moment, phase_of

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


@dataclass(frozen=True)
class ComparePage:
    """The arms side by side, and two of them task by task."""

    line: RunLine
    query: CompareQuery  # with what was filled in
    groups: tuple[str, ...]
    report: EvaluationReport | None = None
    problem: str = ""  # why there is no report
    arms: tuple[str, ...] = ()
    differing: tuple[TaskOutcome, ...] = ()
    hidden: int = 0
    equal: int = 0


def compare_page(store: Store, line: RunLine, query: CompareQuery) -> ComparePage:
    """The comparison of an evaluation, for all tasks or those that the query asks for."""
    if not line.evaluation:
        raise InputError(f"{store.path} is not an evaluation: it has only one arm")
    groups = tuple(group_values(store, phase_of(store)))
    labels = tuple(store.metadata.arm_order)
    query = _restrict_query(query, groups, labels)
    try:
        report = compare_tasks(str(store.path), last_change(store.path), line.place.name, query)
    except InputError as error:
        return ComparePage(line, query, groups, problem=str(error), arms=labels)
    arms = {arm.label: arm for arm in report.evaluation.arms}
    both = query.first in arms and query.second in arms
    every = _outcomes(report.evaluation, arms[query.first], arms[query.second]) if both else []
    differing = sorted((each for each in every if each.balance), key=lambda each: (-abs(each.balance), each.task))
    return ComparePage(
        line,
        query,
        groups,
        report,
        arms=labels,
        differing=tuple(differing[:LISTED]),
        hidden=max(0, len(differing) - LISTED),
        equal=len(every) - len(differing),
    )


def known_query(store: Store, query: CompareQuery) -> CompareQuery:
    """The query as far as it is about what the evaluation has."""
    return _restrict_query(query, group_values(store, phase_of(store)), store.metadata.arm_order)


def _restrict_query(query: CompareQuery, groups: Sequence[str], labels: Sequence[str]) -> CompareQuery:
    """The query without what does not exist, and with two arms to set side by side where there are two."""
    first = query.first if query.first in labels else labels[-1] if labels else ""
    others = [label for label in labels if label != first]
    second = query.second if query.second in others else others[0] if others else ""
    group = query.group if query.group in groups else ""
    outcome = query.outcome if query.outcome in OUTCOMES and second else ""
    return CompareQuery(group, query.task.strip(), outcome, first, second)


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
