"""`recompact runs`: the runs in a directory."""

from __future__ import annotations

from pathlib import Path

import click

from recompact.cli.console import json_option, print_json, print_tables, say
from recompact.errors import InputError
from recompact.report.content.overview import overview_table
from recompact.store.runs import SUFFIX, overview
from recompact.store.store import Store


@click.command(name="runs")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@json_option
def command(directory: Path, as_json: bool) -> None:
    """List the runs in a directory."""
    runs = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            with Store.read(path) as store:
                runs.append(overview(store))
        except InputError as error:
            say(f"recompact: {error}", err=True)
    if as_json:
        print_json([run.to_json() for run in runs])
    elif runs:
        print_tables([overview_table(runs)])
    else:
        say(f"There are no runs in {directory}. Make one: recompact collect CONFIG")
