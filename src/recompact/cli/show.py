"""`recompact show`: a run as a table, or one trajectory in full with its boundaries marked.

Of an evaluation the table has a row for each task and a column for each arm, and a trajectory is named by task, arm and
run. Everything that models and environments wrote is printed as plain text, whatever it contains.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from recompact.context import Turn
    from recompact.evaluation.arm_runs import ArmRuns, TaskRun
    from recompact.store.runs import TrajectoryRow
    from recompact.store.store import Store
    from recompact.tables import Cell, Table
    from recompact.trajectory import Boundary, Trajectory

LONG = 1200  # characters of a text that are shown without --full


@click.command(name="show")
@click.argument("run")
@click.argument("task", required=False)
@click.option("--arm", help="Of an evaluation: the arm whose trajectory is wanted, such as pair/history.")
@click.option("--run", "number", type=click.IntRange(min=1), help="Of an evaluation: which of the arm's runs, from 1.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--full", is_flag=True, help="Show long texts whole.")
@json_option
def command(
    run: str, task: str | None, arm: str | None, number: int | None, directory: Path, full: bool, as_json: bool
) -> None:
    """Print a run, or the trajectory of one TASK with its boundaries marked.

    An evaluation has several trajectories of each task: --arm and --run choose among them.
    """
    from recompact.store.runs import find_run
    from recompact.store.store import Store

    if task is None and (arm or number):
        raise click.UsageError("--arm and --run choose among the trajectories of a TASK: name the task")
    with Store.read(find_run(run, directory)) as store:
        if store.metadata.command == "evaluate":
            _show_evaluation(store, task, arm, number, full, as_json)
        elif arm or number:
            raise click.UsageError(f"{store.path} is no evaluation: its tasks have one trajectory each")
        elif task is None:
            _show_run(store, as_json)
        else:
            _show_task(store, task, full, as_json)


def _show_run(store: Store, as_json: bool) -> None:
    from recompact.store.runs import overview, trajectories

    rows = trajectories(store)
    if as_json:
        shown = [row.to_json() for row in rows]
        print_json({**overview(store).to_json(), "rows": shown, "digest": store.digest("collect/")})
        return
    from recompact.cli.tables import overview_table, trajectory_table

    out = console()
    out.print(overview_table([overview(store)]))
    out.print()
    out.print(trajectory_table(rows))


def _show_task(store: Store, task: str, full: bool, as_json: bool) -> None:
    from recompact.store.records import read_trajectory
    from recompact.store.runs import trajectories

    rows = trajectories(store, task)
    if not rows:
        raise _no_task(store, task, [row.task for row in trajectories(store)])
    found = [read_trajectory(store, row.unit) for row in rows]
    if as_json:
        print_json([_to_json(t) for t in found])
        return
    for trajectory in found:
        _print_trajectory(console(), trajectory, full)


def _no_task(store: Store, task: str, known: Sequence[str]) -> Exception:
    from recompact.errors import InputError
    from recompact.texts import visible

    near = difflib.get_close_matches(task, known, 3, 0.3) or list(known[:3])
    there = f"it has {visible(', '.join(near))} …" if near else "it has none yet"
    return InputError(f"{store.path} has no trajectory of task {task!r}; {there}")


# -- evaluations -----------------------------------------------------------------------------------------------------


def _show_evaluation(
    store: Store, task: str | None, wanted: str | None, number: int | None, full: bool, as_json: bool
) -> None:
    from recompact.evaluation.arm_runs import find_arm, read_arms

    arms = read_arms(store)
    if task is None:
        _show_arms(store, arms, as_json)
        return
    if not any(row.task == task for arm in arms for row in arm.rows):
        raise _no_task(store, task, list(dict.fromkeys(row.task for arm in arms for row in arm.rows)))
    chosen = [find_arm(arms, wanted, store.path)] if wanted else arms
    found = [(arm, row) for arm in chosen for row in arm.rows if row.task == task and number in (None, row.run + 1)]
    if not found:
        raise _no_run(store, task, chosen, number)
    if as_json:
        print_json([_run_json(store, arm, row) for arm, row in found])
    elif wanted or len(found) == 1:
        for arm, row in found:
            _print_run(store, arm, row, full)
    else:
        _list_runs(store, task, found)


def _no_run(store: Store, task: str, arms: Sequence[ArmRuns], number: int | None) -> Exception:
    from recompact.errors import InputError

    runs = sorted({row.run + 1 for arm in arms for row in arm.rows if row.task == task})
    there = f"there are runs {', '.join(map(str, runs))}" if runs else "the arm has not done it yet"
    whose = arms[0].label if len(arms) == 1 else "any arm"
    return InputError(f"{store.path} has no run {number or 1} of task {task!r} by {whose}: {there}")


def _show_arms(store: Store, arms: Sequence[ArmRuns], as_json: bool) -> None:
    from recompact.cli.evaluate import print_tables
    from recompact.cli.tables import overview_table
    from recompact.store.runs import overview, trajectories

    if as_json:
        labels: dict[str, list[str]] = {}
        for arm in arms:  # two names may stand for one arm
            labels.setdefault(arm.settings["key"], []).append(arm.label)
        rows = [_row_json(row, labels) for row in trajectories(store, phase="evaluate")]
        print_json({**overview(store).to_json(), "arms": [dict(arm.settings) for arm in arms], "rows": rows})
        return
    out = console()
    out.print(overview_table([overview(store)]))
    out.print()
    made = [arm for arm in arms if arm.rows]
    if made:
        print_tables([_arm_table(arms), _task_table(made)], "terminal")
        click.echo(f"One of them: recompact show {store.path} TASK --arm {made[-1].label} --run 1")
    else:
        click.echo("No trajectory is finished yet.")


def _arm_table(arms: Sequence[ArmRuns]) -> Table:
    """What the arms are and how far each has got."""
    from recompact.tables import Column, Table

    rows = tuple((arm.label, _compresses(arm), len(arm.rows), *_means(arm)) for arm in arms)
    titles = ("arm", "compresses", "trajectories", "success, %", "steps", "compactions")
    return Table("", tuple(Column(title, title) for title in titles), rows)


def _compresses(arm: ArmRuns) -> str:
    budget, template = arm.settings["budget"], arm.settings["template"]
    words = [
        arm.settings["kind"],
        f"{budget:,} tokens" if budget else "",
        f"template {template[:8]}" if template else "",
    ]
    return ", ".join(filter(None, words))


def _means(arm: ArmRuns) -> tuple[Cell, Cell, Cell]:
    from recompact.tables import Number

    if not arm.rows:
        return None, None, None
    success, steps, compactions = (
        fmean(figure) for figure in zip(*((r.success, r.steps, r.compactions) for r in arm.rows), strict=True)
    )
    return Number(100 * success), Number(steps), Number(compactions, 2)


def _row_json(row: TrajectoryRow, labels: dict[str, list[str]]) -> dict[str, Any]:
    return {**row.to_json(), "run": row.run + 1, "arms": labels.get(row.unit.split("/", 2)[1], [])}


def _task_table(arms: Sequence[ArmRuns]) -> Table:
    """A row for each task, a column for each arm: which runs succeeded, and in how many steps."""
    from recompact.tables import Column, Table

    by_arm = [arm.by_task() for arm in arms]
    tasks = sorted({task for found in by_arm for task in found})
    rows = [
        (task, *(_runs_text(arm.runs, found.get(task, {})) for arm, found in zip(arms, by_arm, strict=True)))
        for task in tasks
    ]
    columns = (Column("task", "task"), *(Column(arm.label, arm.label) for arm in arms))
    note = "Runs in order: + success, - failure, . not finished; mean steps; compactions in all runs after /."
    return Table("", columns, tuple(rows), (note,))


def _runs_text(runs: int, made: dict[int, TaskRun]) -> str:
    marks = "".join("." if n not in made else "+" if made[n].success else "-" for n in range(runs))
    if not made:
        return marks
    compactions = sum(row.compactions or 0 for row in made.values())
    return f"{marks} {fmean(row.steps for row in made.values()):.0f}" + (f"/{compactions}" if compactions else "")


def _list_runs(store: Store, task: str, found: Sequence[tuple[ArmRuns, TaskRun]]) -> None:
    """The trajectories of one task, one to a line."""
    from recompact.cli.evaluate import print_tables
    from recompact.tables import Column, Table
    from recompact.texts import visible

    keys = ("arm", "run", "outcome", "steps", "compactions", "peak", "ending")
    rows = tuple(
        (
            *(arm.label, row.run + 1, "success" if row.success else "failure"),
            *(row.steps, row.compactions, row.peak, row.ending),
        )
        for arm, row in found
    )
    print_tables([Table(task, tuple(Column(key, key) for key in keys), rows)], "terminal")
    arm, row = found[-1]
    click.echo(f"One of them: recompact show {store.path} {visible(task)} --arm {arm.label} --run {row.run + 1}")


def _print_run(store: Store, arm: ArmRuns, row: TaskRun, full: bool) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out = console()
    title = f"{_shortened(row.task, full)}, {arm.label}, run {row.run + 1} of {arm.runs}"
    out.print(Rule(Text(title, "bold"), align="left"))
    _print_trajectory(out, _read(store, arm, row), full)


def _run_json(store: Store, arm: ArmRuns, row: TaskRun) -> dict[str, Any]:
    return {"arm": arm.label, "run": row.run + 1, **_to_json(_read(store, arm, row))}


def _read(store: Store, arm: ArmRuns, row: TaskRun) -> Trajectory:
    from recompact.evaluation.evaluate import unit_of
    from recompact.store.records import read_trajectory

    return read_trajectory(store, unit_of(arm.settings["key"], row.task, row.run))


# -- one trajectory --------------------------------------------------------------------------------------------------


def _print_trajectory(out: Console, trajectory: Trajectory, full: bool) -> None:
    from rich.rule import Rule
    from rich.text import Text

    for message in trajectory.context.prefix:
        out.print(Text(f"[{message.role}]", "bold blue"))
        out.print(Text(_shortened(message.content, full)))
    by_step = {boundary.step: boundary for boundary in trajectory.boundaries}
    for number, turn in enumerate(trajectory.turns):
        if boundary := by_step.get(number):
            _print_boundary(out, boundary, full)
        out.print(Rule(Text(f"step {number + 1}", "dim"), align="left", style="dim"))
        _print_turn(out, turn, full)
    outcome = "success" if trajectory.score.success else "failure"
    out.print(Rule(style="dim"))
    out.print(
        Text(outcome, "bold green" if trajectory.score.success else "bold red"),
        Text(f"{trajectory.ending} after {trajectory.steps} steps, {len(trajectory.boundaries)} compactions"),
        Text(f"peak {trajectory.peak:,} tokens; {_usage(trajectory)}"),
    )
    for incident in trajectory.incidents:
        told = f"incident at step {incident.step}: {incident.kind}: {_shortened(incident.text, full)}"
        out.print(Text(told, "yellow"))
    if trajectory.error:
        out.print(Text(_shortened(trajectory.error, full), "yellow"))


def _print_boundary(out: Console, boundary: Boundary, full: bool) -> None:
    from rich.panel import Panel
    from rich.text import Text

    notes = [f"{boundary.pre.size:,} -> {boundary.post.size:,} tokens"]
    notes += ["asked again"] * boundary.asked_again + ["cut"] * boundary.cut
    summary = boundary.post.summary
    if summary is None:
        body = f"{len(boundary.pre.turns) - len(boundary.post.turns)} oldest turns dropped"
    else:
        body = _shortened(summary.text, full)
    title = f"boundary {boundary.index}: {', '.join(notes)}"
    out.print(Panel(Text(body), title=Text(title, "bold magenta"), border_style="magenta", title_align="left"))


def _print_turn(out: Console, turn: Turn, full: bool) -> None:
    from rich.text import Text

    if turn.message.content:
        out.print(Text(_shortened(turn.message.content, full), "cyan"))
    for call in turn.message.calls:
        out.print(Text(f"-> {_shortened(call.name, full)}({_shortened(call.arguments, full)})", "cyan"))
    for result in turn.results:
        failed = result.content.startswith(("Error", '{"error"'))
        out.print(Text(_shortened(result.content, full), "red" if failed else ""))


def _usage(trajectory: Trajectory) -> str:
    parts = [f"{role} {u.input:,} in, {u.output:,} out" for role, u in trajectory.usage.items()]
    return "; ".join(parts) or "no tokens"


def _shortened(text: str, full: bool) -> str:
    """As it can be shown: nothing in it steers the terminal, and a long text is cut."""
    from recompact.texts import cut, visible

    kept, more = (text, 0) if full else cut(text, LONG)
    return f"{visible(kept)} … ({more:,} more characters: --full)" if more else visible(kept)


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
