"""`recompact boundaries`: every compaction of a run with its effect, most harmful first."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from recompact.attribution.findings import Finding, Findings


@click.command(name="boundaries")
@click.argument("run")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="So many at the most.")
@click.option("--all", "everything", is_flag=True, help="All of them, also those with no draws.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all of them as CSV.")
@json_option
def command(run: str, directory: Path, top: int, everything: bool, as_csv: bool, as_json: bool) -> None:
    """List the boundaries of a run with their effects, most harmful first.

    H is success lost and B is steps added, each with its 95 % interval; draws are PRE + POST; * marks those that the
    verification retained as harmful.
    """
    from recompact.attribution.findings import findings
    from recompact.store.runs import find_run, overview
    from recompact.store.store import Store

    with Store.read(find_run(run, directory)) as store:
        found = findings(store)
        name = store.path
        simulated = overview(store).simulated
    if as_json:
        print_json({"simulated": simulated, **found.to_json()})
    elif as_csv:
        _print_csv(found)
    else:
        _print(found, name, found.boundaries if everything else _with_effect(found)[:top], simulated)


def _with_effect(found: Findings) -> list[Finding]:
    return [finding for finding in found.boundaries if finding.effect is not None]


def _print(found: Findings, path: Path, shown: Sequence[Finding], simulated: bool) -> None:
    known = _with_effect(found)
    if not found.boundaries:
        click.echo(f"{path} has no boundaries: nothing was compacted.")
        return
    if not known:
        click.echo(f"{path} has {len(found.boundaries)} boundaries and no draws yet: recompact verify {path}")
        return
    console().print(boundary_table(shown))
    rest = len(found.boundaries) - len(shown)
    more = f"; {rest} more with --all" if rest else ""
    harmful = sum(finding.retained for finding in found.boundaries)
    said = f"{harmful} harmful (*) by {found.settings.allocation}" if found.settled else "verification is not finished"
    models = " (simulated models)" if simulated else ""
    click.echo(f"{len(known)} of {len(found.boundaries)} boundaries have draws in both arms, {said}{models}{more}.")
    for finding in found.boundaries:
        if finding.left_out:
            click.echo(f"left out: {finding.id}: {finding.left_out}", err=True)
    click.echo(f"Look at one: recompact boundary {path} {shown[0].id}")


def _print_csv(found: Findings) -> None:
    rows = [{"boundary": str(f.id), **f.flat()} for f in found.boundaries]
    if rows:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def boundary_table(shown: Sequence[Finding]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("boundary", overflow="fold")
    for name in ("step", "H", "95 %", "B", "95 %", "draws"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("channel", no_wrap=True)
    for finding in shown:
        effect = finding.effect
        label = Text(f"{finding.id}{' *' * finding.retained}", "bold" if finding.retained else "")
        draws = f"{len(finding.outcomes.pre)}+{len(finding.outcomes.post)}"
        if effect is None:
            said = "left out" if finding.left_out else "-"
            table.add_row(label, str(finding.row.step), "-", "", "-", "", draws, said)
            continue
        h, b = effect.hazard_estimate, effect.burden_estimate
        table.add_row(
            label,
            str(finding.row.step),
            f"{effect.hazard:+.2f}",
            f"{round(h.low, 1) + 0.0:.1f} to {round(h.high, 1) + 0.0:.1f}",  # + 0.0: no negative zero
            f"{effect.burden:+.1f}",
            f"{round(b.low)} to {round(b.high)}",
            draws,
            effect.channel if effect.channel != "none" else "-",
        )
    return table
