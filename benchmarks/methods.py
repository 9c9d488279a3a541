"""PAIR beside its baselines and controls on the embedded world, each adapted many times from the beginning.

    python benchmarks/methods.py --cache DIR                       # everything, ten adaptations of each method
    python benchmarks/methods.py --methods pair,facts --adaptations 10 --train 45 --test 84 --cache DIR
    python benchmarks/methods.py --methods pair-swapped,original   # one control beside the original

Each adaptation has its own training tasks and its own seeds for collection, verification, optimizer, selection and test
runs. Prints for each method the test accuracy, the gain over the original prompt and the distance to PAIR, with
intervals that cover adaptations and tasks, how much adaptations differ, and what one costs. Work resumes from the
cache, and a method that is added later uses what is there. Simulated models only: the figures say how the methods
behave in this world, not how any real model does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from adaptations import ADAPTING, METHODS, REFERENCES, Failure, Plan, Trial, trials
from recompact.values.candidate import ORIGINAL
from recompact.values.stats import Estimate, bootstrap_crossed
from recompact.values.tables import Number, Table, columns, render
from recovery import Recovery

PAIR = "pair"
Matrix = list[list[float]]
"""A row for each adaptation, a column for each test task."""


def main() -> None:
    args = parse_arguments()
    methods = args.methods.split(",") if args.methods != "all" else list(METHODS)
    if unknown := [method for method in methods if method not in METHODS]:
        sys.exit(f"there is no method {unknown[0]!r} here; choose among {', '.join(METHODS)}")
    if ORIGINAL not in methods:
        methods = [ORIGINAL, *methods]  # gains are over it
    started = time.perf_counter()
    report = {}
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory() as scratch:
        for scope in ("history", "prefix") if args.scope == "both" else (args.scope,):
            plan = Plan(scope, args.budget, args.train, args.test, args.runs)
            by_method, failed = trials(args.cache or Path(scratch), plan, methods, args.adaptations, args.processes)
            failures += failed
            report[scope] = summary(plan, by_method, quiet=args.json)
    for failure in failures:
        print(f"{failure.what} failed: {failure.reason}", file=sys.stderr)
    took = time.perf_counter() - started
    if args.json:
        print(json.dumps({"scopes": report, "seconds": took, "failures": [asdict(f) for f in failures]}, indent=2))
    else:
        print(f"Took {took:.0f} s in {args.processes} processes.")
    sys.exit(1 if failures else 0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="all", help=f"some of {','.join(METHODS)}")
    parser.add_argument("--adaptations", type=int, default=10, help="of each method, each from the beginning")
    parser.add_argument("--train", type=int, default=45, help="training tasks of one adaptation, drawn by its seed")
    parser.add_argument("--test", type=int, default=84, help="test tasks, the same for all")
    parser.add_argument("--runs", type=int, default=1, help="of each test task under each adapted prompt")
    parser.add_argument("--scope", choices=["history", "prefix", "both"], default="history")
    parser.add_argument("--budget", type=int, default=2048)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--cache", type=Path, help="keep the work here and go on from it")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def summary(plan: Plan, by_method: Mapping[str, Sequence[Trial]], quiet: bool) -> dict[str, Any]:
    """The tables of one scope, printed, and their figures."""
    matrices = {method: {trial.seed: list(trial.accuracy) for trial in own} for method, own in by_method.items()}
    gains = {method: paired_difference(matrices, method, ORIGINAL) for method in by_method if method != ORIGINAL}
    behind = {m: paired_difference(matrices, PAIR, m) for m in by_method if m != PAIR and matrices.get(PAIR)}
    won_back = {method: recovered_share(matrices, method) for method in ADAPTING if method in by_method}
    if not quiet:
        print(render(arms_table(plan, by_method, gains), "markdown"))
        if behind:
            print(render(distance_table(behind), "markdown"))
        for method, recovery in won_back.items():
            if recovery is not None:
                print(f"{method}: {recovery.words}")
        print(flush=True)
    return {
        "plan": asdict(plan),
        "trials": {method: [asdict(trial) for trial in own] for method, own in by_method.items()},
        "gain": {method: gain and asdict(gain) for method, gain in gains.items()},
        "pair_minus": {method: distance and asdict(distance) for method, distance in behind.items()},
        "recovered": {method: each and asdict(each) for method, each in won_back.items()},
    }


def paired_difference(matrices: Mapping[str, Mapping[int, list[float]]], one: str, other: str) -> Estimate | None:
    """One method minus another, over the adaptations that both have, task by task."""
    difference = minus(matrices.get(one, {}), matrices.get(other, {}))
    return bootstrap_crossed([difference])[0] if difference else None


def minus(one: Mapping[int, list[float]], other: Mapping[int, list[float]]) -> Matrix:
    seeds = sorted(one.keys() & other.keys())
    return [[x - y for x, y in zip(one[seed], other[seed], strict=True)] for seed in seeds]


def recovered_share(matrices: Mapping[str, Mapping[int, list[float]]], method: str) -> Recovery | None:
    """What a method won back of what compaction with the original prompt lost."""
    none, original, own = (matrices.get(name, {}) for name in ("none", ORIGINAL, method))
    seeds = none.keys() & original.keys() & own.keys()
    if not seeds:
        return None
    shared = [{seed: each[seed] for seed in seeds} for each in (none, original, own)]
    lost, won = minus(shared[0], shared[1]), minus(shared[2], shared[1])
    beyond = [[x - y / 2 for x, y in zip(w, v, strict=True)] for w, v in zip(won, lost, strict=True)]
    return Recovery(*bootstrap_crossed([lost, won, beyond]))


def arms_table(plan: Plan, by_method: Mapping[str, Sequence[Trial]], gains: Mapping[str, Estimate | None]) -> Table:
    rows = []
    for method, own in by_method.items():
        if not own:
            continue
        (accuracy,) = bootstrap_crossed([[list(trial.accuracy) for trial in own]])
        means = [100 * fmean(trial.accuracy) for trial in own]
        tokens = [sum(trial.tokens.values()) / 1e6 for trial in own if trial.tokens]
        adapts = method in ADAPTING
        rows.append(
            (
                method,
                len(own),
                number(accuracy),
                Number(stdev(means)) if len(means) > 1 else None,
                number(gains.get(method), signed=True),
                Number(fmean(trial.steps for trial in own)),
                sum(trial.winner != ORIGINAL for trial in own) if adapts else None,
                Number(fmean(trial.continuations for trial in own), 0) if adapts else None,
                Number(fmean(tokens), 2) if tokens else None,
                Number(fmean(trial.seconds for trial in own), 0) if adapts else None,
            )
        )
    titles = {
        "adaptations": "adaptations",
        "accuracy": "Acc [95%]",
        "sd": "SD between adaptations",
        "gain": "gain over the original [95%]",
        "changed": "changed the prompt",
        "tokens": "M tokens",
        "seconds": "CPU s",
    }
    keys = ("method", "adaptations", "accuracy", "sd", "gain", "steps", "changed", "continuations", "tokens", "seconds")
    notes = (
        f"Simulated models; pocket, scope {plan.scope}, budget {plan.budget}, {plan.train} training tasks for each"
        f" adaptation, {plan.test} test tasks, {plan.runs} run(s) of each.",
        "Intervals resample adaptations and test tasks. Tokens are those of one whole adaptation, collection included;"
        " CPU seconds leave out collection and verification, which methods share here.",
        f"{', '.join(REFERENCES)}, {ORIGINAL} and all-clauses are not adapted: their rows differ in seeds only.",
    )
    return Table("Methods, each adapted from the beginning", columns(*keys, **titles), tuple(rows), notes)


def distance_table(behind: Mapping[str, Estimate | None]) -> Table:
    """What PAIR is ahead of, and what it is not."""
    rows = [
        (method, number(ahead, signed=True), "yes" if ahead.low > 0 else "behind" if ahead.high < 0 else "no")
        for method, ahead in behind.items()
        if ahead is not None
    ]
    titles = {"ahead": "PAIR minus it [95%]", "beaten": "PAIR beats it"}
    return Table("PAIR against each of the others", columns("method", "ahead", "beaten", **titles), tuple(rows))


def number(estimate: Estimate | None, signed: bool = False) -> Number | None:
    """In points."""
    if estimate is None:
        return None
    return Number(100 * estimate.value, interval=(100 * estimate.low, 100 * estimate.high), signed=signed)


if __name__ == "__main__":
    main()
