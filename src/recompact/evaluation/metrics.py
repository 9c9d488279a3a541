"""The metrics of an arm: success, reliability across runs, steps, context, tokens.

Every metric is the mean of one value per task. Tables show the means and `paired` resamples the same values, so the two
can never disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import comb
from statistics import fmean, stdev
from typing import Any, Literal

from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.chat import Usage

PeakSource = Literal["provider", "own counter"]
Unit = Literal["points", "steps", "thousand tokens", "compactions", "violations"]

TOTAL = ("agent", "compressor")
"""Whose tokens make up the total, as in the paper. What an environment asks for (a simulated user) is kept apart."""


@dataclass(frozen=True)
class Metric:
    """What a metric is called and how it is read. `better` says which way is better."""

    key: str
    title: str
    unit: Unit
    better: Literal["more", "less"]

    @property
    def scale(self) -> float:
        """The factor from the value to the figure in a table."""
        return {"points": 100.0, "thousand tokens": 0.001}.get(self.unit, 1.0)

    @property
    def digits(self) -> int:
        return {"thousand tokens": 2 if self.key in ("peak", "context") else 1, "compactions": 2, "violations": 2}.get(
            self.unit, 1
        )


def metric(key: str) -> Metric:
    """How a metric is read, by its key: `acc`, `pass^3`, `pass@3`, `steps`, `peak`, `tokens`, `tokens.agent`, ..."""
    fixed = {
        "acc": Metric(key, "Acc", "points", "more"),
        "em": Metric(key, "EM", "points", "more"),
        "f1": Metric(key, "F1", "points", "more"),
        "violations": Metric(key, "Violations", "violations", "less"),
        "steps": Metric(key, "Steps", "steps", "less"),
        "peak": Metric(key, "Peak", "thousand tokens", "less"),
        "context": Metric(key, "Context", "thousand tokens", "less"),
        "compactions": Metric(key, "Compactions", "compactions", "less"),
        "tokens": Metric(key, "Tokens", "thousand tokens", "less"),
        "cached": Metric(key, "cached", "thousand tokens", "more"),
    }
    if key in fixed:
        return fixed[key]
    if key.startswith("tokens."):
        return Metric(key, f"Tokens, {key.removeprefix('tokens.')}", "thousand tokens", "less")
    name, power = key.split("^") if "^" in key else key.split("@")
    title = {"pass": "Pass", "em": "EM"}[name]
    return Metric(key, f"{title}{key[len(name)]}{power}", "points", "more")


@dataclass(frozen=True)
class Metrics:
    """An arm in figures, over `tasks` and `runs`. Rates are shares of one; peaks and tokens are in single tokens."""

    tasks: int
    runs: int
    means: Mapping[str, float]
    spread: Mapping[str, float]  # sample standard deviation of the runs' own means; empty for a single run
    by_run: Mapping[str, tuple[float, ...]]
    usage: Mapping[str, Mapping[str, float]]  # role -> input, cached, output: tokens per task and run
    endings: Mapping[str, int]
    peak_source: PeakSource

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return {"tasks": self.tasks, "runs": self.runs, **values.pop("means"), **values}


def pass_all(successes: int, runs: int, k: int) -> float:
    """Pass^k of one task: the chance that k of its runs, drawn without replacement, all succeed.

    Unbiased for the chance that k fresh runs all succeed; with k = runs it is whether all did.

    >>> [pass_all(2, 3, k) for k in (1, 2, 3)]
    [0.6666666666666666, 0.3333333333333333, 0.0]
    """
    return comb(successes, k) / comb(runs, k)


def pass_any(successes: int, runs: int, k: int) -> float:
    """Pass@k of one task: the chance that at least one of k of its runs succeeds.

    >>> [pass_any(1, 3, k) for k in (1, 2, 3)]
    [0.33333333333333337, 0.6666666666666667, 1.0]
    """
    return 1 - comb(runs - successes, k) / comb(runs, k)


def reliability(runs: int) -> str:
    """The metric that says how reliable an arm is: with a single run Pass^k says no more than Acc."""
    return f"pass^{runs}" if runs > 1 else "acc"


def peak_source(arms: Sequence[ArmRuns]) -> PeakSource:
    """Whose count of the peak is used for all these arms: the provider's, if every trajectory that took a step has one.

    Two counters are never mixed in one table: their difference would look like one between arms.
    """
    rows = [row for arm in arms for row in arm.rows if row.steps]
    return "provider" if rows and all(row.peak_reported for row in rows) else "own counter"


def per_task(arm: ArmRuns, tasks: Sequence[str], runs: int, source: PeakSource) -> dict[str, tuple[float, ...]]:
    """For every metric, the value of each task over its first `runs` runs."""
    by_task = arm.by_task()
    rows = [[by_task[task][run] for run in range(runs)] for task in tasks]
    successes = [sum(row.success for row in task_rows) for task_rows in rows]
    metrics: dict[str, list[float]] = {"acc": [n / runs for n in successes]}
    for k in range(2, runs + 1):
        metrics[f"pass^{k}"] = [pass_all(n, runs, k) for n in successes]
    for k in range(2, runs + 1):
        metrics[f"pass@{k}"] = [pass_any(n, runs, k) for n in successes]
    for key, value in _per_run([row for task_rows in rows for row in task_rows], source).items():
        if key != "acc":
            metrics[key] = [fmean(value(row) for row in task_rows) for task_rows in rows]
        if key == "em":
            metrics |= _exact(rows, runs)
    return {key: tuple(values) for key, values in metrics.items()}


def _per_run(rows: Sequence[TaskRun], source: PeakSource) -> dict[str, Callable[[TaskRun], float]]:
    """The metrics that each run has by itself, as functions of its row."""
    metrics: dict[str, Callable[[TaskRun], float]] = {"acc": lambda row: float(row.success)}
    for key, answers in ANSWERS.items():
        if all(answers(row) is not None for row in rows):
            metrics[key] = partial(_answered_share, answers)
    if all(row.violations is not None for row in rows):
        metrics["violations"] = lambda row: row.violations or 0
    metrics["steps"] = lambda row: row.steps
    # Records from elsewhere may lack these two, and what nobody counted is not zero.
    if any(row.peak_reported if source == "provider" else row.peak for row in rows):
        metrics["peak"] = (lambda row: row.peak_reported) if source == "provider" else (lambda row: row.peak)
    if all(row.compactions is not None for row in rows):
        metrics["compactions"] = lambda row: row.compactions or 0
    roles = sorted({role for row in rows for role in row.usage})
    if any(row.usage[role].total for row in rows for role in TOTAL if role in row.usage):
        metrics["tokens"] = lambda row: sum(row.usage.get(role, Usage()).total for role in TOTAL)
        # Tokens that the agent read in one call: how much context an arm worked with.
        metrics["context"] = lambda row: a.input / a.calls if (a := row.usage.get("agent", Usage())).calls else 0.0
        metrics["cached"] = lambda row: sum(row.usage.get(role, Usage()).cached for role in TOTAL)
    return metrics | {f"tokens.{role}": lambda row, role=role: row.usage.get(role, Usage()).total for role in roles}


Answers = Callable[[TaskRun], tuple[float, ...] | None]
ANSWERS: dict[str, Answers] = {"em": lambda row: row.em, "f1": lambda row: row.f1}


def _answered_share(answers: Answers, row: TaskRun) -> float:
    given = answers(row) or (0.0,)
    return sum(given) / len(given)


def _exact(rows: Sequence[Sequence[TaskRun]], runs: int) -> dict[str, list[float]]:
    """EM^k. A question counts by the runs that answered it exactly; a task is the mean of its questions."""
    answers = [[row.em or (0.0,) for row in task_rows] for task_rows in rows]
    right = [[sum(answer >= 1.0 for answer in question) for question in zip(*own, strict=True)] for own in answers]
    return {f"em^{k}": [fmean(pass_all(n, runs, k) for n in own) for own in right] for k in range(2, runs + 1)}


def measure(arm: ArmRuns, tasks: Sequence[str], runs: int, source: PeakSource | None = None) -> Metrics:
    """All figures of an arm over these tasks; `source` is for several arms side by side."""
    chosen = source or peak_source([arm])
    by_task = arm.by_task()
    rows = [by_task[task][run] for task in tasks for run in range(runs)]
    by_run = {
        key: tuple(fmean(value(by_task[task][run]) for task in tasks) for run in range(runs))
        for key, value in (_per_run(rows, chosen).items() if tasks else ())
    }
    return Metrics(
        tasks=len(tasks),
        runs=runs,
        means={key: fmean(values) for key, values in per_task(arm, tasks, runs, chosen).items()} if tasks else {},
        spread={key: stdev(values) for key, values in by_run.items()} if runs > 1 else {},
        by_run=by_run,
        usage=_usage(rows),
        endings=dict(Counter(row.ending for row in rows).most_common()),
        peak_source=chosen,
    )


def _usage(rows: Sequence[TaskRun]) -> dict[str, dict[str, float]]:
    roles = sorted({role for row in rows for role in row.usage})
    return {
        role: {
            name: sum(getattr(row.usage[role], name) for row in rows if role in row.usage) / len(rows)
            for name in ("input", "cached", "output")
        }
        for role in roles
    }


def group_keys(arms: Sequence[ArmRuns]) -> tuple[str, ...]:
    """What tasks are grouped by: difficulty, apps, family."""
    return tuple(sorted({key for arm in arms for row in arm.rows for key in row.groups}))


def group_tasks(arms: Sequence[ArmRuns], tasks: Sequence[str], key: str) -> dict[str, tuple[str, ...]]:
    """The tasks of each group, group by group."""
    groups = {row.task: row.groups.get(key) for arm in arms for row in arm.rows}
    values = sorted({value for task in tasks if (value := groups.get(task)) is not None}, key=_group_order)
    return {value: tuple(task for task in tasks if groups.get(task) == value) for value in values}


def _group_order(value: str) -> tuple[float, str]:
    """Numbers by size, difficulties from easy to hard, everything else by name."""
    words = {"easy": 1.0, "medium": 2.0, "hard": 3.0}
    return (float(value) if value.isdecimal() else words.get(value, 0.0)), value


def is_share(key: str) -> bool:
    """Whether a metric of a task lies between 0 and 1.

    >>> [is_share(key) for key in ("acc", "pass^3", "pass@3", "em", "f1", "steps", "tokens")]
    [True, True, True, True, True, False, False]
    """
    return key.partition("^")[0].partition("@")[0] in ("acc", "pass", "em", "f1")
