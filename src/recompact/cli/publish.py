"""`recompact publish`: the boundaries of a run and their continuations as a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from recompact.cli.console import console, print_json, say
from recompact.cli.options import Directory, Json, as_command
from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.presentation.exchange.dataset import publish
from recompact.values.texts import quantity


@as_command("publish", example="publish rooms --license cc-by-4.0")
def command(
    run: str,
    *,
    out: Annotated[Path | None, "The directory to write (default: RUN-dataset)."],
    licence: Annotated[str, "--license", "The licence that you give the dataset, such as cc-by-4.0."],
    directory: Directory,
    as_json: Json,
) -> None:
    """Write RUN as a dataset: boundaries with PRE, POST, H and B, the draws, and the templates, in Parquet with a card.

    It masks likely keys, tokens and passwords, and sends nothing: look through the directory, then upload it
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
    say(f"Written: {out} ({held}). Read its README.md, and look for personal data, before you share it.")
