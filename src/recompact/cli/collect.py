"""`recompact collect`: run the tasks of a suite once, and print a table of the results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import Accept, DryRun, Json, OfConfig, Skip, as_command
from recompact.cli.running import Job, print_forecast, report_failed_compactions, report_skipped
from recompact.engine.collection import PHASE, collect
from recompact.engine.config_parser import load_config
from recompact.engine.store.runs import TrajectoryRow, broken_trajectories, open_run, overview, retry_broken, run_path
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.presentation.report.content.overview import overview_table
from recompact.values.texts import command_line, quantity


@as_command("collect", example="collect rooms.toml --dry-run")
def command(
    config: Path,
    *,
    run: OfConfig,
    retry: Annotated[bool, "Replay trajectories whose environment broke, and units set aside."],
    accept_changes: Accept,
    skip: Skip,
    dry_run: DryRun,
    as_json: Json,
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
    job = Job(path, as_json, command_line("collect", config, options=["--run", run] if run else []))
    with open_run(path) as store:

        async def work(study: Study) -> None:
            if retry:
                retry_broken(store, PHASE)
                store.retry_set_aside()
            await collect(study)

        job.play(loaded, store, "collect", work, skip=skip, accept_changes=accept_changes)
        store.check_file()
        broken = broken_trajectories(store, PHASE)
        _report(store, job, broken)
    if job.unfinished:
        sys.exit(1)
    if broken:
        sys.exit(2)


def _report(store: Store, job: Job, broken: list[TrajectoryRow]) -> None:
    summary, unfinished = overview(store), job.unfinished
    digest = None if unfinished else store.digest("collect/")
    if job.as_json:
        print_json({**asdict(summary), "unfinished": job.unfinished_json(), "digest": digest})
    else:
        print_tables([overview_table([summary])])
    report_skipped(store)
    report_failed_compactions(summary.failed_compactions, summary.compactions)
    _report_step_limit(store, summary.endings)
    _report_broken(store, summary.endings, broken, job.again)
    if not unfinished and not job.as_json and len(broken) < summary.trajectories:
        say(f"Show it: {command_line('show', store.path)} [TASK]")
    job.report_unfinished("episode")
    if not unfinished:
        click.echo(f"digest: {digest}", err=job.as_json)


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
