"""The arms of an evaluation as a view: the report's tables and sentences for a group of tasks, and wins and losses."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.evaluate import unit_of
from recompact.report.content.runs import EvaluationReport, evaluated_run
from recompact.store.pages import group_values
from recompact.store.store import Store
from recompact.view.runs import RunLine, phase_of

LISTED = 200  # tasks in which two arms differ


@dataclass(frozen=True)
class TaskOutcome:
    """One task in two arms: which runs succeeded, with the unit of each."""

    task: str
    first: tuple[tuple[str, bool], ...]
    second: tuple[tuple[str, bool], ...]
    balance: int  # successes of the first more than of the second


@dataclass(frozen=True)
class ComparePage:
    """The arms side by side, and two of them task by task."""

    line: RunLine
    report: EvaluationReport | None
    problem: str  # why there is no report yet
    group: str
    groups: tuple[str, ...]
    first: str
    second: str
    arms: tuple[str, ...]
    differing: tuple[TaskOutcome, ...]
    hidden: int
    equal: int


def compare_page(store: Store, line: RunLine, group: str, first: str, second: str) -> ComparePage:
    """The comparison of an evaluation, for all tasks or those of one group."""
    if not line.evaluation:
        raise InputError(f"{store.path} is no evaluation: it has one arm only")
    groups = tuple(group_values(store, phase_of(store)))
    key, _, value = group.partition("=")
    try:
        report = evaluated_run(store, line.place.name, False, (key, value) if group in groups else None)
    except InputError as error:
        return ComparePage(line, None, str(error), group, groups, "", "", (), (), 0, 0)
    arms = {arm.label: arm for arm in report.evaluation.arms}
    labels = tuple(arms)
    chosen = first if first in arms else labels[-1]
    other = second if second in arms and second != chosen else next((name for name in labels if name != chosen), "")
    every = _outcomes(report, arms[chosen], arms[other]) if other else []
    differing = sorted((each for each in every if each.balance), key=lambda each: (-abs(each.balance), each.task))
    return ComparePage(
        line,
        report,
        "",
        group if group in groups else "",
        groups,
        chosen,
        other,
        labels,
        tuple(differing[:LISTED]),
        max(0, len(differing) - LISTED),
        len(every) - len(differing),
    )


def _outcomes(report: EvaluationReport, first: ArmRuns, second: ArmRuns) -> list[TaskOutcome]:
    shared = report.evaluation.shared
    outcomes = []
    for task in shared.tasks:
        sides = [_runs(arm, task, shared.runs) for arm in (first, second)]
        balance = sum(success for _, success in sides[0]) - sum(success for _, success in sides[1])
        outcomes.append(TaskOutcome(task, sides[0], sides[1], balance))
    return outcomes


def _runs(arm: ArmRuns, task: str, runs: int) -> tuple[tuple[str, bool], ...]:
    rows = arm.by_task()[task]
    return tuple((unit_of(arm.settings["key"], task, run), rows[run].success) for run in range(runs))
