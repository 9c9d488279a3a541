"""`recompact export-run`: a run in a format that other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from recompact.cli.console import console, print_json, say
from recompact.cli.options import Directory, Json, as_command
from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.presentation.exchange.registry import FORMATS, export_run
from recompact.values.texts import quantity

SHOWN = 5


@as_command("export-run", example="export-run rooms --to inspect")
def command(
    run: str,
    *,
    form: Annotated[str, "--to", f"One of: {', '.join(FORMATS.built_in)}.", {"metavar": "FORMAT"}],
    out: Annotated[Path | None, "The directory to write (default: RUN-FORMAT)."],
    mask: Annotated[bool, "Mask what looks like a key, a token or a password."],
    directory: Directory,
    as_json: Json,
) -> None:
    """Write RUN for other tools: every episode, every continuation of a boundary, the calls that wrote the summaries,
    usage, scores, and verdicts with H and B.

    inspect: logs for `inspect view` and Inspect's dataframes. atif: trajectories for Harbor and what reads them. otlp:
    traces as OTLP/JSON. jsonl: one line for each episode. Texts are written as recorded; --mask hides likely secrets.
    """
    path = find_run(run, directory)
    out = out or Path(f"{path.stem}-{form}")
    with Store.read(path) as store, store.snapshot(), console(stderr=True).status("exporting"):
        files = export_run(store, form, out, mask=mask)
    if as_json:
        print_json({"run": str(path), "format": form, "masked": mask, "files": [str(file) for file in files]})
        return
    for file in files[:SHOWN]:
        say(f"Written: {file}")
    if len(files) > SHOWN:
        say(f"… and {quantity(len(files) - SHOWN, 'more file')} in {out}")
