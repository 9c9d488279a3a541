"""`recompact compare`: two arms task by task, or all arms of an evaluation side by side; released runs too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_claims, print_json, print_tables, say
from recompact.cli.evaluate import Layout, check_against, one_evaluation_by, print_by_model, print_evaluation
from recompact.cli.options import POSITIVE, By, Directory, Form, Json, as_command
from recompact.errors import InputError
from recompact.evaluation.arm_runs import (
    ArmRuns,
    common,
    compaction_lines,
    failed_in_arm,
    find_arm,
    left_out,
    seen_tasks,
)
from recompact.evaluation.breakdown import MODEL, breakdown_table, by_group, check_by
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.paired import compare_many
from recompact.evaluation.released import load_arms, load_evaluation
from recompact.evaluation.summary import Evaluation, comparison_table, evaluation
from recompact.presentation.report.content.answer import arm_contrast
from recompact.values.tables import Format


@as_command("compare", example="compare rooms-evaluate causes prompting")
def command(
    what: Annotated[tuple[str, ...], {"metavar": "RUN [A B] | RUN_A:ARM RUN_B:ARM | RUN RUN...", "required": True}],
    *,
    directory: Directory,
    runs: Annotated[int | None, POSITIVE, "Only the first N runs (default: all that both have)."],
    against: Annotated[str | None, "With RUN alone: the arm to measure the others against (default: prompting)."],
    by: By,
    details: Annotated[bool, "With RUN alone: every Pass^k and Pass@k, tokens by role, endings."],
    form: Form,
    as_json: Json,
) -> None:
    """Is arm A better than arm B? Prints A minus B on the tasks that both have finished, with intervals.

    RUN is an evaluation, or released records: a directory with run_records.jsonl files, one such file, or a CSV. RUN
    alone prints the table of all its arms. Name an arm by its label (pair/history), or by an unambiguous part of it.
    With --by model, every RUN is an evaluation of the same suite with other models.
    """
    form = "json" if as_json else form
    if MODEL in by and len(what) > 1:
        if details or len(by) > 1:
            raise click.UsageError("--by model compares evaluations: give no other --by, and no --details")
        print_by_model(what, directory, Layout(form, against), runs)
        return
    by = one_evaluation_by(by, several=False)
    if len(what) > 1 and (against or details):
        raise click.UsageError(
            "--against and --details are for RUN alone: two arms are always compared in every metric"
        )
    if len(what) == 1:
        every = _all(what[0], directory, runs)
        check_by(by, group_keys(every.arms))
        check_against(against, every.arms)
        print_evaluation(every, Layout(form, against, by, details))
        return
    first, second = _pair(what, directory)
    check_by(by, group_keys([first, second]))
    _compare(first, second, runs, by, form)


def _all(run: str, directory: Path, runs: int | None) -> Evaluation:
    every = load_evaluation(run, directory, runs)
    if not every.shared.tasks:
        runs = every.shared.runs or 1
        times = "" if runs == 1 else f" {runs} times"
        way_out = "continue with recompact evaluate, or compare fewer --runs or two arms"
        raise InputError(
            f"{run} has no task that every arm has finished{times} yet{every.shared.broken_words}: {way_out}"
        )
    return every


def _pair(what: tuple[str, ...], directory: Path) -> tuple[ArmRuns, ArmRuns]:
    if len(what) == 3:
        arms = load_arms(what[0], directory)
        return find_arm(arms, what[1], what[0]), find_arm(arms, what[2], what[0])
    if len(what) != 2 or not all(":" in side for side in what):
        raise click.UsageError("give RUN A B, two arms of one evaluation, or RUN_A:ARM RUN_B:ARM, or RUN alone")
    sides = [(run, wanted) for run, _, wanted in (side.rpartition(":") for side in what)]
    first, second = (find_arm(load_arms(run, directory), wanted, run) for run, wanted in sides)
    if first.label == second.label:  # then the names of the runs distinguish them
        runs = [run for run, _ in sides]
        stems = [Path(run).stem for run in runs]
        names = runs if stems[0] == stems[1] and runs[0] != runs[1] else stems
        first, second = (
            replace(arm, name=f"{name}:{arm.name}") for arm, name in zip((first, second), names, strict=True)
        )
    return first, second


def _compare(first: ArmRuns, second: ArmRuns, runs: int | None, by: tuple[str, ...], form: Format) -> None:
    shared = common([first, second], None, runs)
    comparison = compare_many([(first, second)], shared, relative=True)[0]
    simulated = first.simulated or second.simulated
    both = replace(evaluation("", [first, second]), shared=shared)
    groups = [part for key in by if (part := by_group(both, key, second.label))]
    if form == "json":
        seen = {arm.label: len(arm.seen(shared.tasks)) for arm in (first, second)}
        failed = {arm.label: vars(failed_in_arm(arm, shared)) for arm in (first, second)}
        left = {
            "left_out": shared.left_out,
            "broken": list(shared.broken),
            "seen_tasks": seen,
            "failed_compactions": failed,
        }
        print_json({**comparison.to_json(), **left, "simulated": simulated, "by": [each.to_json() for each in groups]})
        return
    missing = [*left_out(shared.left_out, len(shared.broken)), *seen_tasks([first, second], shared)]
    missing += compaction_lines([first, second], shared)
    tables = [comparison_table(comparison, simulated, missing)]
    tables += map(breakdown_table, groups)
    print_tables(tables[bool(by) :][:1] if form == "csv" else tables, form)
    if form == "terminal":
        click.echo("")
        contrast = arm_contrast(comparison)
        say(f"{contrast.title}:")
        print_claims((change.words, [change.numbers]) for change in contrast.changes)
    if form == "csv":  # which has no notes
        for words in missing:
            say(words, err=True)
