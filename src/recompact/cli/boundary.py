"""`recompact boundary`: one compaction in full: both contexts, what was dropped, and what the agent did after each."""

from __future__ import annotations

from pathlib import Path

import click

from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.records import boundary_named
from recompact.attribution.verifiable import refuse_without_effects
from recompact.cli.console import console, json_option, print_json
from recompact.engine.store.runs import find_run, is_simulated
from recompact.engine.store.store import Store
from recompact.presentation.report.content.cases import FULL, TERMINAL, case_of, diagnoses_of
from recompact.presentation.report.terminal import print_case


@click.command(name="boundary")
@click.argument("run")
@click.argument("id")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--full", is_flag=True, help="Show long texts in full.")
@json_option
def command(run: str, id: str, directory: Path, full: bool, as_json: bool) -> None:
    """Show one boundary of a run: the contexts before and after, what was dropped, and what the agent did then.

    ID is task#t, as `recompact boundaries` lists it, such as pocket-train-007#2.
    """
    with Store.read(find_run(run, directory)) as store:
        refuse_without_effects(store)
        named = boundary_named(store, id)
        view = boundary_view(store, named)
        simulated = is_simulated(store)
        diagnosis = diagnoses_of(store).get(named)
    if as_json:
        print_json({"simulated": simulated, **view.to_json()})
        return
    print_case(console(), case_of(view, FULL if full else TERMINAL, diagnosis), simulated)
