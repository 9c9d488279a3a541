"""`recompact bisect`: which part of what a compaction dropped would have saved it, found by putting parts back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.attribution.bisection.bisect import Allowance, Bisection, allowed_for, bisect
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import boundary_named, outcomes_in
from recompact.cli.console import print_json, say
from recompact.cli.options import Directory, Json, OfGivenConfig, as_command
from recompact.cli.running import Job
from recompact.cli.verify import locate_run
from recompact.engine.config_parser import load_config
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.outcome import BoundaryId
from recompact.values.texts import command_line, quantity

LINES = 12  # of a piece that are shown


@as_command("bisect", example="bisect rooms 'coin#1'")
def command(
    run: Annotated[str, {"metavar": "RUN|CONFIG"}],
    id: str | None,
    *,
    name: OfGivenConfig,
    directory: Directory,
    draws: Annotated[int | None, click.IntRange(min=4), "Most continuations of one search."],
    share: Annotated[
        float,
        click.FloatRange(min=0, min_open=True),
        "The share of verify's continuations that all searches may use together; the first search always runs.",
    ] = 0.5,
    dry_run: Annotated[bool, "Only say how many continuations it may take."],
    full: Annotated[bool, "Show long pieces in full."],
    as_json: Json,
) -> None:
    """Find what a harmful compaction should have kept, as `git bisect` finds a commit.

    Puts parts of what was dropped back into the context after the compaction, continues the agent from there, and
    narrows down to the smallest part that closes the loss. Other parts of the same size, a placebo, must not close it.
    Without an ID it takes every compaction that `verify` found harmful. Stop it whenever you like: the same command
    resumes where it left off.
    """
    path, file = locate_run(run, name, directory)
    config = load_config(file)
    most = draws or (ONE if id else None)
    with Store.read(path) as store:
        wanted = _chosen_boundaries(store, id)
        allowed = allowed_for(store, wanted, share, most)
    if dry_run:
        _print_forecast(allowed, as_json)
        return
    job = Job(path, as_json)
    with open_run(path) as store:
        bisection = job.play(config, store, "bisect", lambda study: bisect(study, wanted, share=share, most=most))
    if bisection is not None:
        _report(bisection, path, full, as_json)
    job.report_unfinished("continuation", retry=False)
    if job.unfinished:
        sys.exit(1)
    if wanted and bisection and all(cause.ending == "environment failed" for cause in bisection.causes.values()):
        sys.exit(2)


ONE = 40  # continuations of a search for a single compaction


def _chosen_boundaries(store: Store, id: str | None) -> tuple[BoundaryId, ...]:
    """The boundary that the user named, or all that verification retained, the most harmful first."""
    if id is None:
        return tuple(verdict.id for verdict in read_verdicts(store).retained)
    named = boundary_named(store, id)
    known = outcomes_in(store).outcomes.get(named)
    if known is None or not known.pre or not known.post:
        raise InputError(
            f"{named} has no continuations from before and after in {store.path}: first run"
            f" {command_line('verify', store.path)}"
        )
    return (named,)


def _print_forecast(allowed: Allowance, as_json: bool) -> None:
    if as_json:
        numbers = {"each": allowed.each, "at_most": allowed.total, "passed_over": list(map(str, allowed.passed_over))}
        print_json({"compactions": len(allowed.boundaries), **numbers})
        return
    say(
        f"{quantity(len(allowed.boundaries), 'compaction')}: at most {quantity(allowed.total, 'continuation')},"
        f" {allowed.each} each. Nothing was run."
    )
    _report_passed_over(allowed.passed_over)


def _report(bisection: Bisection, path: Path, full: bool, as_json: bool) -> None:
    causes = bisection.causes
    known = [cause for cause in causes.values() if cause.known]
    if as_json:
        print_json(
            {
                "compactions": len(causes),
                "found": len(known),
                "continuations": sum(cause.draws for cause in causes.values()),
                "causes": [cause_json(cause) for cause in causes.values()],
                "passed_over": list(map(str, bisection.passed_over)),
            }
        )
        return
    if not causes:
        say(f"No compaction of {path} was found to be harmful, so there is no cause to look for.")
    for cause in causes.values():
        print_cause(cause, full)
    if len(causes) > 1:
        say(
            f"\nA cause was found at {len(known)} of {quantity(len(causes), 'compaction')}, with"
            f" {quantity(sum(cause.draws for cause in causes.values()), 'continuation')}."
        )
    _report_passed_over(bisection.passed_over)


def _report_passed_over(boundaries: Sequence[BoundaryId]) -> None:
    if boundaries:
        say(
            f"No continuations are left for {quantity(len(boundaries), 'more harmful compaction')}:"
            " raise --share, or name one by its ID.",
            err=True,
        )


def cause_json(cause: Cause) -> dict[str, Any]:
    return {**cause.to_json(), "boundary": str(cause.boundary), "sentence": cause.sentence()}


def print_cause(cause: Cause, full: bool) -> None:
    lost = "success lost" if cause.loss == "success" else "steps added"
    say(f"\n{cause.boundary}  ({lost}; {quantity(cause.draws, 'continuation')})")
    sentence = cause.sentence()
    say(f"  {sentence[0].upper()}{sentence[1:]}.")
    for piece in cause.pieces if cause.known else ():
        say(f"    {piece.name}{f', under {piece.heading}' if piece.heading else ''}:")
        lines = piece.text.splitlines()
        for line in lines if full else lines[:LINES]:
            say(f"    | {line}")
        if not full and len(lines) > LINES:
            say(f"    … {len(lines) - LINES} more lines (--full)")
