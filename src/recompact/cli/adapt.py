"""`recompact adapt`: adapt the template of a config, in the paper's four steps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, cast

import click

from recompact.adaptation.adapt import Adaptation, Stage, adapt
from recompact.adaptation.method import Method, installed_methods, method_in
from recompact.adaptation.result import OTHERS, RESULT, write_result
from recompact.adaptation.selection import fit_table
from recompact.attribution.records import settings_of
from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import DryRun, Json, OfConfig, Skip, as_command
from recompact.cli.running import (
    Job,
    print_forecast,
    report_failed_compactions,
    report_skipped,
    this_command,
)
from recompact.engine.assembly import check_identity
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.shared_starts import sharing
from recompact.engine.store.runs import open_run, overview, run_path
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL
from recompact.values.outputs import check_directory
from recompact.values.template import resolve
from recompact.values.texts import command_line

STAGES = ("collect", "verify", "revise", "select")


@as_command("adapt", example="adapt rooms.toml")
def command(
    config: Path,
    *,
    run: OfConfig,
    out: Annotated[Path | None, "Directory for the adapted template (default: beside the run)."],
    allocation: Annotated[str | None, "Verify by this allocation, even if the run was verified by another one."],
    method: Annotated[str | None, "The method, in place of [adapt] method: pair, facts, acon-ut, …, file.py:name."],
    until: Annotated[str, click.Choice(STAGES), "Stop after this stage."] = "select",
    begin: Annotated[str | None, "--from", click.Choice(STAGES), "Redo this stage and those after it."],
    retry: Annotated[bool, "Replay units that were set aside."],
    skip: Skip,
    dry_run: DryRun,
    as_json: Json,
) -> None:
    """Adapt the compaction prompt: collect, verify, revise, select.

    Stop it whenever you like: the same command resumes where it left off. The result is a directory with the adapted
    template, a manifest, and CHANGES.md, which lists section by section what changed and which observed failure was the
    reason. A verified run keeps its verification, unless --allocation asks for another one. Exit code 2: no
    answer of the optimizer was usable; the same command asks it again.
    """
    loaded = load_config(config)
    if method:
        same = method == loaded.adapt.method
        options = loaded.adapt.options if same else {}
        loaded = replace(loaded, adapt=replace(loaded.adapt, method=method, options=options))
    chosen = method_in(loaded)
    path = run_path(run or config.stem, config.parent / loaded.run.directory)
    if dry_run:
        from recompact.attribution.registry import with_allocation
        from recompact.evaluation.reproduction.forecast import forecast_adaptation

        if allocation:
            loaded = replace(loaded, verify=with_allocation(loaded.verify, allocation))
        expected = asyncio.run(forecast_adaptation(loaded, chosen, path))
        print_forecast(expected, loaded, path, "json" if as_json else "terminal")
        return
    target = out or path.with_suffix("").with_name(f"{path.stem}-{chosen.name}")
    if until == "select":
        check_directory(target, RESULT)  # before anything is paid for
    job = Job(path, as_json, this_command(without=["--from"]))  # which would throw away what was done since
    with open_run(path) as store:
        if begin:
            check_identity(store, loaded, resolve(loaded.compressor.template, loaded.directory))
            _forget(store, begin, chosen)
        if retry:
            store.retry_set_aside()
        if chosen.needs_effects and allocation is None:
            _say_verification(store, loaded)

        async def work(study: Study) -> tuple[Study, Adaptation]:
            return study, await adapt(study, cast("Stage", until), allocation)

        title = f"adapt, {chosen.name}, scope {loaded.compressor.scope}"
        result = job.play(loaded, store, title, work, method=chosen, skip=skip)
        written = None
        if result and until == "select" and not result[1].unusable:
            study, adaptation = result
            write_result(study, adaptation, target, datetime.now(UTC).date().isoformat())
            written = target
        _report(store, job, result[1] if result else None, written, until)
    if job.unfinished:
        sys.exit(1)
    if result and result[1].unusable:
        sys.exit(2)


def _say_verification(store: Store, config: Config) -> None:
    """Point out that the run was verified with other settings than the config's: those of the run count."""
    if store.metadata.verified is None or (settings := settings_of(store)) == config.verify:
        return
    click.echo(
        f"Using the run's own verification by {settings.allocation} (H >= {settings.hazard:g} or B >="
        f" {settings.burden:g}). The config now has {config.verify.allocation} (H >= {config.verify.hazard:g} or B >="
        f" {config.verify.burden:g}); to verify by that, add --allocation {config.verify.allocation}.",
        err=True,
    )


def _forget(store: Store, begin: str, chosen: Method) -> None:
    """Drop what a stage and those after it recorded, and what methods made of it."""
    methods, metadata = [chosen], store.metadata
    if begin in ("collect", "verify"):  # what other methods learned from the old boundaries or effects is out of date
        methods += [method for method in installed_methods() if begin == "collect" or method.needs_effects]
        metadata = replace(metadata, verified=None)
    outdated = metadata.adaptations if begin == "collect" else {method.name for method in methods}
    kept = {name: record for name, record in metadata.adaptations.items() if name not in outdated}
    store.set_metadata(replace(metadata, adaptations=kept))
    store.forget_units(_phases(begin, methods))


def _phases(begin: str, methods: Sequence[Method]) -> tuple[str, ...]:
    """What the names of the units of a stage and those after it begin with."""
    names = {
        "collect": ("collect/", "replay/"),  # a replay is of a boundary that was collected
        "verify": ("continue/", "control/", "confirm/", "resample/"),  # the last three were made for this verification
        "revise": tuple(dict.fromkeys(phase for method in methods for phase in method.phases)),
        "select": ("select/",),
    }
    return tuple(name for stage in STAGES[STAGES.index(begin) :] for name in names[stage])


def _report(store: Store, job: Job, adaptation: Adaptation | None, target: Path | None, until: str) -> None:
    run, shared = overview(store), sharing(store, "select")
    digest = store.digest(without="replay/") if adaptation else None
    selection = adaptation.selection if adaptation else None
    decided = adaptation is not None and until == "select" and not adaptation.unusable
    if job.as_json:
        print_json(
            {
                "winner": adaptation.winner if decided and adaptation else None,
                "statement": selection.statement if selection else adaptation.statement if adaptation else None,
                "unusable": adaptation.unusable if adaptation else False,
                "evidence": asdict(adaptation.evidence) if adaptation and adaptation.evidence else None,
                "selection": [vars(fit) for fit in selection.fits] if selection else [],
                "excluded_runs": list(selection.excluded) if selection else [],
                "candidates": [
                    {"name": c.name, "valid": c.template is not None, "refused": list(c.objections)}
                    for c in (adaptation.candidates if adaptation else ())
                ],
                "failed_compactions": vars(run.failed_compactions),
                "directory": str(target) if target else None,
                "shared": asdict(shared),
                "skipped": list(store.metadata.skipped),
                "unfinished": job.unfinished_json(),
                "digest": digest,
            }
        )
    elif adaptation:
        _print(adaptation, target, until, job.again)
        if shared.statement:
            say(shared.statement)
    report_skipped(store)
    if job.as_json or not adaptation or run.failed_compactions.words not in adaptation.statement:  # which said so
        report_failed_compactions(run.failed_compactions, run.compactions)
    job.report_unfinished("unit")
    if digest:
        click.echo(f"digest: {digest}", err=job.as_json)


def _print(adaptation: Adaptation, target: Path | None, until: str, again: str) -> None:
    if adaptation.evidence:
        say(adaptation.evidence.statement)
        if adaptation.evidence.by_rule:
            say(adaptation.evidence.by_rule)
    if adaptation.selection:
        print_tables([fit_table(adaptation.selection)])
        say(adaptation.selection.statement)
    for candidate in adaptation.candidates:
        if candidate.template is None and candidate.objections != (adaptation.statement,):
            say(f"{candidate.name} could not be used: {'; '.join(candidate.objections)}")
    if adaptation.unusable:
        say(f"recompact: {adaptation.statement}", err=True)
        say(f"Nothing was changed. To ask the optimizer again: {again}", err=True)
    elif adaptation.statement:
        say(adaptation.statement)
    elif not adaptation.selection and until != "select":
        say(f"Stopped after {until}, as requested.")
    if target:
        say(f"The template, its manifest and CHANGES.md are in {target}")
        if others := [c.name for c in adaptation.candidates if c.template and c.name != adaptation.winner]:
            say(f"Not chosen, but templates that evaluate takes too: {', '.join(others)}, in {target / OTHERS}")
        if adaptation.winner != ORIGINAL:
            say(f"To use it in your harness: {command_line('export', target, options=['--to', 'HARNESS'])}")
