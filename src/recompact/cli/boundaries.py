"""`recompact boundaries`: every compaction of a run with its effect, most harmful first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from recompact.attribution.findings import Finding, Findings, findings
from recompact.attribution.verifiable import refuse_without_effects, way_to_verify
from recompact.cli.console import json_option, print_json, print_tables, say
from recompact.cli.progress import waiting
from recompact.engine.store.runs import find_run, overview
from recompact.engine.store.store import Store
from recompact.presentation.report.content.boundaries import brief_boundary_table, exact_boundary_table
from recompact.presentation.report.content.harm import with_effect
from recompact.values.texts import command_line, quantity


@click.command(name="boundaries")
@click.argument("run")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list at most.")
@click.option("--all", "everything", is_flag=True, help="List all of them, also those without draws.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all of them as CSV.")
@json_option
def command(run: str, directory: Path, top: int, everything: bool, as_csv: bool, as_json: bool) -> None:
    """List the boundaries of a run with their effects, most harmful first.

    H is success lost and B is steps added, each with its 95 % interval; draws are PRE + POST; * marks those that the
    verification retained. Effects of confirmed ones (verify --confirm) are of the fresh pairs alone.
    """
    with Store.read(find_run(run, directory)) as store, waiting("reading the boundaries", quiet=as_csv or as_json):
        refuse_without_effects(store)
        every, path, simulated = findings(store), store.path, overview(store).simulated
        verify = way_to_verify(store)
    if as_json:
        print_json({"simulated": simulated, **every.to_json()})
    elif as_csv:
        print_tables([exact_boundary_table(every)] if every.boundaries else [], "csv")
    else:
        _print(every, path, every.boundaries if everything else with_effect(every)[:top], simulated, verify)


def _print(every: Findings, path: Path, listed: Sequence[Finding], simulated: bool, verify: str) -> None:
    total, known = len(every.boundaries), len(with_effect(every))
    if not total:
        say(f"{path} has no boundaries: {every.failed.nothing_compacted}.")
        return
    if not known:
        say(f"{path} has {quantity(total, 'boundary')} and no draws yet: {verify}")
        return
    print_tables([brief_boundary_table(listed)])
    more = f"; {total - len(listed)} more with --all" if total > len(listed) else ""
    retained = f"{sum(finding.retained for finding in every.boundaries)} retained (*) by {every.settings.allocation}"
    state = retained if every.settled else "verification is not finished"
    models = " (simulated models)" if simulated else ""
    have = f"{known} of {quantity(total, 'boundary')} {'has' if known == 1 else 'have'} draws in both arms"
    say(f"{have}, {state}{models}{more}.")
    for finding in every.boundaries:
        if finding.left_out:
            say(f"left out: {finding.id}: {finding.left_out}", err=True)
    say(f"Look at one: {command_line('boundary', path, listed[0].id)}")
