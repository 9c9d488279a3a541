"""One method adapted several times: the luck of one adaptation told apart from the method.

Each adaptation has its own seed, run and template, and is an arm of the evaluation, as in `pair.2`. Their mean has an
interval that resamples adaptations and tasks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from recompact.adaptation.method import method_in
from recompact.engine.config import Config
from recompact.engine.store.runs import open_run, run_path
from recompact.engine.study import Watch
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.metrics import metric, per_task, reliability
from recompact.evaluation.paired import enough_tasks
from recompact.evaluation.reproduction.experiments import adapt_into
from recompact.evaluation.summary import Evaluation, interval, number, references
from recompact.values.stats import Estimate, bootstrap_crossed
from recompact.values.tables import Row, Table, columns

FEWEST = 3  # adaptations; with two, the interval covers too seldom where they differ (benchmarks/interval_coverage.py)
_NUMBERED = re.compile(r"(.+)\.(\d+)")


@dataclass(frozen=True)
class PlannedAdaptation:
    """One of several adaptations: what it is called as an arm, its config, its run, and where its template goes."""

    name: str
    config: Config
    run: Path
    template: Path


def plan_adaptations(config: Config, stem: str, directory: Path, number: int) -> list[PlannedAdaptation]:
    """The adaptations of the config's method: the first with the config's own seed, the others with the next ones."""
    method = method_in(config).name
    plans = []
    for n in range(number):
        run = run_path(f"{stem}-{method}-{n + 1}", directory)
        own = replace(config, run=replace(config.run, seed=config.run.seed + n))
        plans.append(PlannedAdaptation(f"{method}.{n + 1}", own, run, run.with_suffix("")))
    return plans


async def play_adaptation(plan: PlannedAdaptation, watch: Watch) -> None:
    """Adapt, and write the template; what the run already has is reused."""
    with open_run(plan.run) as store:
        await adapt_into(plan.config, store, plan.template, plan.name, watch)


@dataclass(frozen=True)
class SeveralAdaptations:
    """What a method gains over a reference, on average over its adaptations; `of` are the gains of each."""

    method: str
    scope: str | None
    against: str
    metric: str
    mean: float
    gain: Estimate
    of: tuple[float, ...]
    tasks: int
    differ: int  # tasks in which some adaptation differs from the reference

    @property
    def marks(self) -> bool:
        """Whether its interval may be read as a finding."""
        return len(self.of) >= FEWEST and enough_tasks(self.metric, self.tasks, self.differ)


def several_adaptations(shown: Evaluation, against: str = PROMPTING) -> list[SeveralAdaptations]:
    """For every method with several adaptations among the arms: its mean gain, in success, reliability and steps."""
    groups: dict[tuple[str, str | None, str], list[tuple[ArmRuns, ArmRuns]]] = {}
    for arm, other in references(shown, against):
        if (named := _NUMBERED.fullmatch(arm.base)) and other.base != arm.base:
            groups.setdefault((named[1], arm.scope, other.label), []).append((arm, other))
    tasks, runs = shown.shared.tasks, shown.shared.runs
    gained = []
    for (method, scope, label), pairs in groups.items():
        if len(pairs) < 2 or not tasks:
            continue
        own = [per_task(arm, tasks, runs, shown.source) for arm, _ in pairs]
        reference = per_task(pairs[0][1], tasks, runs, shown.source)
        keys = [key for key in dict.fromkeys(("acc", reliability(runs), "steps")) if key in reference]
        gains = [[[x - y for x, y in zip(each[key], reference[key], strict=True)] for each in own] for key in keys]
        for key, matrix, gain in zip(keys, gains, bootstrap_crossed(gains), strict=True):
            mean, differ = fmean(fmean(each[key]) for each in own), sum(map(any, zip(*matrix, strict=True)))
            of = tuple(map(fmean, matrix))
            gained.append(SeveralAdaptations(method, scope, label, key, mean, gain, of, len(tasks), differ))
    return gained


def adaptations_table(several: Sequence[SeveralAdaptations]) -> Table:
    """One row for each method and metric."""
    rows: list[Row] = []
    for each in several:
        ends = [number(each.metric, gain).text for gain in (min(each.of), max(each.of))]
        shown = replace(interval(each.metric, each.gain, signed=True), unmarked=not each.marks)
        title = metric(each.metric).title
        of = f"{ends[0]} to {ends[1]}"
        rows.append((each.method, each.scope, title, len(each.of), number(each.metric, each.mean), shown, of))
    against = ", ".join(dict.fromkeys(each.against for each in several))
    notes = [
        f"Minus {against}; 95 % intervals resample adaptations and tasks, 10,000 times: they are about the method,"
        " those of single arms about one template."
    ]
    if not all(each.marks for each in several):
        notes.append(f"Not marked: with fewer than {FEWEST} adaptations, or too few tasks, intervals are too narrow.")
    heads = columns("method", "scope", "metric", "adaptations", "mean", "gain", "of", gain="Δ", of="Δ of each")
    return Table("Over adaptations", heads, tuple(rows), tuple(notes))
