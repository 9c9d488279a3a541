"""Sentences about the tasks of a comparison: which are left out and why, which an arm has seen before, and in which
arms compactions failed or nothing was compacted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recompact.engine.store.failed_compactions import FailedCompactions, failed_in_all
from recompact.evaluation.arm_runs import ArmRuns, Common
from recompact.values.texts import quantity


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
    for label, arm in {arm.label: arm for arm in arms if arm.label not in nothing}.items():
        if words := failed_in_arm(arm, shared).words:
            lines.append(f"{label}: {words}.")
    return lines


def _uncompacted_arm(arm: ArmRuns, shared: Common) -> Uncompacted | None:
    rows = arm.on(shared)
    if not rows or any(row.compactions is None or row.compactions for row in rows):
        return None
    failed, budget = failed_in_arm(arm, shared), arm.settings.get("budget")
    under = f" under its budget of {budget:,} tokens" if budget else ""
    return Uncompacted(arm.label, failed.number, failed.words or f"no compaction was due{under}")
