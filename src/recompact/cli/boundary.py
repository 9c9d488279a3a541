"""`recompact boundary`: one compaction in full: both contexts, what was dropped, and what the agent did after each."""

from __future__ import annotations

from pathlib import Path

import click

from recompact.attribution.cases import evidence_of
from recompact.attribution.findings import findings
from recompact.attribution.verifiable import refuse_without_effects
from recompact.attribution.verify import boundary_named
from recompact.cli.console import console, json_option, print_json
from recompact.engine.store.runs import find_run, overview
from recompact.engine.store.store import Store
from recompact.presentation.report.content.cases import FULL, TERMINAL, case_of, diagnoses_of
from recompact.presentation.report.content.harm import is_harmful
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
        every = findings(store)
        evidence = evidence_of(store, named, next(f for f in every.boundaries if f.id == named))
        simulated = overview(store).simulated
        diagnosis = diagnoses_of(store).get(named)
    if as_json:
        print_json({"simulated": simulated, **evidence.to_json()})
        return
    harmful = is_harmful(every, evidence.finding)
    print_case(console(), case_of(evidence, harmful, FULL if full else TERMINAL, diagnosis), simulated)
