"""What sharing the steps up to the first compaction saves.

    python benchmarks/sharing.py                # pocket: four arms on 48 test tasks, with what was saved
    python benchmarks/sharing.py RUN.db         # an evaluation whose arms were played from the beginning: what sharing
                                                # would have saved in it

In an evaluation that was played whole, the arms' steps up to the first compaction differ by chance. Sharing plays one
of them instead of all, so what it would have saved is all of them but their mean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from recompact.engine.config_parser import parse_config
from recompact.engine.shared_starts import sharing
from recompact.engine.store.calls import call_rows
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import open_run, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import PHASE, evaluate, open_evaluation
from recompact.simulation.parameters import KINDS
from world_analyses import asking_for


@dataclass(frozen=True)
class Saving:
    """Steps and tokens of all arms, each by itself, and how many of them sharing saves; tokens by role."""

    steps: float
    steps_saved: float
    tokens: dict[str, float]
    tokens_saved: float  # the agent's: no compressor has been asked before the first compaction

    @property
    def words(self) -> str:
        total = sum(self.tokens.values())
        return (
            f"{self.steps:,.0f} steps, {100 * self.steps_saved / self.steps:.0f} % of them saved; {total / 1000:,.0f}"
            f" thousand tokens, {100 * self.tokens_saved / total:.0f} % of them saved"
            f" ({100 * self.tokens_saved / self.tokens['agent']:.0f} % of the agent's)."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="an evaluation that was played with share_prefix = false")
    parser.add_argument("--limit", type=int, default=48, help="test tasks of pocket")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.run is not None:
        with Store.read(args.run) as store:
            saving = would_save(store)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            saving = saved_on_pocket(Path(scratch) / "run.db", args.limit)
    print(json.dumps(asdict(saving)) if args.json else saving.words)


def saved_on_pocket(path: Path, limit: int) -> Saving:
    """Three prompts and FIFO under one budget, played with sharing."""
    config = parse_config(f'[suite]\nsplit = "test"\nlimit = {limit}\n[compressor]\nbudget = 2048\n', Path("c.toml"))
    sets = {"sets and pages": ("set", "page"), "everything": KINDS}
    arms = [Arm("prompting", "prompted", scope="history"), Arm("fifo", "fifo")]
    arms += [Arm(name, "prompted", template=asking_for(kinds), scope="history") for name, kinds in sets.items()]

    async def play() -> None:
        async with open_evaluation(config, path) as study:
            await evaluate(study, arms, 1)

    asyncio.run(play())
    with open_run(path) as store:
        saved, tokens = sharing(store, PHASE), tokens_by_role(store)
    return Saving(saved.steps, saved.steps - saved.steps_played, tokens, saved.tokens - saved.tokens_paid)


def would_save(store: Store) -> Saving:
    """What arms of one budget would share: all but the mean of their steps up to the first compaction."""
    budgets = {arm["key"]: arm.get("budget") for arm in store.metadata.arms.values()}
    groups: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    rows = trajectories(store, phase=PHASE)
    for row in rows:
        budget = budgets.get(row.unit.split("/", 2)[1])
        if budget is None:
            continue  # nothing is compacted in it
        trajectory = read_trajectory(store, row.unit)
        first = trajectory.boundaries[0].step if trajectory.boundaries else trajectory.steps
        calls = [call for call in call_rows(store, row.unit) if call.role == "agent"][:first]
        groups[row.task, row.run, budget].append((first, sum(call.input + call.output for call in calls)))
    steps = tokens = 0.0
    for shared in groups.values():
        share = 1 - 1 / len(shared)
        steps += share * sum(own for own, _ in shared)
        tokens += share * sum(own for _, own in shared)
    return Saving(sum(row.steps for row in rows), steps, tokens_by_role(store), tokens)


def tokens_by_role(store: Store) -> dict[str, float]:
    """Of all arms, each with the steps that it shares."""
    tokens: dict[str, float] = defaultdict(float)
    for row in trajectories(store, phase=PHASE):
        for role, usage in row.usage.items():
            tokens[role] += usage.total
    return dict(tokens)


if __name__ == "__main__":
    main()
