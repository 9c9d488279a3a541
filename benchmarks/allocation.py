"""Which way of spending draws finds the harmful compactions, and at what cost.

    python benchmarks/allocation.py             # first time: some fifteen minutes on two cores, for the pool of draws
    python benchmarks/allocation.py --quick     # fewer boundaries, draws and seeds: about a minute
    python benchmarks/allocation.py --json

Collects the test split of pocket at a budget of 2,048 tokens with several seeds and draws a pool of continuations for
each boundary and arm, once; both are kept in --cache. What the whole pool says is the truth: H >= 0.5 or B >= 5. Then
each allocation samples from the pool, in a new order of the draws for each seed. It is a simulation: nothing here
speaks of real models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, pvariance, stdev
from typing import Any

from recompact.attribution.allocation import Allocation
from recompact.attribution.allocation_parser import trajectory_facts
from recompact.attribution.chained import Chained, Link, links_of
from recompact.attribution.detection import Detection, detection, selected_by_all
from recompact.attribution.effects import hazard_and_burden
from recompact.attribution.false_retention import FalseRetention, false_retention
from recompact.attribution.halving import Halving
from recompact.attribution.pool import sample, shuffled
from recompact.attribution.posterior import PAPER
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.collection import collect
from recompact.config import CompressorConfig, Config, RunConfig, SuiteConfig
from recompact.embedded.simulation.truth import Draws, read_truth, run_truth, write_truth
from recompact.outcome import BoundaryId, Outcome, Outcomes
from recompact.progress import Silent
from recompact.stats import Estimate, t_quantile
from recompact.store.runs import open_run
from recompact.store.store import Store
from recompact.study import open_study

BUDGET = 2048
CACHE = Path(__file__).parent.parent / "runs" / "benchmarks"


@dataclass(frozen=True)
class World:
    """All boundaries with all their draws, and how they hang together."""

    pool: Mapping[BoundaryId, Outcomes]
    links: Mapping[BoundaryId, Link]
    remaining: Mapping[BoundaryId, int]


def over_seeds(values: Sequence[float]) -> Estimate:
    """A mean over seeds with its 95 % interval (Student's t)."""
    mean = fmean(values)
    half = t_quantile(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Row:
    """One allocation."""

    allocation: str
    continuations: Estimate
    tokens: Estimate
    recall: Estimate
    precision: Estimate
    f1: Estimate
    f1_clear: Estimate  # without the boundaries whose truth is within a standard error of a threshold
    seconds: float  # of the allocation's own work, for one seed
    false_retention: FalseRetention


def collected(config: Config, path: Path) -> Path:
    """Run the tasks of a config, as `recompact collect` does; what is there already is not done again."""

    async def work(store: Store) -> None:
        async with open_study(config, store) as study:
            await collect(study)

    path.parent.mkdir(parents=True, exist_ok=True)
    with open_run(path) as store:
        asyncio.run(work(store))
    return path


def pooled(cache: Path, runs: int, draws: int, limit: int | None) -> World:
    """The world of so many collected runs."""
    pool: dict[BoundaryId, Outcomes] = {}
    links: dict[BoundaryId, Link] = {}
    remaining: dict[BoundaryId, int] = {}
    for seed in range(runs):
        config = Config(
            suite=SuiteConfig(split="test", limit=limit),
            compressor=CompressorConfig(budget=BUDGET),
            run=RunConfig(seed=seed),
        )
        name = f"allocation-{limit or 'all'}-{seed}"
        path = collected(config, cache / f"{name}.db")
        truths = _drawn(path, draws)
        # The same task is in every run: its unit says which one.
        with Store.read(path) as store:
            facts = [replace(f, unit=f"{seed}/{f.unit}") for f in trajectory_facts(store)]
        links.update(links_of(facts))
        for truth in truths:
            boundary = BoundaryId(f"{seed}/collect/{truth.task}", truth.index)
            pool[boundary] = Outcomes(_outcomes(truth.pre), _outcomes(truth.post))
            remaining[boundary] = config.run.step_limit - truth.step
    assert links.keys() <= pool.keys()
    return World(pool, links, remaining)


class Lines(Silent):
    """A line on standard error for every fifty boundaries."""

    def __init__(self, name: str) -> None:
        self._name, self._started, self._done = name, time.monotonic(), 0

    def done(self) -> None:
        self._done += 1
        if self._done % 50 == 0:
            seconds = time.monotonic() - self._started
            print(f"  {self._name}: {self._done} boundaries, {seconds:.0f} s", file=sys.stderr)


def _drawn(path: Path, draws: int) -> Sequence[Any]:
    file = path.with_suffix(f".truth-{draws}.json")
    if not file.is_file():
        write_truth(run_truth(path, draws, Lines(path.stem)), file)
    return read_truth(file)


def _outcomes(draws: Draws) -> dict[int, Outcome]:
    rows = zip(draws.success, draws.steps, draws.tokens, strict=True)
    return {number: Outcome(float(success), steps, tokens) for number, (success, steps, tokens) in enumerate(rows)}


def clear(pool: Mapping[BoundaryId, Outcomes]) -> set[BoundaryId]:
    """The boundaries whose H and B both lie a standard error or more from their threshold."""
    kept = set()
    for boundary, outcomes in pool.items():
        pre, post = tuple(outcomes.pre.values()), tuple(outcomes.post.values())
        hazard, burden = hazard_and_burden(pre, post)
        hazard_error = math.sqrt(sum(pvariance([o.value for o in arm]) / len(arm) for arm in (pre, post)))
        burden_error = math.sqrt(sum(pvariance([o.steps for o in arm]) / len(arm) for arm in (pre, post)))
        if abs(hazard - PAPER.hazard) >= hazard_error and abs(burden - PAPER.burden) >= burden_error:
            kept.add(boundary)
    return kept


def measured(allocation: Allocation, world: World, seeds: int) -> tuple[Row, list[Detection]]:
    """Let one allocation sample from the pool, once for each seed."""
    truth, judged = selected_by_all(world.pool), clear(world.pool)
    results, without_close, seconds = [], [], 0.0
    for seed in range(seeds):
        order = shuffled(world.pool, seed)
        started = time.perf_counter()
        sampled = sample(allocation, order)
        seconds += time.perf_counter() - started
        results.append(detection(sampled, truth, world.pool))
        without_close.append(detection(sampled, truth, judged).f1)
    columns = {
        name: over_seeds([getattr(result, name) for result in results])
        for name in ("continuations", "tokens", "recall", "precision", "f1")
    }
    control = false_retention(allocation, {b: o.pre for b, o in world.pool.items()}, splits=seeds)
    row = Row(
        allocation=allocation.name,
        **columns,
        f1_clear=over_seeds(without_close),
        seconds=seconds / seeds,
        false_retention=control,
    )
    return row, results


def goals(results: Mapping[str, Sequence[Detection]]) -> list[dict[str, Any]]:
    """Racing against halving and uniform 3 on the same orders of the draws."""
    out = []
    for racing in ("racing", "chained racing"):
        for other, share in (("halving", 0.55), ("uniform 3", 0.6)):
            mine, theirs = results[racing], results[other]
            cost = fmean(r.continuations for r in mine) / fmean(r.continuations for r in theirs)
            tokens = fmean(r.tokens for r in mine) / fmean(r.tokens for r in theirs)
            gain = over_seeds([a.f1 - b.f1 for a, b in zip(mine, theirs, strict=True)])
            better = gain.value >= 0 if other == "halving" else gain.value > 0
            out.append(
                {
                    "allocation": racing,
                    "against": other,
                    "continuations": cost,
                    "allowed": share,
                    "tokens": tokens,
                    "f1_gain": asdict(gain),
                    "met": cost <= share and better,
                }
            )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where runs and pools are kept")
    parser.add_argument("--runs", type=int, default=2, help="collected runs of the test split (default: 2)")
    parser.add_argument("--draws", type=int, default=64, help="continuations in each arm (default: 64)")
    parser.add_argument("--seeds", type=int, default=40, help="orders of the draws (default: 40)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs, draws, seeds, limit = (1, 24, 5, 45) if args.quick else (args.runs, args.draws, args.seeds, None)
    world = pooled(args.cache, runs, draws, limit)
    racing = Racing(remaining=world.remaining)
    plain: list[Allocation] = [Uniform(3), Halving(), Chained(Halving(), world.links), racing]
    rows, results = [], {}
    for allocation in [*plain, Chained(racing, world.links)]:
        row, results[allocation.name] = measured(allocation, world, seeds)
        rows.append(row)
    report = {
        "boundaries": len(world.pool),
        "draws_in_each_arm": draws,
        "seeds": seeds,
        "harmful": len(selected_by_all(world.pool)),
        "clear": len(clear(world.pool)),
        "rows": [asdict(row) for row in rows],
        "goals": goals(results),
    }
    print(json.dumps(report, indent=2)) if args.json else show(report)


def show(report: Mapping[str, Any]) -> None:
    print(
        f"{report['boundaries']} boundaries of pocket (simulated), {report['harmful']} of them harmful by"
        f" {report['draws_in_each_arm']} draws in each arm; mean over {report['seeds']} seeds with its 95 % interval"
    )
    print(f"F1 clear: on the {report['clear']} boundaries that are a standard error or more from both thresholds")
    head = ("allocation", "draws", "tokens", "recall", "precision", "F1", "F1 clear", "A/A retained", "s")
    widths = (16, 6, 8, 18, 18, 18, 18, 20, 5)
    print("  ".join(text.ljust(width) for text, width in zip(head, widths, strict=True)))
    for row in report["rows"]:
        control = row["false_retention"]["rate"]
        cells = (
            row["allocation"],
            f"{row['continuations']['value']:.2f}",
            f"{row['tokens']['value']:,.0f}",
            *(_shown(row[name]) for name in ("recall", "precision", "f1", "f1_clear")),
            f"{control['value']:.2%} ({control['low']:.1%}-{control['high']:.1%})",
            f"{row['seconds']:.2f}",
        )
        print("  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)))
    print("draws, tokens: continuations and their tokens per boundary; s: the allocation's own work for one seed")
    for goal in report["goals"]:
        gain = goal["f1_gain"]
        print(
            f"{goal['allocation']} against {goal['against']}: {goal['continuations']:.0%} of the continuations"
            f" (goal: {goal['allowed']:.0%} at most), {goal['tokens']:.0%} of the tokens, F1 {gain['value']:+.3f}"
            f" ({gain['low']:+.3f} to {gain['high']:+.3f}): {'met' if goal['met'] else 'not met'}"
        )


def _shown(mean: Mapping[str, float]) -> str:
    return f"{mean['value']:.3f} ({mean['low']:.3f}-{mean['high']:.3f})"


if __name__ == "__main__":
    main()
