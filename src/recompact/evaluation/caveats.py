"""Sentences about the tasks of a comparison: which are left out and why, and which an arm has seen before."""

from __future__ import annotations

from collections.abc import Iterable

from recompact.evaluation.arm_runs import ArmRuns, Common
from recompact.texts import quantity


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
            f"{quantity(broken, 'task')} {are} left out for every arm: in a run of {them} the environment broke. Once"
            " it is mended, recompact evaluate --retry makes such runs anew."
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
        was, it = ("was", "it") if len(same) == 1 else ("were", "them")
        these = f"{seen:,} of these {quantity(len(shared.tasks), 'task')}"
        lines.append(f"{' and '.join(same)} {was} adapted on {these}: only unseen tasks show what is gained by {it}.")
    return lines
