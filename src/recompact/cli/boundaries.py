"""`recompact boundaries`: every compaction of a run with its effect, most harmful first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from recompact.attribution.judgement import Verification, read_verdicts
from recompact.attribution.means import effects_by_phase, phase_table
from recompact.attribution.records import refuse_without_effects, way_to_verify
from recompact.attribution.statement import headline, legend_text
from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import POSITIVE, Directory, Json, as_command
from recompact.cli.progress import waiting
from recompact.engine.store.runs import find_run, is_simulated, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.presentation.report.content.overview import brief_boundary_table, exact_boundary_table
from recompact.values.texts import command_line, quantity


@as_command("boundaries", example="boundaries rooms")
def command(
    run: str,
    *,
    directory: Directory,
    top: Annotated[int, POSITIVE, "How many to list at most."] = 20,
    everything: Annotated[bool, "--all", "List all of them, including those without draws."],
    as_csv: Annotated[bool, "--csv", "Print all of them as CSV."],
    by: Annotated[str | None, click.Choice(["phase"]), "Mean effects by what the agent had just done."],
    as_json: Json,
) -> None:
    """List the boundaries of a run with their effects, most harmful first.

    H is success lost and B is steps added, each with its 95 % interval; draws are PRE + POST; ◆ marks those that the
    verification retained as harmful. Effects of confirmed ones (verify --confirm) use the fresh pairs alone.
    """
    with Store.read(find_run(run, directory)) as store, waiting("reading the boundaries", quiet=as_csv or as_json):
        refuse_without_effects(store)
        every, path, simulated = read_verdicts(store), store.path, is_simulated(store)
        played = bool(every.verdicts or trajectories(store))
        verify = way_to_verify(store)
        phases = effects_by_phase(store, every) if by else {}
    if by and as_json:
        print_json(
            {
                "simulated": simulated,
                "by": by,
                "phases": [{"phase": phase, **asdict(own)} for phase, own in phases.items()],
            }
        )
    elif by:
        print_tables([phase_table(phases, simulated)], "csv" if as_csv else "terminal")
    elif as_json:
        print_json({"simulated": simulated, **every.to_json()})
    elif as_csv:
        print_tables([exact_boundary_table(every)] if every.verdicts else [], "csv")
    else:
        _print(every, path, every.verdicts if everything else every.examined[:top], played, simulated, verify)


def _print(
    every: Verification, path: Path, listed: Sequence[Verdict], played: bool, simulated: bool, verify: str
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
