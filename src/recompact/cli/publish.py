"""`recompact publish`: the boundaries of a run and their continuations as a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from recompact.cli.console import console, directory_option, json_option, print_json, say
from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.presentation.exchange.dataset import publish
from recompact.values.texts import quantity


@click.command(name="publish")
@click.argument("run")
@click.option("--out", type=click.Path(path_type=Path), help="The directory to write (default: RUN-dataset).")
@click.option("--license", "licence", required=True, help="The licence that you give the dataset, such as cc-by-4.0.")
@directory_option
@json_option
def command(run: str, out: Path | None, licence: str, directory: Path, as_json: bool) -> None:
    """Write RUN as a dataset: boundaries with PRE, POST, H and B, the draws, and the templates, in Parquet with a card.

    Likely keys, tokens and passwords are masked. Nothing is sent anywhere: look through the directory, then upload it
    yourself.
    """
    path = find_run(run, directory)
    out = out or Path(f"{path.stem}-dataset")
    with Store.read(path) as store, store.snapshot(), console(stderr=True).status("writing"):
        counts = publish(store, out, licence)
    if as_json:
        print_json({"run": str(path), "directory": str(out), "license": licence, "rows": counts})
        return
    held = f"{quantity(counts['boundaries'], 'boundary')}, {quantity(counts['draws'], 'draw')}"
    say(f"Written: {out} ({held}). Read its README.md, and look for personal data, before you give it away.")
