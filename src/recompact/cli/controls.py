"""`recompact controls`: can the verification of a run be trusted? Its controls and analyses, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from recompact.attribution.controls import COUPLED, Controls, controls_of
from recompact.attribution.records import refuse_without_effects, way_to_verify
from recompact.cli.console import print_json, say
from recompact.cli.options import Directory, Json, as_command
from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.values.stats import Estimate
from recompact.values.texts import command_line, quantity

_MORE = {"control": ("--control", "aa"), "draws": ("--draws", "9")}
"""The options of `verify` that make what a control needs."""


@as_command("controls", example="controls rooms")
def command(
    run: str,
    *,
    directory: Directory,
    without: Annotated[str | None, "A run of the same tasks without compaction, for the identity check."],
    as_json: Json,
) -> None:
    """Check the verification of a run against chance and against theory.

    A/A: how many boundaries are retained although both arms are the same. Identity: does the reward that compaction
    costs equal the sum of the hazards? Halving against uniform: what does it find, for how many continuations? Do H
    and B correlate?
    """
    with Store.read(find_run(run, directory)) as store:
        refuse_without_effects(store)
        if without is None:
            controls = controls_of(store)
        else:
            with Store.read(find_run(without, directory)) as uncompacted:
                controls = controls_of(store, uncompacted)
        path = store.path
        more = {purpose: way_to_verify(store, *words) for purpose, words in _MORE.items()}
    if as_json:
        print_json(controls.to_json())
    else:
        _print(controls, path, more)


def _print(controls: Controls, path: Path, more: Mapping[str, str]) -> None:
    for sentence in controls.statement.sentences():
        say(sentence)
    if controls.statement.control is None:
        say(f"A/A: not run, or unfinished; run: {more['control']}")
    if (check := controls.identity) is not None:
        say(
            f"Identity, {quantity(check.tasks, 'task')}{_draws(controls)}: J(C) - J(none) ="
            f" {_interval(check.difference)},"
            f" -sum H = {_interval(check.predicted)},"
        )
        say(f"  gap {_interval(check.gap)}: {check.verdict}.")
        if controls.left_out and controls.left_out.statement:
            say(f"  Left out: {controls.left_out.statement}.")
    elif controls.left_out is not None:
        why = f", but for {controls.left_out.statement}" if controls.left_out.statement else ""
        say(f"Identity: no task can be checked in both runs{why}.")
    else:
        say(
            'Identity: needs the same tasks without compaction ([compressor] kind = "none"):'
            f" {command_line('controls', path, options=['--without', 'THAT_RUN'])}"
        )
    if controls.coupling is not None:
        say(
            f"Spearman correlation of H and B over boundaries, each from the draws that the other does not see"
            f"{_draws(controls)}: {_interval(controls.coupling)}"
        )
    else:
        say(f"Correlation of H and B: needs {COUPLED} trajectories, and two draws in each arm of a boundary.")
    for row in controls.allocations:
        support = (
            "" if row.support is None else f"; {_interval(row.support)} of the clauses keep a boundary they answer"
        )
        say(
            f"{row.allocation}: recall {_rate_words(row.recall, 'nothing is harmful')}, precision"
            f" {_rate_words(row.precision, 'nothing was retained')}, against all draws;"
            f" {row.continuations.value:.2f} continuations a boundary{support}"
        )
    if not controls.allocations:
        say(f"Halving against uniform: needs as many draws at every boundary: {more['draws']}")


def _draws(controls: Controls) -> str:
    """What the figures about all boundaries rest on."""
    number = f"{controls.draws:,} draws" if controls.draws > 1 else "draw"
    return f", by the first {number} of each arm, which every boundary has" if controls.draws else ""


def _rate_words(estimate: Estimate | None, reason: str) -> str:
    return f"undefined ({reason})" if estimate is None else _interval(estimate)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
