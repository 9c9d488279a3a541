"""`recompact collect`: run the tasks of a suite once, and say in a table what came out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import json_option, print_json, print_tables
from recompact.cli.running import skip_option

if TYPE_CHECKING:
    from recompact.config import Config
    from recompact.execution.scheduler import UnfinishedUnit
    from recompact.store.store import Store


@click.command(name="collect")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--run", "run", help="Name of the run (default: the config's file name).")
@click.option("--retry", is_flag=True, help="Play units again that were set aside.")
@skip_option
@json_option
def command(config: Path, run: str | None, retry: bool, skip: tuple[str, ...], as_json: bool) -> None:
    """Run the tasks of a suite once under a compressor and record every compaction.

    The run is one file in [run] directory. Stop it as you like: the same command goes on where it was, and no call
    that was answered is sent again.
    """
    from recompact.cli.running import ending_early, finished
    from recompact.config import load_config
    from recompact.store.runs import open_run, run_path

    loaded = load_config(config)
    path = run_path(run or config.stem, config.parent / loaded.run.directory)
    again = f"recompact collect {config}" + (f" --run {run}" if run else "")
    with open_run(path) as store:
        with ending_early(path, again):
            if retry:
                store.retry_set_aside()
            _, unfinished = finished(_collect(loaded, store, skip, quiet=as_json))
        _report(store, unfinished, again, as_json)
    if unfinished:
        sys.exit(1)


async def _collect(config: Config, store: Store, skip: tuple[str, ...], quiet: bool) -> None:
    from recompact.cli.progress import watched
    from recompact.collection import collect
    from recompact.study import open_study

    async with open_study(config, store, skip=skip) as study:
        with watched(study, "collect", quiet=quiet) as shown:
            await collect(shown)


def _report(store: Store, unfinished: tuple[UnfinishedUnit, ...], again: str, as_json: bool) -> None:
    from recompact.cli.running import report_skipped, report_unfinished
    from recompact.report.content.overview import overview_table
    from recompact.store.runs import overview

    summary = overview(store)
    digest = None if unfinished else store.digest("collect/")
    if as_json:
        print_json({**summary.to_json(), "unfinished": [unit.to_json() for unit in unfinished], "digest": digest})
    else:
        print_tables([overview_table([summary])])
        if not unfinished:
            click.echo(f"Look at it: recompact show {store.path} [TASK]")
    report_skipped(store)
    report_unfinished(unfinished, "episodes", again)
    if not unfinished:
        click.echo(f"digest: {digest}", err=as_json)
