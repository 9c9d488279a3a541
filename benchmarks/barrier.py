"""How close verification comes to its ideal makespan when replies take 0.2 to 2 seconds and 64 calls run at once.

    python benchmarks/barrier.py             # three minutes
    python benchmarks/barrier.py --real      # waits the latencies out; a quarter of an hour
    python benchmarks/barrier.py --json

A run of `pocket` is collected with the simulated models and verified by several allocations. Each reply takes a time of
its own, drawn from a long-tailed (log-normal) distribution. The clock skips the time in which nothing happens; what
this process computes counts in full, simulated models included. The ideal is the sum of all latencies / 64, or
the critical path if that is longer: the longest chain of draws of one boundary that must follow each other.
`with a barrier` is halving as one would write it down: no draw begins before the previous round has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import selectors
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recompact.attribution.allocation import Allocation
from recompact.attribution.records import outcomes_in
from recompact.attribution.registry import allocation_of
from recompact.attribution.verify import verify
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.calls import journaled_calls
from recompact.engine.store.runs import continuation_rows, phase_digest
from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request
from recompact.values.outcome import BoundaryId, Draw, Outcomes

PLACES = 64
SHORTEST, MEDIAN, LONGEST, SPREAD = 0.2, 0.5, 2.0, 0.7
CONFIG = """
[suite]
use = "pocket"
split = "{split}"
[compressor]
budget = 2048
[run]
concurrency = {places}
"""
SPLITS = ("train", "test")
ALLOCATIONS = ("halving", "uniform:3", "chained", "racing", "chained:racing")


def latency(seed: int) -> float:
    """Seconds that a reply takes; it belongs to the request, so every allocation meets the same ones."""
    drawn = MEDIAN * math.exp(random.Random(f"latency/{seed}").gauss(0, SPREAD))
    return min(LONGEST, max(SHORTEST, drawn))


@dataclass
class Slow:
    """A model that takes its time."""

    model: ChatModel
    seconds: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request) -> Reply:
        assert request.decoding.seed is not None
        self.seconds.append(latency(request.decoding.seed))
        await asyncio.sleep(self.seconds[-1])
        return await self.model.reply(request)


class SkippingSelector(selectors.DefaultSelector):
    """Moves the clock forward instead of waiting."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None and timeout > 0:
            self.skipped += timeout
        return ready


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is what this process computed plus what it would have waited."""

    def __init__(self) -> None:
        self._skipping = SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return time.process_time() + self._skipping.skipped


@dataclass
class WithBarrier(Allocation):
    """An allocation that is asked for more only when all that it asked for has come back."""

    inner: Allocation
    asked: list[Draw] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.inner.name} with a barrier"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        self.asked = [d for d in self.asked if d.number not in outcomes[d.boundary].of(d.arm)]
        if not self.asked:
            self.asked = list(self.inner.due(outcomes))
        return self.asked


def config_of(split: str) -> Config:
    return parse_config(CONFIG.format(split=split, places=PLACES), Path("barrier.toml"))


async def measure(path: Path, split: str, name: str, barrier: bool = False) -> dict[str, Any]:
    """Verify a collected run and say how long that took."""
    with Store.open(path) as store:
        allocation = allocation_of(store, VerifyConfig(allocation=name))
        if barrier:
            allocation = WithBarrier(allocation)
        async with open_study(config_of(split), store) as study:
            models = {key: Slow(model) for key, model in study.models.items()}
            loop = asyncio.get_running_loop()
            started, computing = loop.time(), time.process_time()
            await verify(replace(study, models=models), allocation)
            seconds, computing = loop.time() - started, time.process_time() - computing
        total = sum(second for model in models.values() for second in model.seconds)
        path_length = critical_path(store, name)
        ideal = max(total / PLACES, path_length)
        return {
            "allocation": allocation.name,
            "boundaries": len(outcomes_in(store).outcomes),
            "continuations": len(continuation_rows(store)),
            "calls": sum(len(model.seconds) for model in models.values()),
            "latency": total,
            "critical_path": path_length,
            "ideal": ideal,
            "makespan": seconds,
            "computing": computing,
            "reached": ideal / seconds,
            "digest": phase_digest(store, "continuation"),
        }


def critical_path(store: Store, allocation: str) -> float:
    """The longest chain of draws of one boundary, by their latencies, as far as one had to wait for the other."""
    took: defaultdict[str, float] = defaultdict(float)
    for unit, ordinal in journaled_calls(store, "continue/"):
        took[unit] += latency(seed_of(unit, ordinal))
    chains: defaultdict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for number, made in enumerate(continuation_rows(store)):
        # uniform: none waits; halving: pairs in order; racing: one after the other
        link = 0 if allocation.startswith("uniform") else number if "racing" in allocation else made.draw
        chain = chains[made.unit, made.index]
        chain[link] = max(chain.get(link, 0.0), took[made.name])
    return max(sum(chain.values()) for chain in chains.values())


async def collect_run(path: Path, split: str) -> None:
    with Store.open(path) as store:
        async with open_study(config_of(split), store) as study:
            await collect(study)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--real", action="store_true", help="wait the latencies out instead of skipping them")
    parser.add_argument(
        "--split", choices=SPLITS, help="the tasks of pocket to collect (default: first one, then the other)"
    )
    parser.add_argument("--allocation", action="append", choices=ALLOCATIONS, help="only this one (may be repeated)")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for split in (args.split,) if args.split else SPLITS:
            path = Path(scratch) / f"{split}.db"
            asyncio.run(collect_run(path, split))
            for name, barrier in ((ALLOCATIONS[0], True), *((name, False) for name in args.allocation or ALLOCATIONS)):
                copy = path.with_suffix(".copy.db")
                copy.write_bytes(path.read_bytes())
                with asyncio.Runner(loop_factory=None if args.real else SkippingLoop) as runner:
                    found.append(runner.run(measure(copy, split, name, barrier)))
                if not args.json:
                    show(found[-1], first=barrier, real=args.real)
    if args.json:
        print(json.dumps(found, indent=2))


def show(r: dict[str, Any], first: bool, real: bool) -> None:
    if first:
        clock = "real time" if real else "idle time skipped, computing counted in full"
        print(f"pocket, {r['boundaries']} boundaries, {PLACES} calls at once, latency {SHORTEST}-{LONGEST} s ({clock})")
        print(f"{'':24}{'continuations':>14}{'calls':>8}{'chain':>9}{'ideal':>9}{'took':>9}{'reached':>9}")
    print(
        f"{r['allocation']:24}{r['continuations']:>14,}{r['calls']:>8,}{r['critical_path']:>8.1f}s{r['ideal']:>8.1f}s"
        f"{r['makespan']:>8.1f}s{r['reached']:>9.1%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
