"""`recompact truth`: what each compaction of a simulated run really lost, and what that did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recompact.attribution.effects import channel_of
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.cli.console import json_option, print_json, run_option, say
from recompact.cli.progress import open_bar
from recompact.cli.stopping import end_stopped
from recompact.engine.config_parser import load_config
from recompact.engine.store.runs import find_run
from recompact.errors import InputError
from recompact.models.limits import Spending
from recompact.simulation.truth import BoundaryTruth, check_target, run_truth, write_truth


@click.command(name="truth")
@click.argument("config", type=click.Path(path_type=Path))
@run_option("the config's file name")
@click.option("--draws", type=click.IntRange(min=1), default=100, show_default=True, help="Continuations in each arm.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write (default: beside the run).")
@json_option
def command(config: Path, run: str | None, draws: int, out: Path | None, as_json: bool) -> None:
    """Write what each compaction of a simulated run really lost.

    For each boundary of a run that `collect` made with the simulated models: the lost facts, and H and B from very many
    continuations. Real models have no known truth; this is for testing estimators.
    """
    loaded = load_config(config)
    agent = loaded.models.get(loaded.agent.model)
    if (agent.use if agent else loaded.agent.model) != "sim-agent" or loaded.suite.use != "pocket":
        raise InputError(f"{config}: truth is known for the embedded world only (suite pocket, agent sim-agent)")
    path = find_run(run or config.stem, config.parent / loaded.run.directory)
    target = out or path.with_suffix(".truth.json")
    check_target(target)  # before the work
    try:
        with open_bar("truth", Spending(), quiet=as_json) as progress:
            truths = run_truth(path, draws, progress, agent.options if agent else {})
    except KeyboardInterrupt:
        end_stopped("\nrecompact: stopped. Nothing was written; the same command starts again.")
    write_truth(truths, target)
    summary = truth_summary(truths, draws, Thresholds(loaded.verify.hazard, loaded.verify.burden))
    if as_json:
        print_json({"file": str(target), **summary})
        return
    for name, value in summary.items():
        say(f"{name.replace('_', ' ')}: {value}")
    say(f"Written to {target}")


def truth_summary(truths: list[BoundaryTruth], draws: int, thresholds: Thresholds = PAPER) -> dict[str, Any]:
    """The picture of these boundaries that the paper draws of its own."""
    hazard, burden = thresholds.hazard, thresholds.burden
    hazards = [t.hazard for t in truths]
    burdens = [t.burden for t in truths]
    harmful = [t for t in truths if channel_of(t.hazard, t.burden, thresholds) != "none"]
    lost: dict[str, int] = {}
    for truth in truths:
        for kind in {fact.kind for fact in truth.lost}:
            lost[kind] = lost.get(kind, 0) + 1
    return {
        "boundaries": len(truths),
        "draws_in_each_arm": draws,
        "harmful": len(harmful),
        "harmful_share": round(len(harmful) / len(truths), 4) if truths else 0.0,
        f"hazard_at_least_{hazard:g}": sum(h >= hazard for h in hazards),
        f"burden_at_least_{burden:g}": sum(b >= burden for b in burdens),
        "hazard_within_0.1": sum(abs(h) < 0.1 for h in hazards),
        "burden_above_0.5": sum(b > 0.5 for b in burdens),
        f"burden_above_0.5_and_below_{burden:g}": sum(0.5 < b < burden for b in burdens),
        "boundaries_that_lost_a_fact_of_kind": dict(sorted(lost.items())),
    }
