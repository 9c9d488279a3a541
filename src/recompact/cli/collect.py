"""`recompact collect`: run the tasks of a suite once, and print a table of the results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from recompact.cli.console import accept_option, json_option, print_json, print_tables, run_option, say
from recompact.cli.progress import watch
from recompact.cli.running import (
    dry_run_option,
    ending_early,
    finish,
    print_forecast,
    report_failed_compactions,
    report_skipped,
    report_unfinished,
    skip_option,
)
from recompact.engine.assembly import open_study
from recompact.engine.collection import PHASE, collect
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import UnfinishedUnit
from recompact.engine.store.runs import TrajectoryRow, broken_trajectories, open_run, overview, retry_broken, run_path
from recompact.engine.store.store import Store
from recompact.presentation.report.content.overview import overview_table
from recompact.values.texts import command_line, quantity


@click.command(name="collect")
@click.argument("config", type=click.Path(path_type=Path))
@run_option("the config's file name")
@click.option("--retry", is_flag=True, help="Replay trajectories whose environment broke, and units set aside.")
@accept_option
@skip_option
@dry_run_option
@json_option
def command(
    config: Path,
    run: str | None,
    retry: bool,
    accept_changes: bool,
    skip: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run the tasks of a suite once under a compressor and record every compaction.

    The run is one file in [run] directory. Stop it whenever you like: the same command resumes where it left off, and
    no answered call is sent again. Exit code 2: an environment broke; see --retry.
    """
    loaded = load_config(config)
    path = run_path(run or config.stem, config.parent / loaded.run.directory)
    if dry_run:
        from recompact.evaluation.reproduction.forecast import forecast_collection

        expected = asyncio.run(forecast_collection(loaded, path))
        print_forecast(expected, loaded, path, "json" if as_json else "terminal")
        return
    again = command_line("collect", config, options=["--run", run] if run else [])
    with open_run(path) as store:
        with ending_early(path, again):
            work = _collect(loaded, store, skip, retry=retry, accept_changes=accept_changes, quiet=as_json)
            _, unfinished = finish(work)
        store.check_file()
        broken = broken_trajectories(store, PHASE)
        _report(store, unfinished, broken, again, as_json)
    if unfinished:
        sys.exit(1)
    if broken:
        sys.exit(2)


async def _collect(
    config: Config, store: Store, skip: tuple[str, ...], *, retry: bool, accept_changes: bool, quiet: bool
) -> None:
    async with open_study(config, store, skip=skip, accept_changes=accept_changes) as study:
        if retry:
            retry_broken(store, PHASE)
            store.retry_set_aside()
        with watch(study, "collect", quiet=quiet) as shown:
            await collect(shown)


def _report(
    store: Store, unfinished: tuple[UnfinishedUnit, ...], broken: list[TrajectoryRow], again: str, as_json: bool
) -> None:
    summary = overview(store)
    digest = None if unfinished else store.digest("collect/")
    if as_json:
        print_json({**summary.to_json(), "unfinished": [unit.to_json() for unit in unfinished], "digest": digest})
    else:
        print_tables([overview_table([summary])])
    report_skipped(store)
    report_failed_compactions(summary.failed_compactions, summary.compactions)
    _report_step_limit(store, summary.endings)
    _report_broken(store, summary.endings, broken, again)
    if not unfinished and not as_json and len(broken) < summary.trajectories:
        say(f"Show it: {command_line('show', store.path)} [TASK]")
    report_unfinished(unfinished, "episode", again)
    if not unfinished:
        click.echo(f"digest: {digest}", err=as_json)


def _report_step_limit(store: Store, endings: Mapping[str, int]) -> None:
    """Say how many trajectories ran out of steps: none of them can be a success."""
    if number := endings.get("step limit", 0):
        limit = f"[run] step_limit = {store.metadata.step_limit}"
        say(f"recompact: {number:,} of {sum(endings.values()):,} ended at the step limit ({limit})", err=True)


def _report_broken(store: Store, endings: Mapping[str, int], broken: list[TrajectoryRow], again: str) -> None:
    """Name the first few environments that broke, with the reasons, and count how all trajectories ended."""
    if not broken:
        return
    for row in broken[:5]:
        say(f"environment broke: {row.task}: {store.result(row.unit)['error']}", err=True)
    ways = ", ".join(f"{count:,} {ending}" for ending, count in sorted(endings.items()))
    total = quantity(sum(endings.values()), "trajectory")
    say(
        f"recompact: the environment broke in {len(broken):,} of {total} ({ways}); fix it, then retry"
        f" with: {again} --retry",
        err=True,
    )
