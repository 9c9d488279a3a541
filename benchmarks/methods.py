"""PAIR beside the methods it is compared with, on the embedded world: 90 training tasks, 168 test tasks, three runs.

    python benchmarks/methods.py                        # both scopes; several minutes
    python benchmarks/methods.py --scope history --cache DIR

Prints, for each scope, the table of arms with paired intervals against prompting, how much of the accuracy lost to
compaction each method won back, and what each adaptation cost. Simulated models only: the figures say how the methods
behave in this world, not how any real model does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.result import write_result
from recompact.config import Config, parse_config
from recompact.evaluation.arm_runs import ArmRuns, find_arm, read_arms
from recompact.evaluation.arms import Arm, parse_arms
from recompact.evaluation.evaluate import evaluate, open_evaluation, with_split
from recompact.evaluation.summary import arm_table, difference_table, evaluation
from recompact.store.calls import tokens_by_phase
from recompact.store.runs import boundary_rows, continuation_rows
from recompact.store.store import Store
from recompact.study import Study, open_study
from recompact.tables import render
from recovery import recovery

METHODS = ("acon-ut", "acon-utco", "acon-ut-locked", "pair")


def config_of(scope: str, method: str = "pair") -> Config:
    text = f'[compressor]\nbudget = 2048\nscope = "{scope}"\n[adapt]\nmethod = "{method}"\n'
    return parse_config(text, Path("methods.toml"))


async def adapt_with(config: Config, store: Store) -> tuple[Study, Adaptation]:
    async with open_study(config, store) as study:
        return study, await adapt(study)


def adapted(place: Path, scope: str, method: str) -> dict[str, Any]:
    """Adapt with one method, from its own collection on, so that its cost is its own."""
    started = time.perf_counter()
    with Store.open(place / f"{scope}-{method}.db") as store:
        study, made = asyncio.run(adapt_with(config_of(scope, method), store))
        write_result(study, made, place / f"{scope}-{method}", datetime.now(UTC).date().isoformat())
        boundaries, continuations = len(boundary_rows(store)), len(continuation_rows(store))
        tokens = tokens_by_phase(store)
    return {
        "winner": made.winner,
        "statement": made.selection.statement if made.selection else "",
        "boundaries": boundaries,
        "continuations": continuations,
        "tokens": {phase: sum(roles.values()) for phase, roles in tokens.items()},
        "seconds": time.perf_counter() - started,
    }


async def measured(place: Path, scope: str, runs: int) -> tuple[tuple[ArmRuns, ...], tuple[Arm, ...]]:
    config = with_split(config_of(scope), "test")
    with Store.open(place / f"evaluate-{scope}.db") as store:
        async with open_evaluation(config, store) as study:
            texts = ["none", "fifo", "prompting", *(f"{m}={(place / f'{scope}-{m}')}" for m in METHODS)]
            arms = parse_arms(texts, config.compressor, study.template)
            await evaluate(study, arms, runs)
        made = read_arms(store)
        return tuple(find_arm(made, arm.label, store.path) for arm in arms), arms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scope", choices=["history", "prefix", "both"], default="both")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="keep the runs here and go on from them")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = args.cache or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        scopes = ["history", "prefix"] if args.scope == "both" else [args.scope]
        report = {scope: one_scope(place, scope, args.runs, quiet=args.json) for scope in scopes}
    if args.json:
        print(json.dumps(report, indent=2))


def one_scope(place: Path, scope: str, runs: int, quiet: bool) -> dict[str, Any]:
    costs = {method: adapted(place, scope, method) for method in METHODS}
    made, _ = asyncio.run(measured(place, scope, runs))
    shown = evaluation(f"pocket, scope {scope}, 168 test tasks, {runs} runs, simulated models", made)
    won = {arm.name: recovery(made[0], made[2], arm, shown.shared) for arm in made[3:]}
    if not quiet:
        print(render(arm_table(shown), "markdown"))
        if (differences := difference_table(shown)) is not None:
            print(render(differences[0], "markdown"))
        for name, found in won.items():
            print(f"{name}: {found.words}")
        print()
        for method, cost in costs.items():
            print(f"{method}: {cost['statement']}")
            print(f"  {cost['boundaries']} boundaries, {cost['continuations']} continuations, {cost['seconds']:.0f} s;")
            phases = ", ".join(f"{phase} {n / 1e6:.2f}M" for phase, n in cost["tokens"].items())
            print(f"  {sum(cost['tokens'].values()) / 1e6:.2f}M tokens: {phases}")
        print(flush=True)
    arms = {arm.label: shown.metrics(arm).to_json() for arm in shown.arms}
    return {"arms": arms, "recovered": {name: asdict(found) for name, found in won.items()}, "costs": costs}


if __name__ == "__main__":
    main()
