"""How the embedded world behaves: the picture that the simulated models give, beside the paper's.

    python benchmarks/pocket.py                 # 168 test tasks, three runs, without and with compaction
    python benchmarks/pocket.py --truth 30      # also the truth about every boundary of the train split

Simulated models only: this says whether the world is a fair place to test estimators, not how a real model behaves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from recompact.cli.truth import truth_summary
from recompact.collection import collect
from recompact.config import parse_config
from recompact.embedded.simulation.truth import run_truth
from recompact.store.runs import trajectories
from recompact.store.store import Store
from recompact.study import open_study

ARMS = {
    "no compaction": 'kind = "none"',
    "FIFO": 'kind = "fifo"\nbudget = 2048',
    "prompted": 'kind = "prompted"\nbudget = 2048',
    "prompted, prefix": 'kind = "prompted"\nbudget = 2048\nscope = "prefix"',
    "prompted, appended": 'kind = "prompted"\nbudget = 2048\nscope = "prefix"\nrendering = "appended"',
}


async def run(path: Path, compressor: str, split: str, seed: int) -> list[Any]:
    text = f'[suite]\nuse = "pocket"\nsplit = "{split}"\n[compressor]\n{compressor}\n[run]\nseed = {seed}\n'
    with Store.open(path) as store:
        async with open_study(parse_config(text, Path("pocket.toml")), store) as study:
            await collect(study)
        return list(trajectories(store))


def row(runs: list[list[Any]]) -> dict[str, float]:
    """Means over tasks and runs; Pass^3 and Pass@3 over tasks."""
    by_task: dict[str, list[bool]] = {}
    for trajectory in (t for one in runs for t in one):
        by_task.setdefault(trajectory.task, []).append(trajectory.success)
    every = [t for one in runs for t in one]
    return {
        "Acc": 100 * fmean(t.success for t in every),
        "Pass^3": 100 * fmean(all(outcomes) for outcomes in by_task.values()),
        "Pass@3": 100 * fmean(any(outcomes) for outcomes in by_task.values()),
        "steps": fmean(t.steps for t in every),
        "compactions": fmean(t.compactions for t in every),
        "peak": fmean(t.peak for t in every) / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=int, default=0, metavar="DRAWS", help="draws in each arm of each boundary")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report: dict[str, Any] = {"arms": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for name, compressor in ARMS.items():
            paths = [Path(scratch) / f"{name}-{seed}.db" for seed in range(3)]
            runs = [asyncio.run(run(path, compressor, "test", seed)) for seed, path in enumerate(paths)]
            report["arms"][name] = row(runs)
        started = time.perf_counter()
        train = Path(scratch) / "train.db"
        asyncio.run(run(train, ARMS["prompted"], "train", 0))
        report["train_seconds"] = time.perf_counter() - started
        if args.truth:
            truths = run_truth(train, args.truth)
            report["truth"] = truth_summary(truths, args.truth)
    print(json.dumps(report, indent=2)) if args.json else show(report)


def show(report: dict[str, Any]) -> None:
    names = list(report["arms"]["prompted"])
    print("pocket, 168 test tasks, three runs, simulated models, budget 2,048 tokens")
    print(f"{'':<20}" + "".join(f"{name:>12}" for name in names))
    for arm, values in report["arms"].items():
        print(f"{arm:<20}" + "".join(f"{values[name]:>12.2f}" for name in names))
    print(f"train split, 90 tasks, one run, prompted: collected in {report['train_seconds']:.1f} s")
    for name, value in report.get("truth", {}).items():
        print(f"  {name.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    main()
