"""`recompact boundary`: one compaction in full: both contexts, what was dropped, and what the agent did after each."""

from __future__ import annotations

from typing import Annotated

from recompact.attribution.bisection.cause import read_causes
from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.records import boundary_named, refuse_without_effects
from recompact.cli.bisect import cause_json, print_cause
from recompact.cli.console import console, print_json
from recompact.cli.options import Directory, Json, as_command
from recompact.engine.store.runs import find_run, is_simulated
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.cases import FULL, TERMINAL, case_of
from recompact.presentation.report.content.shown_cases import cause_view, diagnoses_of
from recompact.presentation.report.terminal import print_case
from recompact.values.texts import command_line


@as_command("boundary", example="boundary rooms 'coin#1'")
def command(
    run: str,
    id: str,
    *,
    directory: Directory,
    full: Annotated[bool, "Show long texts in full."],
    only_cause: Annotated[bool, "--cause", "Show only the cause that `bisect` found."],
    as_json: Json,
) -> None:
    """Show one boundary of a run: the contexts before and after, what was dropped, and what the agent did next.

    ID is task#t, as `recompact boundaries` lists it, such as pocket-train-007#2.
    """
    with Store.read(find_run(run, directory)) as store:
        refuse_without_effects(store)
        named = boundary_named(store, id)
        view = boundary_view(store, named)
        simulated = is_simulated(store)
        diagnosis, cause = diagnoses_of(store).get(named), read_causes(store).get(named)
        limits = FULL if full else TERMINAL
        shown = cause_view(store, cause, limits)
    if only_cause:
        if cause is None:
            again = command_line("bisect", store.path, str(named))
            raise InputError(f"the cause of {named} is not known yet; search for it: {again}")
        print_json(cause_json(cause)) if as_json else print_cause(cause, full)
        return
    if as_json:
        print_json({"simulated": simulated, **view.to_json(), "cause": cause_json(cause) if cause else None})
        return
    print_case(console(), case_of(view, limits, diagnosis, cause=shown), simulated)
