"""Methods and their controls on the worlds of the protocol, each adapted several times from the beginning.

    python benchmarks/methods.py --kept                             # the tables of the trials that were run, in seconds
    python benchmarks/methods.py --kept --worlds held-out --against causes
    python benchmarks/methods.py --cache DIR                        # all development worlds, the protocol's sizes
    python benchmarks/methods.py --worlds 101,104 --methods pair,facts --adaptations 2 --cache DIR
    python benchmarks/methods.py --edition 2 --cache DIR            # the frozen second edition: one world

Each adaptation has its own training tasks and its own seeds for collection, verification, optimizer, selection and test
runs. Prints for each world and method the test accuracy, the gain over the original prompt and how far one method
(`--against`) is ahead of each other one, and over worlds the mean gain with its interval (random effects), Pass^3 and
steps. Work resumes from the cache, and a method that is added later uses what is there. What is compared, and how, is
in benchmarks/protocol.md. Simulated models only: the figures say how the methods behave in these worlds, not how any
real model does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any

from acceptance import DEVELOPMENT, HELD_OUT
from adaptations import ADAPTING, METHODS, REFERENCES, Failure, Plan, Trial, trials
from kept_trials import keep_trials, read_trials
from random_effects import random_effects
from recompact.values.candidate import ORIGINAL
from recompact.values.stats import Estimate, bootstrap_crossed
from recompact.values.tables import Number, Table, columns, render
from recovery import Recovery

PAIR = "pair"
ADAPTATIONS = 6
"""Of each method on each world: power 0.9 for +3 points on average over ten worlds (benchmarks/protocol.md)."""
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
    report: dict[str, Any] = {}
    failures: list[Failure] = []
    by_world: dict[int, Mapping[str, Sequence[Trial]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for plan in plans(args):
            if args.kept:
                by_method = read_trials(plan, methods, args.adaptations)
            else:
                place = args.cache or Path(scratch)
                by_method, failed = trials(place, plan, methods, args.adaptations, args.processes)
                failures += failed
            if args.write:
                keep_trials(plan, by_method)
            report[plan_name(plan)] = summary(plan, by_method, quiet=args.json, against=args.against)
            if plan.world is not None:
                by_world[plan.world] = by_method
    if len(by_world) > 1:
        over = over_worlds(by_world, methods, args.against)
        report["over worlds"] = {method: asdict(each) for method, each in over.items()}
        if not args.json:
            print(render(worlds_table(over, len(by_world), args.against), "markdown"))
    for failure in failures:
        print(f"{failure.what} failed: {failure.reason}", file=sys.stderr)
    took = time.perf_counter() - started
    if args.json:
        print(json.dumps({"comparisons": report, "seconds": took, "failures": [asdict(f) for f in failures]}, indent=2))
    elif not args.kept:
        print(f"Took {took:.0f} s in {args.processes} processes.")
    sys.exit(1 if failures else 0)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="all", help=f"some of {','.join(METHODS)}")
    parser.add_argument(
        "--against", choices=METHODS, default=PAIR, help="the method that is compared with each other one"
    )
    parser.add_argument("--edition", type=int, choices=[2, 3], default=3, help="2: the frozen world; 3: worlds")
    parser.add_argument("--worlds", default="development", help="development, held-out, or numbers")
    parser.add_argument("--adaptations", type=int, help=f"of each method (default: {ADAPTATIONS}; edition 2: 10)")
    parser.add_argument("--train", type=int, default=45, help="training tasks of one adaptation, drawn by its seed")
    parser.add_argument("--test", type=int, help="test tasks, the same for all (default: 168; edition 2: 84)")
    parser.add_argument("--runs", type=int, default=1, help="of each test task under each adapted prompt")
    parser.add_argument("--scope", choices=["history", "prefix", "both"], default="history")
    parser.add_argument("--budget", type=int, default=2048)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--cache", type=Path, help="keep the work here and go on from it")
    parser.add_argument("--kept", action="store_true", help="run nothing: print the trials that the repository keeps")
    parser.add_argument("--write", action="store_true", help="keep the trials in the repository")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    args.adaptations = args.adaptations or (ADAPTATIONS if args.edition == 3 else 10)
    args.test = args.test or (168 if args.edition == 3 else 84)
    return args


def plans(args: argparse.Namespace) -> list[Plan]:
    """One comparison for each world and scope."""
    scopes = ("history", "prefix") if args.scope == "both" else (args.scope,)
    worlds: Sequence[int | None] = (None,)
    if args.edition == 3:
        named = {"development": DEVELOPMENT, "held-out": HELD_OUT}
        worlds = named[args.worlds] if args.worlds in named else [int(n) for n in args.worlds.split(",")]
        if not worlds:
            sys.exit("no world has been accepted yet: python benchmarks/worlds.py accept --write")
    return [Plan(scope, args.budget, args.train, args.test, args.runs, world) for scope in scopes for world in worlds]


def plan_name(plan: Plan) -> str:
    return f"world {plan.world}, {plan.scope}" if plan.world is not None else plan.scope


def summary(plan: Plan, by_method: Mapping[str, Sequence[Trial]], quiet: bool, against: str = PAIR) -> dict[str, Any]:
    """The tables of one scope, printed, and their figures."""
    matrices = {method: {trial.seed: list(trial.accuracy) for trial in own} for method, own in by_method.items()}
    gains = {method: paired_difference(matrices, method, ORIGINAL) for method in by_method if method != ORIGINAL}
    others = [method for method in by_method if method != against and matrices.get(against)]
    behind = {method: paired_difference(matrices, against, method) for method in others}
    won_back = {method: recovered_share(matrices, method) for method in ADAPTING if method in by_method}
    if not quiet:
        print(render(arms_table(plan, by_method, gains), "markdown"))
        if behind:
            print(render(distance_table(behind, against), "markdown"))
        for method, recovery in won_back.items():
            if recovery is not None:
                print(f"{method}: {recovery.words}")
        print(flush=True)
    return {
        "plan": asdict(plan),
        "trials": {method: [asdict(trial) for trial in own] for method, own in by_method.items()},
        "gain": {method: gain and asdict(gain) for method, gain in gains.items()},
        "against": against,
        "against_minus": {method: distance and asdict(distance) for method, distance in behind.items()},
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


@dataclass(frozen=True)
class Overall:
    """A method over worlds: its gain over the original and how far another is ahead of it, in points, and what it
    takes."""

    adaptations: int  # that all worlds have
    gain: Estimate | None
    between: float | None  # SD of the gain between worlds
    ahead: Estimate | None
    pass_3: float | None
    steps: float


def over_worlds(
    by_world: Mapping[int, Mapping[str, Sequence[Trial]]], methods: Sequence[str], against: str = PAIR
) -> dict[str, Overall]:
    """Every method over all worlds, which count as draws of the prior (random effects)."""
    out = {}
    for method in methods:
        own = [trial for world in by_world.values() for trial in world.get(method, ())]
        if not own:
            continue
        gain = worlds_difference(by_world, method, ORIGINAL)
        ahead = worlds_difference(by_world, against, method)
        shares = [share for world in by_world.values() if (share := pass_3(world.get(method, ()))) is not None]
        out[method] = Overall(
            len(_shared_seeds([world.get(method, ()) for world in by_world.values()])),
            gain[0] if gain else None,
            gain[1] if gain else None,
            ahead[0] if ahead else None,
            fmean(shares) if shares else None,
            fmean(trial.steps for trial in own),
        )
    return out


def worlds_difference(
    by_world: Mapping[int, Mapping[str, Sequence[Trial]]], one: str, other: str
) -> tuple[Estimate, float | None] | None:
    """One method minus another in points: the mean over worlds, and the standard deviation between worlds.

    Uses the adaptations that all worlds have of both, by the protocol. One adaptation does not tell how far worlds
    differ from how far adaptations do.
    """
    matrices = [
        {name: {trial.seed: list(trial.accuracy) for trial in world.get(name, ())} for name in (one, other)}
        for world in by_world.values()
    ]
    seeds = _shared_seeds([world.get(name, ()) for world in by_world.values() for name in (one, other)])
    if one == other or len(matrices) < 2 or not seeds:
        return None
    differences = [
        [100 * fmean(row) for row in minus(*({seed: own[seed] for seed in seeds} for own in each.values()))]
        for each in matrices
    ]
    means = [fmean(each) for each in differences]
    if len(seeds) == 1:
        return random_effects(means, [0.0] * len(means))[0], None
    return random_effects(means, [variance(each) / len(each) for each in differences])


def _shared_seeds(several: Sequence[Sequence[Trial]]) -> set[int]:
    return set.intersection(*({trial.seed for trial in own} for own in several))


def pass_3(own: Sequence[Trial]) -> float | None:
    """The chance that a task is done three times by three adaptations drawn at random, in percent; one run of each."""
    if len(own) < 3:
        return None
    won = [sum(trial.accuracy[task] == 1.0 for trial in own) for task in range(len(own[0].accuracy))]
    return 100 * fmean(comb(each, 3) / comb(len(own), 3) for each in won)


def worlds_table(over: Mapping[str, Overall], worlds: int, against: str = PAIR) -> Table:
    rows = [
        (
            method,
            each.adaptations,
            number(each.gain, signed=True, scale=1),
            Number(each.between) if each.between is not None else None,
            number(each.ahead, signed=True, scale=1),
            Number(each.pass_3) if each.pass_3 is not None else None,
            Number(each.steps),
        )
        for method, each in over.items()
    ]
    titles = {
        "gain": "gain over the original [95%]",
        "between": "SD between worlds",
        "ahead": f"{against} minus it [95%]",
        "pass_3": "Pass^3",
    }
    notes = (
        f"{worlds} worlds, simulated models. Intervals are over worlds (random effects), for these test tasks.",
        "Pass^3: three adaptations drawn at random, one run of each.",
    )
    keys = ("method", "adaptations", "gain", "between", "ahead", "pass_3", "steps")
    return Table("Methods over worlds", columns(*keys, **titles), tuple(rows), notes)


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
        f"Simulated models; pocket, {plan_name(plan)}, budget {plan.budget}, {plan.train} training tasks for each"
        f" adaptation, {plan.test} test tasks, {plan.runs} run(s) of each.",
        "Intervals resample adaptations and test tasks. Tokens are those of one whole adaptation, collection included;"
        " CPU seconds leave out collection and verification, which methods share here.",
        f"{', '.join(REFERENCES)}, {ORIGINAL} and all-clauses are not adapted: their rows differ in seeds only.",
    )
    return Table("Methods, each adapted from the beginning", columns(*keys, **titles), tuple(rows), notes)


def distance_table(behind: Mapping[str, Estimate | None], against: str = PAIR) -> Table:
    """What a method is ahead of, and what it is not."""
    rows = [
        (method, number(ahead, signed=True), "yes" if ahead.low > 0 else "behind" if ahead.high < 0 else "no")
        for method, ahead in behind.items()
        if ahead is not None
    ]
    titles = {"ahead": f"{against} minus it [95%]", "beaten": f"{against} beats it"}
    return Table(f"{against} against each of the others", columns("method", "ahead", "beaten", **titles), tuple(rows))


def number(estimate: Estimate | None, signed: bool = False, scale: float = 100) -> Number | None:
    """In points."""
    if estimate is None:
        return None
    return Number(scale * estimate.value, interval=(scale * estimate.low, scale * estimate.high), signed=signed)


if __name__ == "__main__":
    main()
