"""How the embedded world behaves: the picture that the simulated models give, beside the paper's, and what is off.

    python benchmarks/pocket.py                 # 168 test tasks, three runs, without and with compaction
    python benchmarks/pocket.py --scopes        # also the other renderings of the prompt
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

from planted_truth import run_truth, truth_summary
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config_parser import parse_config
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store

ARMS = {
    "no compaction": 'kind = "none"',
    "FIFO": 'kind = "fifo"\nbudget = 2048',
    "prompted": 'kind = "prompted"\nbudget = 2048',
}
SCOPES = {
    "prompted, prefix": 'kind = "prompted"\nbudget = 2048\nscope = "prefix"',
    "prompted, appended": 'kind = "prompted"\nbudget = 2048\nscope = "prefix"\nrendering = "appended"',
}
GROUPS = ("all", "easy", "medium", "hard")
PAPER = {  # AppWorld, test-normal, history-only compression: accuracy and Pass^3, all tasks and by difficulty
    "no compaction": ((84.1, 78.6), (97.7, 93.0), (86.8, 81.2), (69.8, 63.5)),
    "FIFO": ((53.2, 45.2), (95.9, 93.0), (47.9, 37.5), (18.5, 9.5)),
    "prompted": ((78.6, 68.5), (94.2, 89.5), (81.2, 66.7), (62.4, 50.8)),
}


def implied_pass_at_3(accuracy: float, pass_3: float) -> float:
    """Pass@3 in percent, which the paper does not print, for chances of success that follow a beta distribution.

    The two figures fix the distribution; without any assumption they leave Pass@3 a range of about ten points.
    """
    mean, cube = accuracy / 100, pass_3 / 100

    def moment(share: float, size: float) -> float:
        return share * (share * size + 1) * (share * size + 2) / ((size + 1) * (size + 2))

    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if moment(mean, middle) > cube else (low, middle)
    return 100 * (1 - moment(1 - mean, low))


def targets(arm: str, group: str) -> dict[str, float]:
    accuracy, pass_3 = PAPER[arm][GROUPS.index(group)]
    return {"Acc": accuracy, "Pass^3": pass_3, "Pass@3": implied_pass_at_3(accuracy, pass_3)}


async def run(path: Path, compressor: str, split: str, seed: int) -> list[Any]:
    text = f'[suite]\nuse = "pocket"\nsplit = "{split}"\n[compressor]\n{compressor}\n[run]\nseed = {seed}\n'
    with Store.open(path) as store:
        async with open_study(parse_config(text, Path("pocket.toml")), store) as study:
            await collect(study)
        return list(trajectories(store))


def row(runs: list[list[Any]], group: str = "all") -> dict[str, float]:
    """Means over tasks and runs of a difficulty; Pass^3 and Pass@3 over tasks."""
    by_task: dict[str, list[bool]] = {}
    every = [t for one in runs for t in one if group in ("all", t.groups["difficulty"])]
    for trajectory in every:
        by_task.setdefault(trajectory.task, []).append(trajectory.success)
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
    parser.add_argument("--scopes", action="store_true", help="also prefix scope, appended or not")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report: dict[str, Any] = {"arms": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for name, compressor in (ARMS | SCOPES if args.scopes else ARMS).items():
            paths = [Path(scratch) / f"{name}-{seed}.db" for seed in range(3)]
            runs = [asyncio.run(run(path, compressor, "test", seed)) for seed, path in enumerate(paths)]
            report["arms"][name] = {group: row(runs, group) for group in GROUPS}
        started = time.perf_counter()
        train = Path(scratch) / "train.db"
        asyncio.run(run(train, ARMS["prompted"], "train", 0))
        report["train_seconds"] = time.perf_counter() - started
        if args.truth:
            truths = run_truth(train, args.truth)
            report["truth"] = truth_summary(truths, args.truth)
    print(json.dumps(report, indent=2)) if args.json else show(report)


def show(report: dict[str, Any]) -> None:
    names = list(report["arms"]["prompted"]["all"])
    print("pocket, 168 test tasks, three runs, simulated models, budget 2,048 tokens")
    print(f"{'':<20}" + "".join(f"{name:>12}" for name in names))
    for arm, groups in report["arms"].items():
        print(f"{arm:<20}" + "".join(f"{groups['all'][name]:>12.2f}" for name in names))
    print("\nthe paper's AppWorld figures (Pass@3: implied by the other two), and how far off this world is")
    print(f"{'':<29}" + "".join(f"{name:>9}{'here':>7}{'off':>7}" for name in ("Acc", "Pass^3", "Pass@3")))
    residuals = []
    for arm in ARMS:
        for group in GROUPS:
            aims, here = targets(arm, group), report["arms"][arm][group]
            cells = [(aim, here[name], here[name] - aim) for name, aim in aims.items()]
            residuals += [off for *_, off in cells] if group == "all" else []
            print(f"{arm:<20}{group:<9}" + "".join(f"{a:>9.1f}{b:>7.1f}{off:>+7.1f}" for a, b, off in cells))
    print(f"root mean square of the nine residuals over all tasks: {fmean(r * r for r in residuals) ** 0.5:.1f} points")
    print(f"\ntrain split, 90 tasks, one run, prompted: collected in {report['train_seconds']:.1f} s")
    for name, value in report.get("truth", {}).items():
        print(f"  {name.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    main()
