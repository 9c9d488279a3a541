"""Is P(harmful) right? What is predicted beside how often it is true, in bins, on planted truth.

    python benchmarks/calibration.py            # runs with seeds that no setting was chosen on
    python benchmarks/calibration.py --limit 60 --draws 40
    python benchmarks/calibration.py --json

Takes the draws that halving and racing ask for, learns the prior from the run as `recompact verify` does, and compares
with the truth of other draws. Intervals resample tasks. It is a simulation and says nothing about real models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

from allocation import CACHE, World, pool_runs
from recompact.attribution.allocation import Allocation
from recompact.attribution.detection import sample, selected_by_all, shuffle_draws
from recompact.attribution.halving import Halving
from recompact.attribution.posterior import probability_harmful
from recompact.attribution.prior import learn_priors, published_prior
from recompact.attribution.racing import Racing
from recompact.values.stats import percentile_estimate

BINS = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.000001)
Case = tuple[float, bool, str]
"""Predicted, true, task."""


def cases(allocation: Allocation, world: World, seeds: int, own_prior: bool) -> list[Case]:
    harmful = selected_by_all(world.truth)
    out = []
    for seed in range(seeds):
        outcomes = sample(allocation, shuffle_draws(world.pool, seed)).outcomes
        priors = learn_priors(outcomes)
        for b, own in outcomes.items():
            prior = priors.of(b) if own_prior else published_prior()
            predicted = probability_harmful(own, remaining=world.remaining[b], prior=prior)
            out.append((predicted, b in harmful, b.unit.partition("/")[2]))
    return out


def bins(every: Sequence[Case]) -> list[dict[str, float]]:
    rows = []
    for low, high in pairwise(BINS):
        inside = [case for case in every if low <= case[0] < high]
        if not inside:
            continue
        tasks: dict[str, list[bool]] = {}
        for _, true, task in inside:
            tasks.setdefault(task, []).append(true)
        chance, names = Random("calibration"), sorted(tasks)
        shares = []
        for _ in range(500):
            chosen = [true for task in chance.choices(names, k=len(names)) for true in tasks[task]]
            shares.append(sum(chosen) / len(chosen))
        share = percentile_estimate(sum(true for _, true, _ in inside) / len(inside), shares)
        predicted = sum(p for p, _, _ in inside) / len(inside)
        rows.append(
            {"cases": len(inside), "predicted": predicted, "true": share.value, "low": share.low, "high": share.high}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where runs and pools are kept")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=7, help="seed of the first run (default: 7)")
    parser.add_argument("--draws", type=int, default=40, help="continuations in each arm (default: 40)")
    parser.add_argument("--seeds", type=int, default=10, help="orders of the draws (default: 10)")
    parser.add_argument("--limit", type=int, help="only so many tasks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    world = pool_runs(args.cache, args.runs, args.draws, args.limit, args.first)
    report = {}
    for allocation in (Halving(), Racing(remaining=world.remaining)):
        for own_prior in (True, False):
            name = f"{allocation.name}, {'prior of the run' if own_prior else 'published prior'}"
            report[name] = bins(cases(allocation, world, args.seeds, own_prior))
    if args.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{len(world.pool)} boundaries of pocket (simulated), {args.seeds} orders; 95 % intervals over tasks")
    for name, rows in report.items():
        print(f"{name}:  cases  predicted  true")
        for row in rows:
            print(
                f"  {row['cases']:6,}  {row['predicted']:.3f}  {row['true']:.3f} ({row['low']:.3f}-{row['high']:.3f})"
            )


if __name__ == "__main__":
    main()
