"""Runs and their trajectories at a glance, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from recompact.engine.store.runs import Overview, TrajectoryRow
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.tables import Column, Number, Row, Table, columns
from recompact.values.texts import quantity


def overview_table(runs: Sequence[Overview]) -> Table:
    """Runs with means over their trajectories. Simulated ones are marked."""
    titles = ("tasks", "success, %", "steps", "compactions", "peak, k", "tokens, M")
    heads = (Column("run", "run", fold=True), Column("settings", "suite, compressor", fold=True))
    return Table("", (*heads, *columns(*titles)), tuple(map(_overview_row, runs)), overview_notes(runs))


def overview_notes(runs: Sequence[Overview]) -> tuple[str, ...]:
    """What belongs below a table of runs: the mark of simulated ones, and what runs continue without."""
    notes = ["* simulated models"] if any(run.simulated for run in runs) else []
    for run in runs:
        notes += [f"{run.name} skips {', '.join(run.skipped)}"] if run.skipped else []
        notes += [f"{run.name}: {quantity(run.set_aside, 'unit')} set aside"] if run.set_aside else []
        if run.suite_changes:
            changes = quantity(run.suite_changes, "change")
            notes.append(f"{run.name} mixes what came before and after {changes} of its suite (--accept-changes)")
    return tuple(notes)


def _overview_row(run: Overview) -> Row:
    n = run.trajectories
    totals = ((100 * run.success, 1), (run.steps, 1), (run.compactions, 1), (run.peak * n / 1000, 2))
    means = (Number(total / n, digits) if n else None for total, digits in totals)
    tokens = Number(sum(run.tokens.values()) / 1e6, 2)
    return run.name + "*" * run.simulated, f"{run.suite}, {run.compressor}", n, *means, tokens


def trajectory_table(rows: Sequence[TrajectoryRow]) -> Table:
    """One row for each collected trajectory."""
    heads = columns("outcome", "steps", "compactions", "peak", "tokens", "ending")
    return Table("", (Column("task", "task", fold=True), *heads), tuple(map(_trajectory_row, rows)))


def _trajectory_row(row: TrajectoryRow) -> Row:
    tokens = sum(usage.total for usage in row.usage.values())
    ending = row.ending + (f", {quantity(row.incidents, 'incident')}" if row.incidents else "")
    return row.task, outcome(row.success), row.steps, row.compactions, row.peak, tokens, ending


def outcome(success: bool) -> str:
    return "success" if success else "failure"


def arm_progress_table(arms: Sequence[ArmRuns]) -> Table:
    """What the arms of an evaluation are and how far each has got."""
    titles = ("arm", "compresses", "trajectories", "success, %", "steps", "compactions")
    return Table("", columns(*titles), tuple((arm.label, _compresses(arm), *_means(arm)) for arm in arms))


def _compresses(arm: ArmRuns) -> str:
    budget, template = arm.settings["budget"], arm.settings["template"]
    words = (
        arm.settings["kind"],
        f"{budget:,} tokens" if budget else "",
        f"template {template[:8]}" if template else "",
    )
    return ", ".join(filter(None, words))


def _means(arm: ArmRuns) -> Row:
    if not arm.rows:
        return 0, None, None, None
    success, steps, compactions = (
        fmean(values) for values in zip(*((r.success, r.steps, r.compactions) for r in arm.rows), strict=True)
    )
    return len(arm.rows), Number(100 * success), Number(steps), Number(compactions, 2)


def task_table(arms: Sequence[ArmRuns]) -> Table:
    """A row for each task, a column for each arm: which runs succeeded, and in how many steps."""
    by_arm = [arm.by_task() for arm in arms]
    rows = tuple(
        (task, *(_runs_text(arm.runs, runs.get(task, {})) for arm, runs in zip(arms, by_arm, strict=True)))
        for task in sorted({task for runs in by_arm for task in runs})
    )
    note = "Runs in order: + success, - failure, . not finished; mean steps; compactions in all runs after /."
    return Table("", columns("task", *(arm.label for arm in arms)), rows, (note,))


def _runs_text(count: int, runs: dict[int, TaskRun]) -> str:
    marks = "".join("." if n not in runs else "+" if runs[n].success else "-" for n in range(count))
    if not runs:
        return marks
    compactions = sum(run.compactions or 0 for run in runs.values())
    return f"{marks} {fmean(run.steps for run in runs.values()):.0f}" + (f"/{compactions}" if compactions else "")


def run_table(task: str, runs: Sequence[tuple[ArmRuns, TaskRun]]) -> Table:
    """The trajectories of one task in an evaluation, one to a row."""
    heads = columns("arm", "run", "outcome", "steps", "compactions", "peak", "ending")
    rows = tuple(
        (arm.label, run.run + 1, outcome(run.success), run.steps, run.compactions, run.peak, run.ending)
        for arm, run in runs
    )
    return Table(task, heads, rows)
