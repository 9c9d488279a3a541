"""`recompact boundaries`: every compaction of a run with its effect, most harmful first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from recompact.attribution.judgement import Verification, read_verdicts
from recompact.attribution.legend import headline, legend_text
from recompact.attribution.phases import effects_by_phase, phase_table
from recompact.attribution.verifiable import refuse_without_effects, way_to_verify
from recompact.cli.console import directory_option, json_option, print_json, print_tables, say
from recompact.cli.progress import waiting
from recompact.engine.store.runs import find_run, is_simulated, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.presentation.report.content.overview import brief_boundary_table, exact_boundary_table
from recompact.values.texts import command_line, quantity


@click.command(name="boundaries")
@click.argument("run")
@directory_option
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list at most.")
@click.option("--all", "everything", is_flag=True, help="List all of them, including those without draws.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all of them as CSV.")
@click.option("--by", type=click.Choice(["phase"]), help="Mean effects by what the agent had just done.")
@json_option
def command(run: str, directory: Path, top: int, everything: bool, as_csv: bool, by: str | None, as_json: bool) -> None:
    """List the boundaries of a run with their effects, most harmful first.

    H is success lost and B is steps added, each with its 95 % interval; draws are PRE + POST; ◆ marks those that the
    verification retained as harmful. Effects of confirmed ones (verify --confirm) are of the fresh pairs alone.
    """
    with Store.read(find_run(run, directory)) as store, waiting("reading the boundaries", quiet=as_csv or as_json):
        refuse_without_effects(store)
        every, path, simulated = read_verdicts(store), store.path, is_simulated(store)
        played = len(trajectories(store))
        verify = way_to_verify(store)
        phases = effects_by_phase(store, every) if by else ()
    if by and as_json:
        print_json({"simulated": simulated, "by": by, "phases": [each.to_json() for each in phases]})
    elif by:
        print_tables([phase_table(phases, simulated)], "csv" if as_csv else "terminal")
    elif as_json:
        print_json({"simulated": simulated, **every.to_json()})
    elif as_csv:
        print_tables([exact_boundary_table(every)] if every.verdicts else [], "csv")
    else:
        _print(every, path, every.verdicts if everything else every.examined[:top], played, simulated, verify)


def _print(
    every: Verification, path: Path, listed: Sequence[Verdict], played: int, simulated: bool, verify: str
) -> None:
    total, known = len(every.verdicts), len(every.examined)
    if not total:
        why = every.failed.nothing_compacted if played else "no task has been played to its end yet"
        say(f"{path} has no boundaries: {why}.")
        return
    if not known:
        say(f"{path} has {quantity(total, 'boundary')} and no draws yet: {verify}")
        return
    print_tables([brief_boundary_table(listed)])
    more = f"; {total - len(listed)} more with --all" if total > len(listed) else ""
    say(legend_text({verdict.kind for verdict in listed}))
    say(headline(every.kinds, every.settled))
    models = " (simulated models)" if simulated else ""
    have = f"{known} of {quantity(total, 'boundary')} {'has' if known == 1 else 'have'} draws in both arms"
    say(f"{have}, by {every.settings.allocation}{models}{more}.")
    for id, reason in every.left_out.items():
        say(f"left out: {id}: {reason}", err=True)
    say(f"Show one: {command_line('boundary', path, listed[0].id)}")
