"""`recompact replay`: one boundary compressed again with several templates, continued, and judged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click

from recompact.attribution.records import boundary_named
from recompact.cli.console import console, print_json, print_tables, say
from recompact.cli.options import POSITIVE, Directory, Json, OfGivenConfig, as_command
from recompact.cli.progress import watch
from recompact.cli.running import Job, ending_early
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.runs import is_simulated, open_run
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.evaluate import digest as digest_of
from recompact.evaluation.replay import (
    POST,
    Replay,
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


@as_command("replay", example="replay rooms 'coin#1' --template causes=runs/rooms-causes")
def command(
    run: Annotated[str, {"metavar": "RUN|CONFIG"}],
    boundary: str | None,
    *,
    cited: Annotated[bool, "Every boundary that a clause of an adapted template answers, in one table."],
    templates: Annotated[tuple[str, ...], "--template", "NAME=DIRECTORY of a template. Repeatable."],
    draws: Annotated[int, POSITIVE, "Draws of each condition."] = 3,
    summaries: Annotated[bool, "Print every summary too."],
    name: OfGivenConfig,
    directory: Directory,
    as_json: Json,
) -> None:
    """Compress one boundary again with several templates, continue from each, and judge whether the harm is gone.

    BOUNDARY is task#t, as `recompact boundaries` lists it; --cited takes all that the clauses of the run's adapted
    templates answer, and tries those templates if no other is named. The run's own template always takes part, as the
    control: harm that does not recur with it was an unlucky sample, not a fault of the prompt. Stop it whenever you
    like: the same command resumes, and another --template or more --draws reuse the existing work.
    """
    if bool(boundary) == cited:
        raise click.UsageError("name a BOUNDARY, or ask for --cited")
    path, file = locate_run(run, name, directory)
    config = load_config(file)
    job = Job(path, as_json)
    with open_run(path) as store:
        refuse_evaluation(store)
        ids = _cited_ids(store) if boundary is None else [boundary_named(store, boundary)]
        chosen = _templates(templates, winners(store) if cited else {})
        with ending_early(path, job.again):
            results, refused = asyncio.run(_replay(job, config, store, ids, chosen, draws))
        if boundary is None:
            _report_all(store, results, refused, as_json)
        for result in results:
            _report(store, job, result, summaries, alone=not cited)
        job.report_unfinished("draw", retry=False)
    if job.unfinished or refused or any(result.left_out for result in results):
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
    job: Job, config: Config, store: Store, ids: Sequence[BoundaryId], templates: dict[str, Template], draws: int
) -> tuple[list[Replay], dict[str, str]]:
    """The replays, and why some of several boundaries could not be replayed."""
    results: list[Replay] = []
    refused: dict[str, str] = {}
    async with open_study(config, store) as study:
        with watch(study, "replay", quiet=job.as_json) as shown:
            for id in ids:
                try:
                    results.append(await replay(shown, id, templates, draws))
                except Unfinished as unfinished:
                    results.append(unfinished.so_far)
                    job.unfinished += unfinished.units
                except InputError as error:
                    if len(ids) == 1:
                        raise
                    refused[str(id)] = str(error)
    return results, refused


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


def _report(store: Store, job: Job, result: Replay, summaries: bool, alone: bool) -> None:
    done, as_json = not job.unfinished and not result.left_out, job.as_json
    digest = digest_of(store, result.units) if done and alone else None
    simulated = is_simulated(store)
    if as_json and alone:
        more = {"simulated": simulated, "unfinished": job.unfinished_json(), "digest": digest}
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
        say(f"recompact: {draws} failed; retry with: {job.again}", err=True)
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
