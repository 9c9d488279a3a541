"""`recompact runs`: what there is."""

from __future__ import annotations

from pathlib import Path

import click

from recompact.cli.console import console, json_option, print_json


@click.command(name="runs")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@json_option
def command(directory: Path, as_json: bool) -> None:
    """List the runs in a directory."""
    from recompact.errors import InputError
    from recompact.store.runs import SUFFIX, overview
    from recompact.store.store import Store

    found = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            with Store.read(path) as store:
                found.append(overview(store))
        except InputError as error:
            click.echo(f"recompact: {error}", err=True)
    if as_json:
        print_json([run.to_json() for run in found])
    elif not found:
        click.echo(f"There are no runs in {directory}. Make one: recompact collect CONFIG")
    else:
        from recompact.cli.tables import overview_table

        console().print(overview_table(found))
