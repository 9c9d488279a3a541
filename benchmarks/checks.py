"""Does it pay to check a summary by rule, and to repair it? Recovery r, disruption d, and the verdict p > d/(r+d).

    python benchmarks/checks.py                       # pocket with simulated models
    python experiments/run.py real-compressor --recorded --method facts --stage adapt --until collect
    python benchmarks/checks.py ~/.cache/recompact-experiments/real-compressor/adapt.db    # summaries of a real model

At every compaction where the check `literals` misses something, the agent continues from the summary as it was and from
the repaired one. p is the share of continuations that fail without the repair, r the share of those that succeed with
it, d the share of the others that fail with it, for independent draws at the same compaction. Then p > d/(r+d) says the
same as: more succeed with the repair than without. The control draws the unrepaired summary twice: its r and d are
those of chance. The agent is simulated in both cases; the run file is copied, never changed.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from recompact.attribution.continuations import play_draw
from recompact.compressors.checked import literals, repair
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect, unit_of
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config, parse_config
from recompact.engine.store.records import read_boundary
from recompact.engine.store.runs import boundary_rows, config_of
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.journal import UnitCalls
from recompact.values.context import Context
from recompact.values.stats import Estimate, bootstrap_ratios
from recompact.values.tables import Number, Table, columns, render
from recompact.values.trajectory import Trajectory

FEWEST, FEWEST_FOR_STEPS = 6, 30  # tasks, below which an interval says nothing (docs/evaluation.md)
TOKENS = 256  # of a repair: the default of `checked`


@dataclass(frozen=True)
class Place:
    """A compaction at which the check misses something: success and steps of its draws in each arm."""

    task: str
    plain: tuple[Trajectory, ...]
    again: tuple[Trajectory, ...]  # the control: the same context, other chances
    repaired: tuple[Trajectory, ...]
    facts: int


@dataclass(frozen=True)
class Verdict:
    """p, r and d with the gain in success, and that in steps."""

    p: float
    r: float | None
    d: float | None
    gain: Estimate
    steps: Estimate
    tasks: int

    @property
    def threshold(self) -> float | None:
        """The failure rate above which it pays."""
        return None if self.r is None or self.d is None or not self.r + self.d else self.d / (self.r + self.d)

    @property
    def words(self) -> str:
        """
        >>> Verdict(0.3, 0.5, 0.1, Estimate(0.08, 0.02, 0.14), Estimate(0, 0, 0), 9).words
        'it pays'
        """
        if self.tasks < FEWEST:
            return f"cannot tell: {self.tasks} tasks"
        return "it pays" if self.gain.low > 0 else "it costs" if self.gain.high < 0 else "cannot tell"


def judge(
    tasks: Sequence[str], before: Sequence[Sequence[Trajectory]], after: Sequence[Sequence[Trajectory]]
) -> Verdict:
    """What a repair does, from draws without and with it at the same compactions; intervals resample tasks."""
    plain, other = ([fmean(t.score.success for t in draws) for draws in arm] for arm in (before, after))
    failed, solved = sum(1 - s for s in plain), sum(plain)
    r = sum((1 - s) * t for s, t in zip(plain, other, strict=True)) / failed if failed else None
    d = sum(s * (1 - t) for s, t in zip(plain, other, strict=True)) / solved if solved else None
    gains = [t - s for s, t in zip(plain, other, strict=True)]
    lengths = [[fmean(t.steps for t in draws) for draws in arm] for arm in (before, after)]
    added = [y - x for x, y in zip(*lengths, strict=True)]
    by_task = sorted(set(tasks))
    sums = [
        [sum(v for v, t in zip(values, tasks, strict=True) if t == task) for task in by_task]
        for values in (gains, added)
    ]
    number = [float(tasks.count(task)) for task in by_task]
    gain, steps = bootstrap_ratios([(sums[0], number), (sums[1], number)])
    assert gain is not None
    assert steps is not None
    return Verdict(failed / len(plain), r, d, gain, steps, len(by_task))


async def measure(study: Study, draws: int, limit: int | None) -> tuple[list[Place], int]:
    """The compactions of a run at which something is missing, continued; and how many compactions there are."""
    tasks = {unit_of(task): task for task in await study.tasks()}
    rows = boundary_rows(study.store)[:limit]
    places: list[Place] = []
    for row in rows:
        boundary, task = read_boundary(study.store, row.id), tasks[row.unit]
        missing = literals(boundary.pre, boundary.post)
        post, number = repair(boundary.post, missing, TOKENS, study.config.compressor.budget, study.count)
        if not number:
            continue

        async def play(context: Context, arm: str, boundary=boundary, task=task, row=row) -> tuple[Trajectory, ...]:  # type: ignore[no-untyped-def]
            units = [f"check/{task.id}/{row.index}/{arm}/{n}" for n in range(draws)]
            calls = [UnitCalls(study.store, unit, study.config.run.seed) for unit in units]
            changed = replace(boundary, post=context)
            return tuple([await play_draw(study, task, changed, "POST", each) for each in calls])

        arms = [
            await play(context, arm)
            for context, arm in ((boundary.post, "plain"), (boundary.post, "again"), (post, "repaired"))
        ]
        places.append(Place(task.id, arms[0], arms[1], arms[2], number))
    return places, len(rows)


async def of_run(config: Config, path: Path, draws: int, limit: int | None) -> tuple[list[Place], int]:
    async with open_study(config, path) as study:
        await collect(study)
        return await measure(study, draws, limit)


def table(title: str, places: Sequence[Place], compactions: int) -> Table:
    tasks = [place.task for place in places]
    plain = [place.plain for place in places]
    verdicts = {
        "repaired": judge(tasks, plain, [place.repaired for place in places]),
        "control": judge(tasks, plain, [place.again for place in places]),
    }

    def number(value: float | None) -> Number | None:
        return None if value is None else Number(value, 3)

    def interval(estimate: Estimate, digits: int, fewest: int) -> Number:
        ends = (estimate.low, estimate.high) if len(set(tasks)) >= FEWEST else None
        return Number(estimate.value, digits, interval=ends, signed=True, unmarked=len(set(tasks)) < fewest)

    rows = tuple(
        (
            name,
            number(v.p),
            number(v.r),
            number(v.d),
            number(v.threshold),
            interval(v.gain, 3, FEWEST),
            interval(v.steps, 2, FEWEST_FOR_STEPS),
            v.words,
        )
        for name, v in verdicts.items()
    )
    heads = columns("arm", "p", "r", "d", "d/(r+d)", "success", "steps", "verdict")
    facts = fmean(place.facts for place in places)
    note = (
        f"{len(places)} of {compactions} compactions of {len(set(tasks))} tasks lack something that calls had used,"
        f" or a rule; a repair put back {facts:.1f} facts on average. {len(plain[0])} draws of each arm."
    )
    return Table(title, heads, rows, (note,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "run", nargs="?", type=Path, help="a run whose agent is simulated; without it, pocket is collected"
    )
    parser.add_argument("--tasks", type=int, default=24, help="of pocket")
    parser.add_argument("--draws", type=int, default=4, help="of each arm and compaction")
    parser.add_argument("--limit", type=int, help="only the first so many compactions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "checks.db"
        if given.run:
            shutil.copyfile(given.run, path)
            with Store.read(path) as store:
                config = load_config(config_of(store))
            title = f"{given.run.parent.name}: summaries of {config.compressor_model}"
        else:
            config = parse_config(f"[suite]\nlimit = {given.tasks}\n[compressor]\nbudget = 2048\n", Path("checks.toml"))
            title = f"pocket, {given.tasks} training tasks, simulated models"
        places, compactions = asyncio.run(of_run(config, path, given.draws, given.limit))
    if not places:
        print(f"{title}: none of {compactions} compactions lacks anything that the check looks for.")
        return
    print(render(table(title, places, compactions), "terminal"))


if __name__ == "__main__":
    main()
