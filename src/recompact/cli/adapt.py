"""`recompact adapt`: from a config to a better template, in the paper's four steps."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import json_option, print_json, print_tables, say

if TYPE_CHECKING:
    from recompact.adaptation.adapt import Adapted
    from recompact.cli.progress import Bar

STAGES = ("collect", "verify", "revise", "select")


@click.command(name="adapt")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--run", help="Name of the run (default: the config's file name).")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where the adapted template goes (default: beside the run)."
)
@click.option(
    "--method", type=click.Choice(["pair", "acon-ut", "acon-utco", "acon-ut-locked"]), help="Instead of [adapt]."
)
@click.option("--until", type=click.Choice(STAGES), default="select", show_default=True, help="Stop after this stage.")
@click.option("--from", "begin", type=click.Choice(STAGES), help="Do this stage and those after it anew.")
@json_option
def command(
    config: Path,
    run: str | None,
    out: Path | None,
    method: str | None,
    until: str,
    begin: str | None,
    as_json: bool,
) -> None:
    """Adapt the compaction prompt: collect, verify, revise, select.

    Stop it as you like: the same command goes on where it was. The result is a directory with the adapted template, a
    manifest, and CHANGES.md, which says per section what changed and because of which observed failure.
    """
    from dataclasses import replace

    from recompact.adaptation.result import write_result
    from recompact.cli.running import ending_early
    from recompact.config import load_config
    from recompact.store.runs import open_run, run_path

    loaded = load_config(config)
    if method:
        loaded = replace(loaded, adapt=replace(loaded.adapt, method=method))  # type: ignore[arg-type]
    path = run_path(run or config.stem, config.parent / loaded.run.directory)
    target = out or path.with_suffix("").with_name(f"{path.stem}-{loaded.adapt.method}")
    again = "recompact " + " ".join(sys.argv[1:])
    with open_run(path) as store:
        if begin:
            store.forget_units(_phases(begin))
        with ending_early(path, again):
            study, adapted = asyncio.run(_adapt(loaded, config, store, until, quiet=as_json))
        finished = until == "select" and not adapted.unfinished
        if finished:
            write_result(study, adapted, target, datetime.now(UTC).date().isoformat())
        _report(store, adapted, target if finished else None, until, again, as_json)
    if adapted.unfinished:
        sys.exit(1)


async def _adapt(config: Any, file: Path, store: Any, until: Any, quiet: bool) -> tuple[Any, Adapted]:
    from recompact.adaptation.adapt import adapt
    from recompact.cli.progress import bar
    from recompact.study import open_study

    async with open_study(config, file.parent, store, "adapt", file) as study:
        with bar("adapt", study.spending, quiet=quiet) as shown:
            return study, await adapt(study, Stages(shown), until)


class Stages:
    """Stages on one bar: it begins anew with each."""

    def __init__(self, shown: Bar) -> None:
        self._shown = shown

    def begin(self, stage: str, total: int) -> None:
        self._shown.stage(stage, total)

    def done(self) -> None:
        self._shown.done()

    def step(self) -> None:
        self._shown.step()


def _phases(begin: str) -> tuple[str, ...]:
    """Names of units that a stage and those after it begin with."""
    names = {
        "collect": ("collect/", "replay/"),  # a replay is of a boundary that was collected
        "verify": ("continue/",),
        "revise": ("diagnose/", "revise/", "feedback/", "analyse/", "baseline/", "compress/"),
        "select": ("select/",),
    }
    return tuple(name for stage in STAGES[STAGES.index(begin) :] for name in names[stage])


def _report(store: Any, adapted: Adapted, target: Path | None, until: str, again: str, as_json: bool) -> None:
    from recompact.cli.running import tell_unfinished, unfinished_json

    digest = None if adapted.unfinished else store.digest(without="replay/")
    if as_json:
        selection = adapted.selection
        print_json(
            {
                "winner": adapted.winner,
                "statement": selection.statement if selection else None,
                "selection": [vars(fit) for fit in selection.fits] if selection else [],
                "candidates": [
                    {"name": c.name, "valid": c.template is not None, "refused": list(c.refused)}
                    for c in adapted.candidates
                ],
                "directory": str(target) if target else None,
                "unfinished": unfinished_json(adapted.unfinished),
                "digest": digest,
            }
        )
    else:
        _print(adapted, target, until)
    if adapted.unfinished:
        tell_unfinished(adapted.unfinished, "units", again)
    elif digest:
        click.echo(f"digest: {digest}", err=as_json)


def _print(adapted: Adapted, target: Path | None, until: str) -> None:
    from recompact.adaptation.fit_table import fit_table

    if adapted.selection:
        print_tables([fit_table(adapted.selection)])
        say(adapted.selection.statement)
    for candidate in adapted.candidates:
        if candidate.template is None:
            say(f"{candidate.name} could not be used: {'; '.join(candidate.refused)}")
    if not adapted.unfinished and not adapted.selection:
        if until != "select":
            click.echo(f"Stopped after {until}, as asked.")
        elif not adapted.candidates:
            click.echo("No boundary was retained as harmful, so there is nothing to adapt: the original stays.")
    if target:
        click.echo(f"The template, its manifest and CHANGES.md are in {target}")
