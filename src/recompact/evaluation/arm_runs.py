"""The rows that metrics are computed from: for each arm, one for every task and run; and what to say about them.

They are read from a run of `recompact evaluate`, or from other people's records (see `released`). Sentences tell which
tasks of a comparison are left out and why, which an arm has seen before, and in which arms compactions failed or
nothing was compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from recompact.engine.store.records import NONE_FAILED, FailedCompactions, failed_in_all, failed_in_unit
from recompact.engine.store.runs import BROKEN, TrajectoryRow, is_simulated, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arms import label
from recompact.evaluation.evaluate import PHASE
from recompact.values.chat import Usage
from recompact.values.texts import quantity
from recompact.values.trajectory import Score


@dataclass(frozen=True)
class TaskRun:
    """One task, done once in one arm. What records from elsewhere leave out is None, or 0 for a peak.

    `em` and `f1` are for question answering: one value for each question, or a single one for the whole task.
    """

    task: str
    run: int
    success: bool
    steps: int
    compactions: int | None = None
    peak: int = 0  # by our own counter
    peak_reported: int = 0  # by the provider's
    usage: Mapping[str, Usage] = field(default_factory=dict)
    ending: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    em: tuple[float, ...] | None = None
    f1: tuple[float, ...] | None = None
    violations: int | None = None  # of rules, where the suite looks for them
    failed: FailedCompactions = NONE_FAILED


@dataclass(frozen=True)
class ArmRuns:
    """The rows of one arm."""

    name: str
    scope: str | None
    rows: tuple[TaskRun, ...]
    simulated: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # kind, budget, template: where they are known

    @property
    def label(self) -> str:
        return label(self.name, self.scope)

    @property
    def base(self) -> str:
        """Its name without the budget: `fifo` for `fifo@1024`."""
        return self.name.removesuffix(f"@{self.settings.get('budget')}")

    @property
    def compresses(self) -> bool:
        return bool(self.settings.get("kind", self.name) != "none")

    @property
    def runs(self) -> int:
        return max((row.run for row in self.rows), default=-1) + 1

    def seen(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Those of the tasks that its template was adapted on, as far as is known."""
        known = frozenset(self.settings.get("adapted_on", ()))
        return tuple(task for task in tasks if task in known)

    def by_task(self) -> dict[str, dict[int, TaskRun]]:
        tasks: dict[str, dict[int, TaskRun]] = {}
        for row in self.rows:
            tasks.setdefault(row.task, {})[row.run] = row
        return tasks

    def on(self, shared: Common) -> list[TaskRun]:
        """Its rows of these tasks and runs, task by task, as far as it has them."""
        by_task = self.by_task()
        every = [by_task.get(task, {}).get(run) for task in shared.tasks for run in range(shared.runs)]
        return [row for row in every if row is not None]

    def complete(self, runs: int) -> set[str]:
        """The tasks that were done in each of the first `runs` runs."""
        return {task for task, rows in self.by_task().items() if rows.keys() >= set(range(runs))}


@dataclass(frozen=True)
class Common:
    """The tasks and runs that several arms all have, so that their figures can be set side by side."""

    tasks: tuple[str, ...]
    runs: int
    left_out: int  # tasks that some arm lacks, or has not run often enough
    broken: tuple[str, ...] = ()  # tasks that all have done, but in one of whose runs the environment broke

    @property
    def broken_words(self) -> str:
        """Why there may be no task left, to be put behind a sentence that says so.

        >>> Common(("a",), 1, 0).broken_words, Common((), 1, 0, ("a",)).broken_words
        ('', ' (in 1 task the environment broke: fix it, then run recompact evaluate --retry)')
        """
        if not self.broken:
            return ""
        tasks = quantity(len(self.broken), "task")
        return f" (in {tasks} the environment broke: fix it, then run recompact evaluate --retry)"


def common(arms: Sequence[ArmRuns], tasks: Iterable[str] | None = None, runs: int | None = None) -> Common:
    """What the arms share: of these tasks (default: all), over `runs` runs (default: as many as every arm has).

    A run whose environment broke says nothing about its arm, and tasks are compared in pairs: such a task is left out
    for all arms.
    """
    most = min((arm.runs for arm in arms), default=0)
    shared = min(runs or most, most)
    # In one order wherever they come from: resampling goes by position, so that another one gives other intervals.
    every = sorted({row.task for arm in arms for row in arm.rows} if tasks is None else set(tasks))
    complete = [arm.complete(shared) for arm in arms]
    done = [task for task in every if all(task in tasks for tasks in complete)] if shared else []
    broken = {row.task for arm in arms for row in arm.rows if row.ending == BROKEN and row.run < shared}
    kept = tuple(task for task in done if task not in broken)
    return Common(kept, shared, len(every) - len(done), tuple(task for task in done if task in broken))


def with_all_questions(arms: Sequence[ArmRuns]) -> tuple[ArmRuns, ...]:
    """The arms with as many answers to a task in every run as the one with the most: what is unanswered is wrong.

    Otherwise an arm that stopped after its first questions would be measured on those alone.
    """
    most: dict[tuple[str, str], int] = {}
    for row in (row for arm in arms for row in arm.rows):
        for name, values in (("em", row.em), ("f1", row.f1)):
            most[row.task, name] = max(most.get((row.task, name), 0), len(values or ()))

    def fill(row: TaskRun) -> TaskRun:
        em, f1 = (
            values if values is None else values + (0.0,) * (most[row.task, name] - len(values))
            for name, values in (("em", row.em), ("f1", row.f1))
        )
        return row if (em, f1) == (row.em, row.f1) else replace(row, em=em, f1=f1)

    def fill_all(arm: ArmRuns) -> ArmRuns:
        rows = tuple(map(fill, arm.rows))
        return arm if rows == arm.rows else replace(arm, rows=rows)

    return tuple(map(fill_all, arms)) if any(most.values()) else tuple(arms)


def read_arms(store: Store) -> tuple[ArmRuns, ...]:
    """The arms of an evaluation in the order in which they were first given."""
    metadata = store.metadata
    if metadata.command != PHASE:
        raise InputError(f"{store.path} is not an evaluation: make one with recompact evaluate CONFIG")
    rows: dict[str, list[TrajectoryRow]] = {}
    for row in trajectories(store, phase=PHASE):
        rows.setdefault(row.unit.split("/", 2)[1], []).append(row)
    answers = _answers(store, [row for arm_rows in rows.values() for row in arm_rows])
    simulated = is_simulated(store)
    arms = [
        ArmRuns(
            arm["name"],
            arm["scope"],
            tuple(_task_run(store, row, answers.get(row.unit, {})) for row in rows.get(arm["key"], ())),
            simulated,
            arm if _of_suite(arm, metadata.identity) else {**arm, "adapted_on": []},
        )
        for arm in (metadata.arms[name] for name in metadata.arm_order)
    ]
    return with_all_questions(arms)


def _of_suite(arm: Mapping[str, Any], identity: Mapping[str, Any]) -> bool:
    """Whether the tasks that an arm's template was adapted on are of the suite that is evaluated; others may have the
    same names. Files are compared by their names, since configs in two directories name one differently."""
    here, there = str(identity.get("suite", {}).get("use", "")), str(arm.get("adapted_suite", ""))
    return not here or not there or PurePath(here).name == PurePath(there).name


def find_arm(arms: Sequence[ArmRuns], wanted: str, where: object) -> ArmRuns:
    """An arm by its label, or by its name or scope where that is unambiguous."""
    exact = [arm for arm in arms if arm.label == wanted]
    candidates = exact or [arm for arm in arms if wanted in (arm.name, arm.scope)]
    if len(candidates) == 1:
        return candidates[0]
    labels = ", ".join(arm.label for arm in arms) or "none yet"
    problem = f"has no arm {wanted!r}" if not candidates else f"has several arms {wanted!r}"
    raise InputError(f"{where} {problem}: choose one of {labels}")


Answers = Mapping[str, tuple[float, ...]]
"""`em` and `f1` of one trajectory, where its suite gives them."""


def _task_run(store: Store, row: TrajectoryRow, answers: Answers) -> TaskRun:
    return TaskRun(
        task=row.task,
        run=row.run,
        success=row.success,
        steps=row.steps,
        compactions=row.compactions,
        peak=row.peak,
        peak_reported=row.peak_reported,
        usage=row.usage,
        ending=row.ending,
        groups=row.groups,
        em=answers.get("em"),
        f1=answers.get("f1"),
        violations=int(answers["violations"][0]) if "violations" in answers else None,
        failed=failed_in_unit(store, row.unit) if row.incidents else NONE_FAILED,
    )


def _answers(store: Store, rows: Sequence[TrajectoryRow]) -> dict[str, Answers]:
    """`em`, `f1` and violations by unit, from the details of its score; empty where the suite gives none of them.

    Details are in whole trajectories only. A suite writes them always or never, so one look tells whether to read on.
    An episode without an answer gets none right; one without a verdict is not known to have broken a rule.
    """
    finished = [row.unit for row in rows if row.ending == "finished"]
    if not finished or not store.result(finished[0])["score"][2].keys() & {"em", "f1", "violations"}:
        return {}
    scores = {row.unit: Score(*store.result(row.unit)["score"]) for row in rows}
    details = {unit: _counted_details(score) for unit, score in scores.items()}
    keys = [key for key in ("em", "f1", "violations") if any(key in each for each in details.values())]
    return {
        row.unit: {key: as_values(details.get(row.unit, {}).get(key, 0.0), f"{row.unit}: {key}") for key in keys}
        for row in rows
    }


def _counted_details(score: Score) -> Mapping[str, Any]:
    """The details of a score, with the number of violations."""
    broken = score.violations
    return score.details if broken is None else {**score.details, "violations": len(broken)}


def as_values(value: Any, where: str = "a score") -> tuple[float, ...]:
    """One value per question, or one for the whole task."""
    try:
        return tuple(float(v) for v in value) if isinstance(value, list | tuple) else (float(value),)
    except (TypeError, ValueError):
        raise InputError(f"{where} must be a number or a list of numbers, not {value!r}: fix the suite") from None


def left_out(unfinished: int, broken: int = 0) -> list[str]:
    """How many tasks are not in the figures, and why.

    >>> left_out(1)
    ['1 task is left out: not every arm has finished it in every run.']
    """
    lines = []
    if unfinished:
        are, them = ("is", "it") if unfinished == 1 else ("are", "them")
        lines.append(f"{quantity(unfinished, 'task')} {are} left out: not every arm has finished {them} in every run.")
    if broken:
        are, them = ("is", "it") if broken == 1 else ("are", "them")
        lines.append(
            f"{quantity(broken, 'task')} {are} left out for every arm: in a run of {them} the environment broke. Fix"
            " the environment, then recompact evaluate --retry plays those runs again."
        )
    return lines


def seen_tasks(arms: Iterable[ArmRuns], shared: Common) -> list[str]:
    """Which arms are measured on tasks that their templates were adapted on: a line for each number of tasks."""
    labels: dict[int, list[str]] = {}
    for arm in arms:
        if seen := len(arm.seen(shared.tasks)):
            labels.setdefault(seen, []).append(arm.label)
    lines = []
    for seen, same in labels.items():
        was, gains = ("was", "it gains") if len(same) == 1 else ("were", "they gain")
        these = f"{seen:,} of these {quantity(len(shared.tasks), 'task')}"
        lines.append(f"{' and '.join(same)} {was} adapted on {these}: only unseen tasks show what {gains}.")
    return lines


@dataclass(frozen=True)
class Uncompacted:
    """An arm that compresses, but in which nothing was compacted: it says nothing about compaction."""

    arm: str
    failed: int  # compactions that were tried
    reason: str

    @property
    def sentence(self) -> str:
        return f"Nothing was compacted in {self.arm}: {self.reason}."


def failed_in_arm(arm: ArmRuns, shared: Common) -> FailedCompactions:
    """The compactions that failed in an arm, on these tasks and runs."""
    return failed_in_all(row.failed for row in arm.on(shared))


def uncompacted_arms(arms: Iterable[ArmRuns], shared: Common) -> tuple[Uncompacted, ...]:
    """The arms that compress and have no compaction on these tasks and runs, where compactions were counted."""
    by_label = {arm.label: arm for arm in arms if arm.compresses}
    every = (_uncompacted_arm(arm, shared) for arm in by_label.values())
    return tuple(each for each in every if each is not None)


def compaction_lines(arms: Iterable[ArmRuns], shared: Common) -> list[str]:
    """In which arms nothing was compacted and why, and in which others compactions failed."""
    arms = list(arms)
    nothing = {each.arm: each for each in uncompacted_arms(arms, shared)}
    lines = [each.sentence for each in nothing.values()]
    for arm in {arm.label: arm for arm in arms if arm.label not in nothing}.values():
        if words := failed_in_arm(arm, shared).words:
            lines.append(f"{arm.label}: {words}.")
    return lines


def _uncompacted_arm(arm: ArmRuns, shared: Common) -> Uncompacted | None:
    rows = arm.on(shared)
    if not rows or any(row.compactions is None or row.compactions for row in rows):
        return None
    failed, budget = failed_in_arm(arm, shared), arm.settings.get("budget")
    under = f" under its budget of {budget:,} tokens" if budget else ""
    return Uncompacted(arm.label, failed.number, failed.words or f"no compaction was due{under}")
