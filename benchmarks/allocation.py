"""Which way of spending draws finds the harmful compactions, and at what cost.

    python benchmarks/allocation.py             # first time: some fifteen minutes on two cores, for the pool of draws
    python benchmarks/allocation.py --quick     # fewer boundaries, draws and seeds: about a minute
    python benchmarks/allocation.py --json

Collects the test split of pocket at a budget of 2,048 tokens with several seeds and draws a pool of continuations for
each boundary and arm, once; both are kept in --cache. The first sixteen of them are there to be sampled; what all the
others say is the truth: H >= 0.5 or B >= 5. Each allocation samples in a new order of the draws for each seed. The
intervals resample tasks, each with all its boundaries and orders. It is a simulation and says nothing about real
models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from planted_truth import BoundaryTruth, Draws, read_truth, run_truth, write_truth
from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import Chained, Link, links_of, with_chained
from recompact.attribution.detection import sample, selected_by_all, shuffle_draws
from recompact.attribution.effects import hazard_and_burden
from recompact.attribution.halving import Halving
from recompact.attribution.racing import DEFAULT, Racing
from recompact.attribution.registry import trajectory_facts
from recompact.attribution.uniform import Uniform
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import CompressorConfig, Config, RunConfig, SuiteConfig
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.values.outcome import PAPER, BoundaryId, Outcome, Outcomes
from recompact.values.progress import Silent
from recompact.values.stats import Estimate, pearson, percentile_estimate

BUDGET = 2048
SAMPLED = 16  # draws in each arm to sample from; the others are the truth
RESAMPLES = 1000
CACHE = Path(__file__).parent.parent / "runs" / "benchmarks"


@dataclass(frozen=True)
class World:
    """All boundaries with all their draws, and how they are linked."""

    pool: Mapping[BoundaryId, Outcomes]  # to sample from
    truth: Mapping[BoundaryId, Outcomes]  # other draws, which decide what is harmful
    links: Mapping[BoundaryId, Link]
    remaining: Mapping[BoundaryId, int]


@dataclass(frozen=True)
class Tally:
    """What one allocation came to at the boundaries of one task, summed over the orders of the draws."""

    hits: int = 0
    retained: int = 0
    harmful: int = 0
    clear: int = 0  # boundaries that are harmless by far: what is retained of them is retained by chance
    clear_retained: int = 0
    boundaries: int = 0
    continuations: int = 0
    tokens: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


FIGURES: Mapping[str, Callable[[Tally], float]] = {
    "continuations": lambda t: t.continuations / t.boundaries,
    "tokens": lambda t: t.tokens / t.boundaries,
    "recall": lambda t: t.hits / t.harmful if t.harmful else 1.0,
    "precision": lambda t: t.hits / t.retained if t.retained else 1.0,
    "f1": lambda t: 2 * t.hits / (t.retained + t.harmful) if t.retained + t.harmful else 1.0,
    "by_chance": lambda t: t.clear_retained / t.clear if t.clear else 0.0,
}


def over_tasks(tasks: Sequence[Sequence[Tally]], figure: Callable[[Sequence[Tally]], float]) -> Estimate:
    """A figure of several allocations with its interval; `tasks` has the tallies of each task, one per allocation."""
    chance = Random("tasks")

    def value(chosen: Sequence[Sequence[Tally]]) -> float:
        return figure([sum(column, Tally()) for column in zip(*chosen, strict=True)])

    return percentile_estimate(value(tasks), [value(chance.choices(tasks, k=len(tasks))) for _ in range(RESAMPLES)])


def collect_run(config: Config, path: Path) -> Path:
    """Run the tasks of a config, as `recompact collect` does; existing work is reused."""

    async def work(store: Store) -> None:
        async with open_study(config, store) as study:
            await collect(study)

    path.parent.mkdir(parents=True, exist_ok=True)
    with open_run(path) as store:
        asyncio.run(work(store))
    return path


def run_name(split: str, limit: int | None, seed: int) -> str:
    return f"{'allocation' if split == 'test' else split}-{limit or 'all'}-{seed}"


def pool_runs(cache: Path, runs: int, draws: int, limit: int | None, first: int = 0) -> World:
    """The world of `runs` collected runs."""
    pool: dict[BoundaryId, Outcomes] = {}
    planted: dict[BoundaryId, Outcomes] = {}
    links: dict[BoundaryId, Link] = {}
    remaining: dict[BoundaryId, int] = {}
    for seed in range(first, first + runs):
        config = Config(
            suite=SuiteConfig(split="test", limit=limit),
            compressor=CompressorConfig(budget=BUDGET),
            run=RunConfig(seed=seed),
        )
        path = collect_run(config, cache / f"{run_name('test', limit, seed)}.db")
        truths = draw_truth(path, draws)
        # The same task is in every run: its unit says which run.
        with Store.read(path) as store:
            facts = [replace(f, unit=f"{seed}/{f.unit}") for f in trajectory_facts(store)]
        links.update(links_of(facts))
        for truth in truths:
            boundary = BoundaryId(f"{seed}/collect/{truth.task}", truth.index)
            pre, post = _outcomes(truth.pre), _outcomes(truth.post)
            pool[boundary] = Outcomes(*({n: arm[n] for n in range(SAMPLED)} for arm in (pre, post)))
            planted[boundary] = Outcomes(*({n: arm[n] for n in range(SAMPLED, draws)} for arm in (pre, post)))
            remaining[boundary] = config.run.step_limit - truth.step
    assert links.keys() <= pool.keys()
    return World(pool, planted, links, remaining)


class Lines(Silent):
    """A line on standard error for every fifty boundaries."""

    def __init__(self, name: str) -> None:
        self._name, self._started, self._done = name, time.monotonic(), 0

    def done(self) -> None:
        self._done += 1
        if self._done % 50 == 0:
            seconds = time.monotonic() - self._started
            print(f"  {self._name}: {self._done} boundaries, {seconds:.0f} s", file=sys.stderr)


def draw_truth(path: Path, draws: int) -> list[BoundaryTruth]:
    """`draws` continuations of each boundary and arm of a run; existing work is reused."""
    file = path.with_suffix(f".truth-{draws}.json")
    if not file.is_file():
        write_truth(run_truth(path, draws, Lines(path.stem)), file)
    return read_truth(file)


def _outcomes(draws: Draws) -> dict[int, Outcome]:
    rows = zip(draws.success, draws.steps, draws.tokens, strict=True)
    return {number: Outcome(float(success), steps, tokens) for number, (success, steps, tokens) in enumerate(rows)}


def harmless_by_far(truth: Mapping[BoundaryId, Outcomes]) -> set[BoundaryId]:
    """The boundaries whose H and B are at most a fifth of their thresholds.

    With real chained draws they are the A/A control of chaining: nothing about it holds by construction.
    """
    effects = {b: hazard_and_burden(tuple(o.pre.values()), tuple(o.post.values())) for b, o in truth.items()}
    return {b for b, (h, s) in effects.items() if h <= PAPER.hazard / 5 and s <= PAPER.burden / 5}


def tallies(allocation: Allocation, world: World, seeds: int) -> dict[str, Tally]:
    """By task, over all orders of the draws."""
    harmful, calm = selected_by_all(world.truth), harmless_by_far(world.truth)
    sums: dict[str, Tally] = {}
    for seed in range(seeds):
        sampled = sample(allocation, shuffle_draws(world.pool, seed))
        retained = set(sampled.retained)
        for b, own in sampled.outcomes.items():
            draws = [o for arm in (own.pre, own.post) for o in arm.values()]
            one = Tally(
                b in retained and b in harmful,
                b in retained,
                b in harmful,
                b in calm,
                b in calm and b in retained,
                1,
                len(draws),
                sum(o.tokens for o in draws),
            )
            task = b.unit.partition("/")[2]  # the same task of several runs stays together
            sums[task] = sums.get(task, Tally()) + one
    return sums


def neighbours(world: World, seeds: int, chained: bool) -> Estimate | None:
    """The correlation of the errors of H at neighbouring boundaries, from one pair each, with chained POST draws or
    with fresh ones."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    true = {b: hazard_and_burden(*(tuple(arm.values()) for arm in (o.pre, o.post)))[0] for b, o in world.truth.items()}
    for seed in range(seeds):
        order = shuffle_draws(world.pool, seed)
        known = {b: Outcomes({0: o.pre[0]}, {} if chained else {0: o.post[0]}) for b, o in order.items()}
        known = with_chained(known, world.links) if chained else known
        errors = {
            b: float(hazard_and_burden((o.pre[0],), (o.post[0],))[0] - true[b]) for b, o in known.items() if o.post
        }
        for b, error in errors.items():
            after = errors.get(BoundaryId(b.unit, b.index + 1))
            if after is not None:
                pairs.setdefault(b.unit.partition("/")[2], []).append((error, after))

    def correlation(tasks: Sequence[str]) -> float | None:
        both = [pair for task in tasks for pair in pairs[task]]
        return pearson([x for x, _ in both], [y for _, y in both])

    chance, names = Random("neighbours"), sorted(pairs)
    value = correlation(names)
    resampled = [correlation(chance.choices(names, k=len(names))) for _ in range(200)] if names else []
    return None if value is None else percentile_estimate(value, [r for r in resampled if r is not None])


def goals(results: Mapping[str, Mapping[str, Tally]]) -> list[dict[str, Any]]:
    """Racing against halving and uniform 3 on the same orders of the draws and the same resamples of tasks."""
    out = []
    for racing in ("racing", "chained racing"):
        for other, share in (("halving", 0.55), ("uniform 3", 0.6)):
            tasks = [(results[racing][task], results[other][task]) for task in sorted(results[racing])]
            ratios = {name: over_tasks(tasks, _ratio(FIGURES[name])) for name in ("continuations", "tokens")}
            gain = over_tasks(tasks, lambda pair: FIGURES["f1"](pair[0]) - FIGURES["f1"](pair[1]))
            met = ratios["continuations"].value <= share and gain.value >= 0
            figures = {**{name: asdict(ratio) for name, ratio in ratios.items()}, "f1_gain": asdict(gain)}
            out.append({"allocation": racing, "against": other, "allowed": share, **figures, "met": met})
    return out


REACHING_SEEDS = 10
HARMLESS = (0.02, 0.03, 0.05, DEFAULT.harmless_below, 0.1, 0.15, 0.2, 0.3)
"""Probabilities of harm below which a race ends: the lower, the more draws."""
GOAL = 1.2  # continuations per boundary


def reaching(world: World, races: Mapping[str, Racing], seeds: int) -> dict[str, Any]:
    """How many continuations per boundary each race takes to reach halving's F1, by ending races earlier or later."""

    def point(allocation: Allocation) -> tuple[float, float]:
        whole = sum(tallies(allocation, world, seeds).values(), Tally())
        return FIGURES["continuations"](whole), FIGURES["f1"](whole)

    _, wanted = point(Halving())
    curves = {
        name: [
            point(Chained(replace(race, stopping=replace(race.stopping, harmless=h)), world.links)) for h in HARMLESS
        ]
        for name, race in races.items()
    }
    least = {name: min((cost for cost, f1 in curve if f1 >= wanted), default=None) for name, curve in curves.items()}
    return {"f1": wanted, "seeds": seeds, "harmless": HARMLESS, "curves": curves, "continuations": least, "goal": GOAL}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where runs and pools are kept")
    parser.add_argument("--runs", type=int, default=2, help="collected runs of the test split (default: 2)")
    parser.add_argument("--draws", type=int, default=64, help="continuations in each arm (default: 64)")
    parser.add_argument("--seeds", type=int, default=40, help="orders of the draws (default: 40)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first run (default: 0)")
    parser.add_argument("--limit", type=int, help="only so many tasks")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs, draws, seeds, limit = (1, 40, 5, 45) if args.quick else (args.runs, args.draws, args.seeds, args.limit)
    world = pool_runs(args.cache, runs, draws, limit, args.first)
    racing = Racing(remaining=world.remaining)
    plain: list[Allocation] = [Uniform(3), Halving(), Chained(Halving(), world.links), racing]
    results = {each.name: tallies(each, world, seeds) for each in [*plain, Chained(racing, world.links)]}
    report = {
        "boundaries": len(world.pool),
        "draws_of_the_truth": draws - SAMPLED,
        "seeds": seeds,
        "harmful": len(selected_by_all(world.truth)),
        "harmless_by_far": len(harmless_by_far(world.truth)),
        "rows": [
            {
                "allocation": name,
                **{k: asdict(over_tasks([(t,) for t in own.values()], _one(f))) for k, f in FIGURES.items()},
            }
            for name, own in results.items()
        ],
        "neighbours": {
            name: (found := neighbours(world, seeds, chained)) and asdict(found)
            for name, chained in (("fresh", False), ("chained", True))
        },
        "goals": goals(results),
        "reaching": reaching(world, {"chained racing": racing}, min(seeds, REACHING_SEEDS)),
    }
    print(json.dumps(report, indent=2)) if args.json else show(report)


def _ratio(figure: Callable[[Tally], float]) -> Callable[[Sequence[Tally]], float]:
    return lambda pair: figure(pair[0]) / figure(pair[1])


def _one(figure: Callable[[Tally], float]) -> Callable[[Sequence[Tally]], float]:
    return lambda tallies: figure(tallies[0])


def show(report: Mapping[str, Any]) -> None:
    print(
        f"{report['boundaries']} boundaries of pocket (simulated), {report['harmful']} of them harmful by"
        f" {report['draws_of_the_truth']} other draws in each arm; {report['seeds']} orders; 95 % intervals over tasks"
    )
    head = ("allocation", "draws", "tokens", "recall", "precision", "F1", "retained by chance")
    widths = (16, 6, 8, 20, 20, 20, 20)
    print("  ".join(text.ljust(width) for text, width in zip(head, widths, strict=True)))
    for row in report["rows"]:
        cells = (
            row["allocation"],
            f"{row['continuations']['value']:.2f}",
            f"{row['tokens']['value']:,.0f}",
            *(_cell(row[name]) for name in ("recall", "precision", "f1", "by_chance")),
        )
        print("  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)))
    print(f"by chance: of the {report['harmless_by_far']} boundaries with H and B at most a fifth of their thresholds")
    for name, found in report["neighbours"].items():
        print(
            f"errors of H at neighbouring boundaries, {name} POST draws: correlation {_cell(found) if found else '?'}"
        )
    for goal in report["goals"]:
        gain, cost = goal["f1_gain"], goal["continuations"]
        print(
            f"{goal['allocation']} against {goal['against']}: {cost['value']:.0%} of the continuations"
            f" (goal: {goal['allowed']:.0%} at most), {goal['tokens']['value']:.0%} of the tokens, F1"
            f" {gain['value']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f}): {'met' if goal['met'] else 'not met'}"
        )
    reach = report["reaching"]
    print(f"continuations per boundary to reach halving's F1 of {reach['f1']:.3f}, by ending races earlier or later:")
    for name, cost in reach["continuations"].items():
        curve = ", ".join(f"{draws:.2f} {f1:.3f}" for draws, f1 in reach["curves"][name])
        met = f" (goal: {GOAL}, {'met' if cost and cost <= GOAL else 'not met'})"
        print(f"  {name}: {f'{cost:.2f}' if cost else 'not reached'}{met}; draws and F1: {curve}")


def _cell(mean: Mapping[str, float]) -> str:
    return f"{mean['value']:.3f} ({mean['low']:.3f}-{mean['high']:.3f})"


if __name__ == "__main__":
    main()
