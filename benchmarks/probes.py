"""Do probes predict harm? Probe loss beside what a compaction really cost, by continuations with and without it.

    python benchmarks/probes.py                           # the embedded world: two minutes of one core
    python benchmarks/probes.py --run PATH/adapt.db       # any verified run

    python experiments/run.py real-compressor --recorded --until verify     # then, for the recorded real compressor:
    python benchmarks/probes.py --run ~/.cache/recompact-experiments/real-compressor/adapt.db

For each predictor: its rank correlation with H (success lost) and B (steps added), and how often it ranks a harmful
compaction (H >= 0.5 or B >= 5) above a harmless one (AUC; 0.5 is chance). Intervals resample tasks.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from recompact.attribution.divergence import find_dropped, visible_text
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.verify import verify
from recompact.audit.auditing import audit_run
from recompact.audit.scoring import assess
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.evaluation.probes import CompactionPoint, points_of_run
from recompact.values.stats import percentile_estimate, ranks, spearman
from recompact.values.tables import Cell, Number, Row, Table, columns, markdown

WORLD = """
[suite]
limit = {tasks}
[compressor]
budget = 2048
[verify]
allocation = "uniform:{draws}"
"""
RESAMPLES = 1000
HAZARD, BURDEN = 0.5, 5.0


@dataclass(frozen=True)
class Observation:
    """One compaction: what it cost, and what each predictor says; None where a predictor says nothing."""

    task: str
    hazard: float
    burden: float
    predictors: Mapping[str, float | None]

    @property
    def harmful(self) -> bool:
        return self.hazard >= HAZARD or self.burden >= BURDEN


def lost_share(point: CompactionPoint) -> float:
    """The share of facts that the recorded context no longer shows; where nothing was needed, nothing is lost."""
    assert point.recorded is not None
    shown = visible_text(point.recorded)
    facts = point.facts
    return sum(not fact.shown_in(shown) for fact in facts) / len(facts) if facts else 0.0


def lost_number(point: CompactionPoint) -> float:
    assert point.recorded is not None
    shown = visible_text(point.recorded)
    return float(sum(not fact.shown_in(shown) for fact in point.facts))


def observations(store: Store) -> Iterator[Observation]:
    """All boundaries of a verified run that have an effect."""
    points = {point.name: point for point in points_of_run(store)}
    ranked = assess(audit_run(store)).ranked
    audited = {each.compaction.identity: each.score for each in ranked}
    for verdict in read_verdicts(store).verdicts:
        effect = verdict.effect
        if effect is None:
            continue
        boundary = read_boundary(store, verdict.id)
        point = points[str(verdict.id)]
        rest = read_trajectory(store, verdict.id.unit).turns[boundary.step :]
        recorded = CompactionPoint(point.name, point.pre, point.recorded, rest, point.following)
        yield Observation(
            verdict.id.unit,
            effect.hazard,
            effect.burden,
            {
                "probe loss, facts that PRE used": lost_share(point),
                "the same, as a number": lost_number(point),
                "probe loss, facts that the recorded rest used": lost_share(recorded),
                "audit score": audited.get(f"{verdict.id.unit}#{verdict.id.index}"),
                "literals dropped": float(len(find_dropped(boundary).literals)),
                "tokens dropped": float(boundary.pre.size - boundary.post.size),
            },
        )


def auc(values: Sequence[float], harmful: Sequence[bool]) -> float | None:
    """The chance that a harmful one is ranked above a harmless one; ties count half."""
    positive = sum(harmful)
    if not positive or positive == len(harmful):
        return None
    total = sum(rank for rank, bad in zip(ranks(values), harmful, strict=True) if bad)
    return (total - positive * (positive + 1) / 2) / (positive * (len(harmful) - positive))


Statistic = Callable[[Sequence[Observation], str], "float | None"]


def _with_hazard(rows: Sequence[Observation], name: str) -> float | None:
    return spearman([row.predictors[name] or 0.0 for row in rows], [row.hazard for row in rows])


def _with_burden(rows: Sequence[Observation], name: str) -> float | None:
    return spearman([row.predictors[name] or 0.0 for row in rows], [row.burden for row in rows])


def _auc(rows: Sequence[Observation], name: str) -> float | None:
    return auc([row.predictors[name] or 0.0 for row in rows], [row.harmful for row in rows])


def estimate(rows: Sequence[Observation], name: str, statistic: Statistic) -> Cell:
    """A statistic with its interval: tasks are drawn with replacement, each with all its compactions."""
    value = statistic(rows, name)
    if value is None:
        return None
    tasks: dict[str, list[Observation]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    names, chance = sorted(tasks), Random(f"probes/{name}")
    drawn = []
    for _ in range(RESAMPLES):
        sample = [row for task in chance.choices(names, k=len(names)) for row in tasks[task]]
        if (each := statistic(sample, name)) is not None:
            drawn.append(each)
    ends = percentile_estimate(value, drawn)
    return Number(value, 2, interval=(ends.low, ends.high))


def report(title: str, rows: Sequence[Observation]) -> str:
    """The table of one run."""
    out: list[Row] = []
    for name in rows[0].predictors:
        known = [row for row in rows if row.predictors[name] is not None]
        cells = [estimate(known, name, each) for each in (_with_hazard, _with_burden, _auc)] if known else [None] * 3
        out.append((name, len(known), sum(row.harmful for row in known), *cells))
    heads = columns(
        *("predictor", "compactions", "harmful", "hazard", "burden", "auc"),
        hazard="correlation with H",
        burden="correlation with B",
        auc="AUC",
    )
    tasks = len({row.task for row in rows})
    note = f"{len(rows)} compactions of {tasks} tasks; a predictor that says nothing about one is left out there."
    return markdown(Table(title, heads, tuple(out), (note,)))


async def play(path: Path, tasks: int, draws: int) -> None:
    """The embedded world, collected and verified."""
    config = parse_config(WORLD.format(tasks=tasks, draws=draws), path.with_suffix(".toml"))
    async with open_study(config, path) as study:
        await collect(study)
        await verify(study)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a verified run; without one, the embedded world is played")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    with TemporaryDirectory() as directory:
        path = given.run or Path(directory) / "world.db"
        if given.run is None:
            asyncio.run(play(path, given.tasks, given.draws))
        with open_run(path) if given.run is None else Store.read(path) as store:
            rows = list(observations(store))
    print(report("the embedded world" if given.run is None else path.stem, rows))


if __name__ == "__main__":
    main()
