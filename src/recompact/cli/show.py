"""`recompact show`: a run as a table, or one trajectory in full with its boundaries marked.

For an evaluation the table has a row for each task and a column for each arm; a trajectory is named by task, arm and
run.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.cli.console import console, print_json, print_tables, say
from recompact.cli.options import POSITIVE, Directory, Json, as_command
from recompact.cli.progress import open_bar
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_suite
from recompact.engine.config_parser import load_config
from recompact.engine.store.records import read_trajectory, stream_trajectory
from recompact.engine.store.runs import find_run, overview, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, TaskRun, find_arm, read_arms
from recompact.evaluation.behaviour import behaviour_table, behaviours, to_json
from recompact.evaluation.evaluate import PHASE, unit_of
from recompact.models.limits import Spending
from recompact.presentation.report.content.overview import (
    arm_progress_table,
    overview_table,
    run_table,
    task_table,
    trajectory_table,
)
from recompact.presentation.report.terminal import LONG, heading, print_trajectory
from recompact.values.texts import command_line, cut
from recompact.values.trajectory import Trajectory


@as_command("show", example="show rooms coin")
def command(
    run: str,
    task: str | None,
    *,
    arm: Annotated[str | None, "In an evaluation: the arm of the trajectory, such as pair/history."],
    number: Annotated[int | None, "--run", POSITIVE, "In an evaluation: which of the arm's runs, from 1."],
    directory: Directory,
    full: Annotated[bool, "Show long texts in full."],
    behaviour: Annotated[bool, "What agents did after compactions, and what the summaries kept."],
    as_json: Json,
) -> None:
    """Print a run, or the trajectory of one TASK with its boundaries marked.

    An evaluation has several trajectories of each task: --arm and --run choose among them. --behaviour counts, arm by
    arm, how often agents first look something up after a compaction, how many steps they take to the next change, and
    how many of the consumed literals the summaries keep. Two hooks of the suite classify its actions
    (docs/environments.md).
    """
    if behaviour:
        if task or arm or number or full:
            raise click.UsageError("--behaviour covers a whole run: leave out task, arm and run")
        _show_behaviour(run, directory, as_json)
        return
    if task is None and (arm or number):
        raise click.UsageError("--arm and --run choose among the trajectories of a TASK: name the task")
    with Store.read(find_run(run, directory)) as store:
        if store.metadata.command == PHASE:
            _show_evaluation(store, task, arm, number, full, as_json)
        elif arm or number:
            raise click.UsageError(f"{store.path} is not an evaluation: its tasks have one trajectory each")
        elif task is None:
            _show_run(store, as_json)
        else:
            _show_task(store, task, full, as_json)


def _show_behaviour(run: str, directory: Path, as_json: bool) -> None:
    path, file = locate_run(run, None, directory)
    config = load_config(file)
    with Store.read(path) as store:
        suite = store.metadata.identity.get("suite", {}).get("use")
        if config.suite.use not in (suite, store.metadata.suite):
            raise InputError(
                f"{path} was made with the suite {suite!r}, but {file} now has {config.suite.use!r}: undo that change"
            )
        with open_bar("behaviour", Spending(), quiet=as_json) as progress:
            every = asyncio.run(behaviours(store, open_suite(config), progress=progress))
    if as_json:
        print_json({"run": str(path), **to_json(every)})
    else:
        print_tables([behaviour_table(every)])


def _show_run(store: Store, as_json: bool) -> None:
    rows = trajectories(store)
    if as_json:
        listed = [row.to_json() for row in rows]
        print_json({**asdict(overview(store)), "rows": listed, "digest": store.digest("collect/")})
    else:
        print_tables([overview_table([overview(store)]), trajectory_table(rows)])


def _show_task(store: Store, task: str, full: bool, as_json: bool) -> None:
    rows = trajectories(store, task)
    if not rows:
        raise _no_task(store, task, [row.task for row in trajectories(store)])
    if as_json:
        print_json([_to_json(read_trajectory(store, row.unit)) for row in rows])
        return
    for row in rows:
        print_trajectory(console(), *stream_trajectory(store, row.unit), None if full else LONG)


def _no_task(store: Store, task: str, known: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(task, known, 3, 0.3) or list(known[:3])
    there = f"it has {', '.join(near)} …" if near else "it has none yet"
    return InputError(f"{store.path} has no trajectory of task {task!r}; {there}")


def _show_evaluation(
    store: Store, task: str | None, wanted: str | None, number: int | None, full: bool, as_json: bool
) -> None:
    arms = read_arms(store)
    if task is None:
        _show_arms(store, arms, as_json)
        return
    if not any(row.task == task for arm in arms for row in arm.rows):
        raise _no_task(store, task, list(dict.fromkeys(row.task for arm in arms for row in arm.rows)))
    chosen = [find_arm(arms, wanted, store.path)] if wanted else arms
    runs = [(arm, row) for arm in chosen for row in arm.rows if row.task == task and number in (None, row.run + 1)]
    if not runs:
        raise _no_run(store, task, chosen, number)
    if as_json:
        print_json(
            [
                {"arm": arm.label, "run": row.run + 1, **_to_json(read_trajectory(store, _unit(arm, row)))}
                for arm, row in runs
            ]
        )
    elif wanted or len(runs) == 1:
        for arm, row in runs:
            name = task if full else cut(task, LONG)[0]
            console().print(heading(f"{name}, {arm.label}, run {row.run + 1} of {arm.runs}", "bold"))
            print_trajectory(console(), *stream_trajectory(store, _unit(arm, row)), None if full else LONG)
    else:
        print_tables([run_table(task, runs)])
        arm, row = runs[-1]
        one = command_line("show", store.path, task, options=["--arm", arm.label, "--run", row.run + 1])
        say(f"One of them: {one}")


def _no_run(store: Store, task: str, arms: Sequence[ArmRuns], number: int | None) -> InputError:
    runs = sorted({row.run + 1 for arm in arms for row in arm.rows if row.task == task})
    there = f"there are runs {', '.join(map(str, runs))}" if runs else "the arm has not done it yet"
    whose = arms[0].label if len(arms) == 1 else "any arm"
    return InputError(f"{store.path} has no run {number or 1} of task {task!r} by {whose}: {there}")


def _show_arms(store: Store, arms: Sequence[ArmRuns], as_json: bool) -> None:
    if as_json:
        print_json(_arms_json(store, arms))
        return
    begun = [arm for arm in arms if arm.rows]
    summary = overview_table([overview(store)])
    print_tables([summary, arm_progress_table(arms), task_table(begun)] if begun else [summary])
    if begun:
        one = command_line("show", store.path, "TASK", options=["--arm", begun[-1].label, "--run", 1])
        say(f"One of them: {one}")
    else:
        say("No trajectory is finished yet.")


def _arms_json(store: Store, arms: Sequence[ArmRuns]) -> dict[str, Any]:
    labels: dict[str, list[str]] = {}
    for arm in arms:  # one arm may have several names
        labels.setdefault(arm.settings["key"], []).append(arm.label)
    rows = [
        {**row.to_json(), "run": row.run + 1, "arms": labels.get(row.unit.split("/", 2)[1], [])}
        for row in trajectories(store, phase=PHASE)
    ]
    return {**asdict(overview(store)), "arms": [dict(arm.settings) for arm in arms], "rows": rows}


def _unit(arm: ArmRuns, row: TaskRun) -> str:
    return unit_of(arm.settings["key"], row.task, row.run)


def _to_json(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "task": trajectory.task,
        "ending": trajectory.ending,
        "success": trajectory.score.success,
        "value": trajectory.score.value,
        "details": dict(trajectory.score.details),
        "steps": trajectory.steps,
        "peak": trajectory.peak,
        "peak_reported": trajectory.peak_reported,
        "usage": {role: usage.to_json() for role, usage in trajectory.usage.items()},
        "turns": [[m.to_json() for m in turn.messages] for turn in trajectory.turns],
        "boundaries": [
            {
                "index": b.index,
                "step": b.step,
                "pre_tokens": b.pre.size,
                "post_tokens": b.post.size,
                "pre": [m.to_json() for m in b.pre.messages],
                "post": [m.to_json() for m in b.post.messages],
                "asked_again": b.asked_again,
                "cut": b.cut,
            }
            for b in trajectory.boundaries
        ],
        "incidents": [[i.step, i.kind, i.text] for i in trajectory.incidents],
        "error": trajectory.error,
    }
