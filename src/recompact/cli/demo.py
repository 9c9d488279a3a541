"""`recompact demo`: the main job on the embedded world, with no key and no network, in under half a minute."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from recompact.store.runs import Overview

BUDGET = 2048
ARMS = {
    "no compaction": 'kind = "none"',
    "FIFO": f'kind = "fifo"\nbudget = {BUDGET}',
    "prompted": f'kind = "prompted"\nbudget = {BUDGET}',
}


@click.command(name="demo")
@click.option("--tasks", type=click.IntRange(1, 90), default=24, show_default=True, help="Tasks of the train split.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Keep the runs here (default: nowhere).")
@json_option
def command(tasks: int, directory: Path | None, as_json: bool) -> None:
    """Run the main job on the embedded world: simulated models, no key, no network.

    The same tasks are done without compaction, with FIFO and with a prompted summary, under a budget of 2,048 tokens.
    """
    if directory is not None:
        runs = _run_all(directory, tasks, quiet=as_json)
        _report(runs, directory, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="recompact-demo-") as scratch:
        runs = _run_all(Path(scratch), tasks, quiet=as_json)
        _report(runs, None, as_json)


def _run_all(directory: Path, tasks: int, *, quiet: bool) -> list[tuple[str, Overview, str]]:
    from recompact.config import parse_config
    from recompact.store.runs import open_run, overview, run_path

    found = []
    for name, compressor in ARMS.items():
        text = f'[suite]\nuse = "pocket"\nlimit = {tasks}\n[compressor]\n{compressor}\n'
        path = run_path(f"demo-{name.replace(' ', '-').lower()}", directory)
        with open_run(path) as store:
            asyncio.run(_collect(parse_config(text, Path("demo.toml")), store, name, quiet))
            found.append((name, overview(store), store.digest("collect/")))
    return found


async def _collect(config: Any, store: Any, name: str, quiet: bool) -> None:
    from recompact.cli.progress import bar
    from recompact.collect import collect
    from recompact.study import open_study

    async with open_study(config, Path(), store, "demo") as study:
        with bar(name, study.spending, quiet=quiet) as shown:
            await collect(study, on_begin=shown.begin, on_done=shown.done, on_step=shown.step)


def _report(runs: list[tuple[str, Overview, str]], kept: Path | None, as_json: bool) -> None:
    import hashlib

    digest = hashlib.sha256("".join(digest for _, _, digest in runs).encode()).hexdigest()
    if as_json:
        print_json({"simulated": True, "arms": {name: run.to_json() for name, run, _ in runs}, "digest": digest})
        click.echo(f"digest: {digest}", err=True)
        return
    _print_table(runs)
    _print_meaning({name: run for name, run, _ in runs})
    if kept:
        click.echo(f"\nThe runs are in {kept}. Look at one: recompact show {kept}/demo-prompted.db")
    else:
        click.echo("\nKeep the runs and look inside:  recompact demo --dir demo-runs")
    click.echo("Run your own agent:             see docs/configuration.md, then recompact collect CONFIG")
    click.echo(f"digest: {digest}")


def _print_table(runs: list[tuple[str, Overview, str]]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, title_justify="left")
    table.title = f"pocket, {runs[0][1].trajectories} tasks, simulated models, budget {BUDGET:,} tokens"
    table.add_column("")
    for heading in ("success", "steps", "compactions", "peak context", "tokens"):
        table.add_column(heading, justify="right")
    for name, run, _ in runs:
        n = run.trajectories
        table.add_row(
            name,
            f"{run.success / n:.1%}",
            f"{run.steps / n:.1f}",
            f"{run.compactions / n:.1f}",
            f"{run.peak / 1000:.2f}k",
            f"{sum(run.tokens.values()) / n / 1000:.1f}k",
        )
    console().print(table)


def _print_meaning(runs: dict[str, Overview]) -> None:
    """One sentence with the numbers of this very run."""
    none, fifo, prompted = (runs[name] for name in ARMS)
    n = none.trajectories
    lost = none.success - prompted.success
    more = (prompted.steps - none.steps) / n
    saved = 1 - prompted.peak / none.peak
    verb = f"lost {lost} of {none.success} solved tasks" if lost > 0 else "lost none of the solved tasks"
    click.echo(
        f"\nWith prompted summaries the agent saw {saved:.0%} less context at its peak, {verb}"
        f" and took {abs(more):.1f} {'more' if more >= 0 else 'fewer'} steps a task;"
        f" dropping old turns instead (FIFO) left {fifo.success} of {n} solved."
        "\nThese are simulated models: the figures show how Recompact works, not how any real model behaves."
    )
