"""`recompact show`: a run as a table, or one trajectory in full with its boundaries marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from recompact.context import Turn
    from recompact.store.store import Store
    from recompact.trajectory import Boundary, Trajectory

LONG = 1200  # characters of a text that are shown without --full


@click.command(name="show")
@click.argument("run")
@click.argument("task", required=False)
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--full", is_flag=True, help="Show long texts whole.")
@json_option
def command(run: str, task: str | None, directory: Path, full: bool, as_json: bool) -> None:
    """Print a run, or the trajectory of one TASK with its boundaries marked."""
    from recompact.store.runs import find_run
    from recompact.store.store import Store

    with Store.read(find_run(run, directory)) as store:
        if task is None:
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
    import difflib

    from recompact.errors import InputError
    from recompact.store.records import read_trajectory
    from recompact.store.runs import trajectories

    rows = trajectories(store, task)
    if not rows:
        known = [row.task for row in trajectories(store)]
        near = difflib.get_close_matches(task, known, 3, 0.3) or known[:3]
        raise InputError(f"{store.path} has no trajectory of task {task!r}; it has {', '.join(near)} …")
    found = [read_trajectory(store, row.unit) for row in rows]
    if as_json:
        print_json([_to_json(t) for t in found])
        return
    for trajectory in found:
        _print_trajectory(console(), trajectory, full)


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
        out.print(Text(f"incident at step {incident.step}: {incident.kind}: {incident.text}", "yellow"))
    if trajectory.error:
        out.print(Text(trajectory.error, "yellow"))


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
        out.print(Text(f"-> {call.name}({_shortened(call.arguments, full)})", "cyan"))
    for result in turn.results:
        failed = result.content.startswith(("Error", '{"error"'))
        out.print(Text(_shortened(result.content, full), "red" if failed else ""))


def _usage(trajectory: Trajectory) -> str:
    parts = [f"{role} {u.input:,} in, {u.output:,} out" for role, u in trajectory.usage.items()]
    return "; ".join(parts) or "no tokens"


def _shortened(text: str, full: bool) -> str:
    return text if full or len(text) <= LONG else f"{text[:LONG]} … ({len(text) - LONG:,} more characters: --full)"


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
