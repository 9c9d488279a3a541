"""Does the theorem hold here: is the reward that compaction costs the expected sum of the hazards?

    python benchmarks/identity.py               # 2,016 trajectories with compaction and as many without
    python benchmarks/identity.py --quick
    python benchmarks/identity.py --json

Runs the test split of pocket with many seeds, with compaction at a budget of 2,048 tokens and without, and continues
from every boundary a few times in both arms: few draws are noisy but unbiased. Prints J(C), J(none), their difference,
-E[sum H] and the gap between the last two, with 95 % intervals from a bootstrap over tasks. It is a simulation.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from allocation import BUDGET, CACHE, collect_run
from planted_truth import boundary_truth
from recompact.attribution.controls import IdentityCheck, TaskRuns, check_identity
from recompact.engine.config import CompressorConfig, Config, RunConfig, SuiteConfig
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.values.stats import Estimate

SPLIT = "test"


def one_seed(cache: Path, seed: int, draws: int, limit: int | None) -> Path:
    """Both runs of a seed and the hazards of its boundaries, kept as one small file."""
    out = cache / f"identity-{limit or 'all'}-{seed}-{draws}.json"
    if out.is_file():
        return out
    paths = {}
    for kind in ("prompted", "none"):
        config = Config(
            suite=SuiteConfig(split=SPLIT, limit=limit),
            compressor=CompressorConfig(kind="none") if kind == "none" else CompressorConfig(budget=BUDGET),
            run=RunConfig(seed=seed),
        )
        paths[kind] = collect_run(config, cache / f"identity-{limit or 'all'}-{seed}-{kind}.db")
    hazards: dict[str, float] = {}
    with Store.read(paths["prompted"]) as store:
        boundaries = boundary_rows(store)
    for row in boundaries:
        truth = boundary_truth(paths["prompted"], row.unit, row.index, SPLIT, draws)
        hazards[truth.task] = hazards.get(truth.task, 0.0) + truth.hazard
    record = {
        "boundaries": len(boundaries),
        "compacted": _rewards(paths["prompted"]),
        "uncompacted": _rewards(paths["none"]),
        "hazards": hazards,
    }
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(record), encoding="utf-8")
    partial.replace(out)
    for path in paths.values():
        for file in cache.glob(f"{path.name}*"):
            file.unlink()
    return out


def _rewards(path: Path) -> dict[str, float]:
    with Store.read(path) as store:
        return {row.task: row.value for row in trajectories(store)}


def by_task(records: Sequence[Mapping[str, Mapping[str, float]]]) -> list[TaskRuns]:
    return [
        TaskRuns(
            task,
            tuple(record["compacted"][task] for record in records),
            tuple(record["hazards"].get(task, 0.0) for record in records),
            tuple(record["uncompacted"][task] for record in records),
        )
        for task in records[0]["compacted"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where results are kept")
    parser.add_argument("--seeds", type=int, default=12, help="runs of the 168 tasks (default: 12)")
    parser.add_argument("--draws", type=int, default=2, help="continuations in each arm (default: 2)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    seeds, limit = (2, 30) if args.quick else (args.seeds, None)
    args.cache.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(one_seed, args.cache, seed, args.draws, limit) for seed in range(seeds)]
        records = [json.loads(job.result().read_text(encoding="utf-8")) for job in jobs]
    check = check_identity(by_task(records))
    boundaries = sum(record["boundaries"] for record in records)
    if args.json:
        print(json.dumps({**asdict(check), "boundaries": boundaries, "agrees": check.agrees}, indent=2))
    else:
        show(check, boundaries, args.draws)


def show(check: IdentityCheck, boundaries: int, draws: int) -> None:
    print(
        f"pocket (simulated), budget {BUDGET:,}: {check.trajectories:,} trajectories of {check.tasks} tasks with"
        f" compaction and as many without, {boundaries:,} boundaries with {draws} draws in each arm"
    )
    lines: list[tuple[str, Estimate]] = [
        ("J(C)", check.compacted),
        ("J(none)", check.uncompacted),
        ("J(C) - J(none)", check.difference),
        ("-E[sum H]", check.predicted),
        ("gap", check.gap),
    ]
    for name, figure in lines:
        print(f"  {name:<15} {figure.value:+.4f}  ({figure.low:+.4f} to {figure.high:+.4f})")
    print(
        f"  {check.verdict}: the interval of the gap"
        f" {'holds' if check.gap.low <= 0 <= check.gap.high else 'does not hold'} 0"
    )


if __name__ == "__main__":
    main()
