"""`recompact runs`: the runs in a directory, with their date, stage, models and cost."""

from __future__ import annotations

from dataclasses import asdict

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import Directory, Json, as_command
from recompact.engine.store.runs import SUFFIX, Overview, overview
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.overview import overview_notes
from recompact.presentation.view.runs import cost_of
from recompact.values.tables import Column, Number, Row, Table, columns


@as_command("runs", example="runs")
def command(*, directory: Directory, as_json: Json) -> None:
    """List the runs in a directory: when, how far, with which models, at what cost."""
    runs: list[tuple[Overview, float | None]] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            with Store.read(path) as store:
                runs.append((overview(store), cost_of(store)))
        except InputError as error:
            say(f"recompact: {error}", err=True)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            say(f"recompact: {path} is damaged and left out: {type(error).__name__}: {error}", err=True)
    if as_json:
        print_json([{**asdict(run), "cost": cost} for run, cost in runs])
    elif runs:
        print_tables([_table(runs)])
    else:
        say(f"There are no runs in {directory}. Make one: recompact collect CONFIG")


def _table(runs: list[tuple[Overview, float | None]]) -> Table:
    heads = (
        Column("run", "run", fold=True),
        Column("stage", "stage, date", fold=True),
        *columns("trajectories", "success", "tokens", "cost", success="success, %", tokens="tokens, M"),
        Column("settings", "suite, compressor, models", fold=True),
    )
    notes = overview_notes([run for run, _ in runs])
    return Table("", heads, tuple(_row(run, cost) for run, cost in runs), notes)


def _row(run: Overview, cost: float | None) -> Row:
    n = run.trajectories
    return (
        run.name + "*" * run.simulated,
        f"{run.stage} {run.changed[:10]}",
        n,
        Number(100 * run.success / n) if n else None,
        Number(sum(run.tokens.values()) / 1e6, 2),
        Number(cost, 2) if cost is not None else None,
        ", ".join([run.suite, run.compressor, *run.models]),
    )
