"""`recompact replay`: one boundary compressed again with several templates, continued, and judged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from recompact.attribution.records import boundary_named
from recompact.cli.console import console, directory_option, json_option, print_json, print_tables, run_option, say
from recompact.cli.progress import watch
from recompact.cli.running import ending_early, report_unfinished, this_command
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import UnfinishedUnit
from recompact.engine.store.runs import is_simulated, open_run
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.evaluate import digest as digest_of
from recompact.evaluation.replay import (
    POST,
    Replay,
    UnfinishedReplay,
    cited_boundaries,
    refuse_evaluation,
    replay,
    winners,
)
from recompact.evaluation.replay_tables import case_table, condition_table, fact_table
from recompact.values.candidate import Candidate
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, resolve
from recompact.values.texts import quantity, visible


@click.command(name="replay")
@click.argument("run", metavar="RUN|CONFIG")
@click.argument("boundary", required=False)
@click.option(
    "--cited", is_flag=True, help="Every boundary that a clause of an adapted template answers, in one table."
)
@click.option("--template", "templates", multiple=True, help="NAME=DIRECTORY of a template. Repeatable.")
@click.option("--draws", type=click.IntRange(min=1), default=3, show_default=True, help="Draws of each condition.")
@click.option("--summaries", is_flag=True, help="Print every summary too.")
@run_option("the config's file name, where a CONFIG is given", "name")
@directory_option
@json_option
def command(
    run: str,
    boundary: str | None,
    cited: bool,
    templates: tuple[str, ...],
    draws: int,
    summaries: bool,
    name: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Compress one boundary again with several templates, continue from each summary, and judge if the harm is gone.

    BOUNDARY is task#t, as `recompact boundaries` lists it; --cited takes all that the clauses of the run's adapted
    templates answer, and tries those templates if no other is named. The run's own template always takes part, as the
    control: harm that does not recur with it was an unlucky sample, not a fault of the prompt. Stop it whenever you
    like: the same command resumes, and another --template or more --draws reuse the existing work.
    """
    if bool(boundary) == cited:
        raise click.UsageError("name a BOUNDARY, or ask for --cited")
    path, file = locate_run(run, name, directory)
    config = load_config(file)
    again = this_command()
    with open_run(path) as store:
        refuse_evaluation(store)
        ids = _cited_ids(store) if boundary is None else [boundary_named(store, boundary)]
        chosen = _templates(templates, winners(store) if cited else {})
        with ending_early(path, again):
            results, refused, unfinished = asyncio.run(_replay(config, store, ids, chosen, draws, quiet=as_json))
        if boundary is None:
            _report_all(store, results, refused, as_json)
        for result in results:
            _report(store, result, unfinished, again, summaries, as_json, alone=not cited)
        report_unfinished(unfinished, "draw", again, retry=False)
    if unfinished or refused or any(result.left_out for result in results):
        sys.exit(1)


def _cited_ids(store: Store) -> list[BoundaryId]:
    ids = cited_boundaries(store)
    if not ids:
        raise InputError(f"no adapted template of {store.path} cites a compaction: name a BOUNDARY, or adapt the run")
    return ids


def _templates(texts: tuple[str, ...], adapted: Mapping[str, Candidate]) -> dict[str, Template]:
    templates: dict[str, Template] = {}
    for text in texts:
        name, equals, directory = text.partition("=")
        if not name or not equals or not directory:
            raise InputError(f"--template {text!r}: write NAME=DIRECTORY, as in --template pair=adapted")
        if name in templates:
            raise InputError(f"--template {name!r} is given twice: give each its own name")
        templates[name] = resolve(directory, Path())
    templates = templates or {method: winner.template for method, winner in adapted.items() if winner.template}
    if not templates:
        raise InputError("no template to try: give --template NAME=DIRECTORY once or more")
    return templates


async def _replay(
    config: Config, store: Store, ids: Sequence[BoundaryId], templates: dict[str, Template], draws: int, *, quiet: bool
) -> tuple[list[Replay], dict[str, str], tuple[UnfinishedUnit, ...]]:
    """The replays, why some of several boundaries could not be replayed, and the draws that are still missing."""
    results: list[Replay] = []
    refused: dict[str, str] = {}
    missing: list[UnfinishedUnit] = []
    async with open_study(config, store) as study:
        with watch(study, "replay", quiet=quiet) as shown:
            for id in ids:
                try:
                    results.append(await replay(shown, id, templates, draws))
                except UnfinishedReplay as unfinished:
                    results.append(unfinished.replay)
                    missing += unfinished.units
                except InputError as error:
                    if len(ids) == 1:
                        raise
                    refused[str(id)] = str(error)
    return results, refused, tuple(missing)


def _report_all(store: Store, results: Sequence[Replay], refused: Mapping[str, str], as_json: bool) -> None:
    """Several boundaries: each in JSON, or all in one table."""
    simulated = is_simulated(store)
    if as_json:
        every = [result.to_json() for result in results]
        print_json({"replays": every, "refused": dict(refused), "simulated": simulated})
    else:
        print_tables([case_table(results, simulated=simulated)])
    for id, reason in refused.items():
        click.echo(visible(f"not replayed: {id}: {reason}"), err=True)


def _report(
    store: Store,
    result: Replay,
    unfinished: tuple[UnfinishedUnit, ...],
    again: str,
    summaries: bool,
    as_json: bool,
    alone: bool,
) -> None:
    done = not unfinished and not result.left_out
    digest = digest_of(store, result.units) if done and alone else None
    simulated = is_simulated(store)
    if as_json and alone:
        more = {"simulated": simulated, "unfinished": [unit.to_json() for unit in unfinished], "digest": digest}
        print_json({**result.to_json(), **more})
    elif not as_json:
        if alone:
            _print(result, simulated)
        if summaries:
            _print_summaries(result)
    for unit, reason in result.left_out.items():
        click.echo(visible(f"left out: {unit}: {reason}"), err=True)
    if result.left_out:
        draws = quantity(len(result.left_out), "draw")
        say(f"recompact: {draws} failed; retry with: {again}", err=True)
    if digest:
        click.echo(f"digest: {digest}", err=as_json)


def _print(result: Replay, simulated: bool) -> None:
    facts = fact_table(result)
    print_tables([condition_table(result, simulated=simulated), *([facts] if facts else [])])
    click.echo("")
    for judged in result.verdicts:
        say(f"{judged.template}: {judged.words}")


def _print_summaries(result: Replay) -> None:
    """Every summary in a frame, as plain text whatever it contains."""
    from rich.panel import Panel
    from rich.text import Text

    out = console()
    for condition in result.conditions:
        # There is one original summary, however often it was continued.
        for number, drawn in enumerate(condition.draws[:1] if condition.name == POST else condition.draws, 1):
            if drawn.summary is None:
                continue
            outcome = "success" if drawn.success else "failure"
            ending = "" if condition.name == POST else f" {number}: {outcome} after {quantity(drawn.steps, 'step')}"
            title = Text(f"{visible(condition.name)}{ending}, {drawn.tokens:,} tokens", "bold magenta")
            out.print(Panel(Text(visible(drawn.summary)), title=title, border_style="magenta", title_align="left"))
