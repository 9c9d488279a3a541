"""`recompact verify`: find out which compactions of a collected run hurt, and say so in a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import json_option, print_json, print_tables, run_option, say

if TYPE_CHECKING:
    from recompact.attribution.forecast import Forecast
    from recompact.attribution.verify import Verification
    from recompact.config import Config
    from recompact.execution.scheduler import UnfinishedUnit
    from recompact.outcome import BoundaryId, Outcomes
    from recompact.store.store import Store

TOP = 20  # harmful boundaries that are listed right away


@click.command(name="verify")
@click.argument("run", metavar="RUN|CONFIG")
@run_option("the config's file name, where a CONFIG is given", "name")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--allocation", help="How draws are spent: halving, uniform:N, racing, chained or chained:racing.")
@click.option("--draws", type=click.IntRange(min=1), help="N draws in each arm of every boundary: uniform:N.")
@click.option("--dry-run", is_flag=True, help="Only say how many continuations and tokens it will take.")
@click.option("--partial", is_flag=True, help="Verify what has been collected, even if tasks are missing.")
@click.option("--retry", is_flag=True, help="Try the boundaries again that were left out when their environment broke.")
@json_option
def command(
    run: str,
    name: str | None,
    directory: Path,
    allocation: str | None,
    draws: int | None,
    dry_run: bool,
    partial: bool,
    retry: bool,
    as_json: bool,
) -> None:
    """Continue from every boundary with and without its compaction, and keep the boundaries that hurt.

    Needs a run that `collect` has made. Stop it as you like: the same command goes on where it was. Another
    --allocation, or more --draws, uses the draws that the run has already and makes only those that are missing.
    """
    from recompact.attribution.verify import retry_left_out
    from recompact.cli.running import ending_early, finished
    from recompact.config import load_config
    from recompact.store.runs import open_run
    from recompact.store.store import Store

    if draws and allocation:
        raise click.UsageError("--draws N is --allocation uniform:N: give one of the two")
    path, file = located(run, name, directory)
    config = load_config(file)
    chosen = f"uniform:{draws}" if draws else allocation or config.verify.allocation
    config = replace(config, verify=replace(config.verify, allocation=chosen))
    if dry_run:
        with Store.read(path) as store:
            _print_forecast(_forecast(store, config), config, as_json)
        return
    again = shlex.join(["recompact", *sys.argv[1:]])
    with open_run(path) as store:
        with ending_early(path, again):
            if retry:
                retry_left_out(store)
            verification, unfinished = finished(_verify(config, store, partial, quiet=as_json))
        _report(store, verification, unfinished, config, again, as_json)
    if unfinished:
        sys.exit(1)


def located(run: str, name: str | None, directory: Path) -> tuple[Path, Path]:
    """The run's file and its config, from either of the two."""
    from recompact.config import load_config
    from recompact.store.runs import config_of, find_run
    from recompact.store.store import Store

    if run.endswith(".toml"):
        file = Path(run)
        return find_run(name or file.stem, file.parent / load_config(file).run.directory), file
    path = find_run(run, directory)
    with Store.read(path) as store:
        return path, config_of(store)


def _forecast(store: Store, config: Config) -> Forecast:
    from recompact.attribution.allocation_parser import allocation_of
    from recompact.attribution.forecast import forecast

    return forecast(store, allocation_of(store, config.verify))


async def _verify(config: Config, store: Store, partial: bool, quiet: bool) -> Verification:
    from recompact.attribution.verify import verify
    from recompact.cli.progress import watched
    from recompact.study import open_study

    expected = _forecast(store, config)
    async with open_study(config, store) as study:
        floor = expected.made + expected.on_average.continuations
        with watched(study, "verify", quiet=quiet, floor=floor) as shown:
            return await verify(shown, partial=partial)


def _report(
    store: Store,
    verification: Verification | None,
    unfinished: tuple[UnfinishedUnit, ...],
    config: Config,
    again: str,
    as_json: bool,
) -> None:
    from recompact.attribution.findings import findings
    from recompact.attribution.verify import digest as digest_of, outcomes_in
    from recompact.cli.running import report_unfinished
    from recompact.report.content.boundaries import brief_boundary_table
    from recompact.store.runs import overview

    known = outcomes_in(store)
    retained = [finding for finding in findings(store, config.verify).boundaries if finding.retained]
    digest = digest_of(store) if verification else None
    harmful = len(verification.retained) if verification else 0
    summary = {**_summary(known.outcomes, harmful, config), "simulated": overview(store).simulated}
    if as_json:
        print_json(
            {
                **summary,
                "retained": [finding.to_json() for finding in retained],
                "left_out": {str(id): reason for id, reason in known.left_out.items()},
                "unfinished": [unit.to_json() for unit in unfinished],
                "digest": digest,
            }
        )
    else:
        if retained:
            print_tables([brief_boundary_table(retained[:TOP])])
        if verification:
            _print_summary(summary, store)
        for id, reason in sorted(known.left_out.items()):
            say(f"left out: {id}: {reason}", err=True)
        if known.left_out:
            click.echo("To try those again, with what broke mended: recompact verify --retry", err=True)
    report_unfinished(unfinished, "continuations", again)
    if digest:
        click.echo(f"digest: {digest}", err=as_json)


def _summary(outcomes: Mapping[BoundaryId, Outcomes], harmful: int, config: Config) -> dict[str, Any]:
    draws = [outcome for both in outcomes.values() for arm in (both.pre, both.post) for outcome in arm.values()]
    return {
        **asdict(config.verify),
        "boundaries": len(outcomes),
        "continuations": len(draws),
        "continuations_per_boundary": round(len(draws) / len(outcomes), 3) if outcomes else 0.0,
        "tokens": sum(outcome.tokens for outcome in draws),
        "harmful": harmful,
    }


def _print_summary(summary: dict[str, Any], store: Store) -> None:
    if not summary["boundaries"]:
        click.echo(f"{store.path} has no boundaries: nothing was compacted, so there is nothing to verify.")
        return
    click.echo(
        f"{summary['harmful']} of {summary['boundaries']} boundaries are harmful (H >= {summary['hazard']:g} or"
        f" B >= {summary['burden']:g}) by {summary['allocation']}."
    )
    click.echo(
        f"The run has {summary['continuations']:,} continuations, {summary['continuations_per_boundary']:.2f} a"
        f" boundary, {summary['tokens'] / 1e6:.2f}M tokens{' (simulated models)' * summary['simulated']}."
    )
    click.echo(f"Look at them: recompact boundaries {store.path}")


def _print_forecast(forecast: Forecast, config: Config, as_json: bool) -> None:
    if as_json:
        print_json({"allocation": config.verify.allocation, **forecast.to_json()})
        return
    click.echo(
        f"{forecast.boundaries:,} boundaries, {config.verify.allocation}; {forecast.made:,} continuations are there."
    )
    for word, amount in (("at most", forecast.at_most), ("on average", forecast.on_average)):
        click.echo(f"{word:>10}: {amount.continuations:,} continuations, {amount.tokens / 1e6:.2f}M tokens")
    click.echo(
        "Nothing was run. Tokens are estimated from the collected trajectories; where the number of continuations"
    )
    click.echo("depends on what comes out, the average supposes that one boundary in ten is harmful.")
