"""`recompact verify`: find the harmful compactions of a collected run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.attribution.cached_input import CachedInput, cache_sentence, cached_input
from recompact.attribution.chained import without_chaining
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.means import violations_added
from recompact.attribution.records import (
    LOOP,
    digest as digest_of,
    further_draws,
    outcomes_in,
    refuse_without_effects,
    retry_left_out,
    settings_of,
    way_to_verify,
)
from recompact.attribution.registry import allocation_names, allocation_of, with_allocation
from recompact.attribution.statement import Statement, control_of, statement_of
from recompact.attribution.uniform import PostOnly, Uniform
from recompact.attribution.verify import make_further_draws, verify
from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import POSITIVE, Directory, DryRun, Json, OfGivenConfig, Skip, as_command
from recompact.cli.running import Job, print_forecast, report_skipped
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.store.runs import config_of, find_run, is_simulated, open_run
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.evaluation.reproduction.forecast import forecast_verification
from recompact.presentation.report.content.overview import brief_boundary_table
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.texts import command_line, quantity

TOP = 20  # harmful boundaries that are listed right away


@as_command("verify", example="verify rooms.toml")
def command(
    run: Annotated[str, {"metavar": "RUN|CONFIG"}],
    *,
    name: OfGivenConfig,
    directory: Directory,
    allocation: Annotated[str | None, f"How draws are spent: {allocation_names()}."],
    draws: Annotated[int | None, POSITIVE, "N draws in each arm of every boundary: uniform:N."],
    control: Annotated[str | None, click.Choice(["aa"]), "Run the A/A control instead: both arms from PRE."],
    confirm: Annotated[int | None, POSITIVE, "Then make N fresh pairs at each retained boundary."],
    resample: Annotated[int | None, POSITIVE, "Then make N POST draws there, each with a fresh summary."],
    dry_run: DryRun,
    partial: Annotated[bool, "Verify the tasks collected so far."],
    retry: Annotated[bool, "Retry boundaries whose environment broke."],
    skip: Skip,
    as_json: Json,
) -> None:
    """Continue from every boundary with and without its compaction, and retain the harmful ones.

    Needs a run recorded by `collect`. Stop it whenever you like: the same command resumes where it left off. Another
    --allocation, or more --draws, reuses the draws of the run and makes only the missing ones.
    """
    if draws and allocation:
        raise click.UsageError("--draws N is --allocation uniform:N: give one of the two")
    _refuse_unverifiable(run, directory)
    path, file = locate_run(run, name, directory)
    config = load_config(file)
    chosen = f"uniform:{draws}" if draws else allocation
    beside = bool(control or confirm or resample)
    if dry_run:
        with Store.read(path) as store:
            config = _verify_config(store, config, chosen, beside)
            print_forecast(forecast_verification(config, store), config, path, "json" if as_json else "terminal")
        return
    job = Job(path, as_json)
    with open_run(path) as store:
        config = _verify_config(store, config, chosen, beside)
        if retry:
            retry_left_out(store)
            store.retry_set_aside()
        if control:
            broken = _control(job, config, store)
        else:
            broken = _verify(job, config, store, partial, {"confirm": confirm, "resample": resample}, skip)
        statement = _report(store, job, broken is not None, config)
    _report_broken(broken or {})
    if job.unfinished:
        sys.exit(1)
    if statement.boundaries and (statement.left_out == statement.boundaries if control else not statement.examined):
        sys.exit(2)


def _refuse_unverifiable(run: str, directory: Path) -> None:
    """Raise for a RUN that has no compactions to continue from, or no config to do it with."""
    if run.endswith(".toml"):
        return
    with Store.read(find_run(run, directory)) as store:
        refuse_without_effects(store)
        if store.metadata.suite == LOOP and not store.metadata.config_file:
            raise InputError(f"{store.path} has no config: {way_to_verify(store)}")


def locate_run(run: str, name: str | None, directory: Path) -> tuple[Path, Path]:
    """The run's file and its config, from either of the two."""
    if run.endswith(".toml"):
        file = Path(run)
        return find_run(name or file.stem, file.parent / load_config(file).run.directory), file
    path = find_run(run, directory)
    with Store.read(path) as store:
        return path, config_of(store)


def _verify_config(store: Store, config: Config, allocation: str | None, beside: bool) -> Config:
    """The config with the settings that apply. Draws `beside` a verification go by those of the run's own, if it has
    one, so that asking for them does not change what was verified."""
    if allocation:
        return replace(config, verify=with_allocation(config.verify, allocation))
    return replace(config, verify=settings_of(store, config.verify)) if beside else config


_Broken = dict[str, Mapping["BoundaryId", str]]
"""The boundaries whose environment broke draws beside the verification, with the reasons, by the draws' purpose."""


def _verify(
    job: Job, config: Config, store: Store, partial: bool, further: Mapping[str, int | None], skip: tuple[str, ...]
) -> _Broken | None:
    async def work(study: Study) -> _Broken:
        retained, broken = [each.id for each in (await verify(study, partial=partial)).retained], {}
        if confirm := further["confirm"]:
            drawn = await make_further_draws(study, "confirm", Uniform(confirm), retained)
            broken["confirm"] = drawn.left_out
        if resample := further["resample"]:
            drawn = await make_further_draws(study, "resample", PostOnly(resample), retained)
            broken["resample"] = drawn.left_out
        return broken

    (expected,) = forecast_verification(config, store).works
    floor = expected.done + expected.expected.units
    return job.play(config, store, "verify", work, floor=floor, skip=skip)


def _control(job: Job, config: Config, store: Store) -> _Broken | None:
    """The A/A control: the same allocation, both arms from PRE."""
    allocation, known = without_chaining(allocation_of(store, config.verify)), outcomes_in(store).outcomes
    drawn = job.play(config, store, "control", lambda study: make_further_draws(study, "control", allocation, known))
    return None if drawn is None else {"control": drawn.left_out}


def _report_broken(broken: _Broken) -> None:
    """List the draws beside the verification that are missing, and why."""
    for purpose, boundaries in broken.items():
        for id, reason in boundaries.items():
            say(f"--{purpose}: draws of {id} were left out: {reason}", err=True)


def _report(store: Store, job: Job, done: bool, config: Config) -> Statement:
    """Print the result."""
    known = outcomes_in(store)
    verification = read_verdicts(store, config.verify)
    statement = statement_of(verification, control_of(store, config.verify))
    retained = verification.retained
    digest = digest_of(store) if done else None
    summary = {**_summary(known.outcomes, config), "simulated": is_simulated(store)}
    summary["skipped"] = list(store.metadata.skipped)
    summary["further"] = further_draws(store)
    cache, violations = cached_input(store), violations_added(store)
    if job.as_json:
        print_json(
            {
                **summary,
                "cached_input": cache.to_json(),
                "statement": statement.to_json(),
                "violations": violations and asdict(violations),
                "retained": [verdict.to_json() for verdict in retained],
                "left_out": {str(id): reason for id, reason in known.left_out.items()},
                "unfinished": job.unfinished_json(),
                "digest": digest,
            }
        )
    else:
        if retained:
            print_tables([brief_boundary_table(retained[:TOP])])
        if done:
            for sentence in statement.sentences():
                say(sentence)
            if violations:
                say(violations.sentence)
            _print_summary(summary, store, cache)
        for id, reason in sorted(known.left_out.items()):
            say(f"left out: {id}: {reason}", err=True)
        if known.left_out:
            say(
                f"Fix what broke, then retry: {command_line('verify', store.path, options=['--retry'])}",
                err=True,
            )
    report_skipped(store)
    job.report_unfinished("continuation")
    if digest:
        click.echo(f"digest: {digest}", err=job.as_json)
    return statement


def _summary(outcomes: Mapping[BoundaryId, Outcomes], config: Config) -> dict[str, Any]:
    draws = [outcome for both in outcomes.values() for arm in (both.pre, both.post) for outcome in arm.values()]
    return {
        **asdict(config.verify),
        "boundaries": len(outcomes),
        "continuations": len(draws),
        "continuations_per_boundary": round(len(draws) / len(outcomes), 3) if outcomes else 0.0,
        "tokens": sum(outcome.tokens for outcome in draws),
    }


def _print_summary(summary: dict[str, Any], store: Store, cache: CachedInput) -> None:
    if not summary["boundaries"]:
        return
    click.echo(
        f"The verification has {quantity(summary['continuations'], 'continuation')},"
        f" {summary['continuations_per_boundary']:.2f} a boundary, {summary['tokens'] / 1e6:.2f}M tokens"
        f"{' (simulated models)' * summary['simulated']}."
    )
    kinds = {"control": "of the A/A control", "confirm": "of fresh pairs", "resample": "with fresh summaries"}
    further = [f"{quantity(draws, 'draw')} {kinds[purpose]}" for purpose, draws in summary["further"].items() if draws]
    if further:
        click.echo(f"The run also has {', '.join(further)}.")
    if not summary["simulated"]:  # there is no server that could have a cache
        say(cache_sentence(cache, "continue", "control", "confirm", "resample"))
    say(f"List them: {command_line('boundaries', store.path)}")
