"""From records to tables: which figures stand in which column, and which words belong below.

Comes in: the arms of an evaluation. Goes out: tables as values, for any format. Nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recompact.evaluation.arm_runs import ArmRuns, Common, common
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.evaluate import BROKEN
from recompact.evaluation.metrics import (
    TOTAL,
    Metrics,
    PeakSource,
    group_keys,
    grouped,
    measure,
    metric,
    peak_source,
)
from recompact.evaluation.paired import FEWEST, Comparison, Difference, compare_many, size_warnings, warnings
from recompact.stats import Estimate
from recompact.tables import Cell, Column, Number, Table

SIMULATED = "Simulated models: these figures show how Recompact works, not how any real model behaves."
BOLD = "Bold: the best of the arms that compress within the same scope and budget."
STAR = "* the 95 % interval excludes zero (paired bootstrap over tasks, 10,000 resamples)"


@dataclass(frozen=True)
class Evaluation:
    """Arms side by side, over the tasks and runs that all of them have."""

    title: str
    arms: tuple[ArmRuns, ...]
    shared: Common
    source: PeakSource
    not_begun: tuple[str, ...] = ()  # arms of which nothing is finished yet

    def metrics(self, arm: ArmRuns, tasks: Sequence[str] | None = None) -> Metrics:
        return measure(arm, self.shared.tasks if tasks is None else tasks, self.shared.runs, self.source)

    @property
    def simulated(self) -> bool:
        return any(arm.simulated for arm in self.arms)


def evaluation(
    title: str, arms: Sequence[ArmRuns], tasks: Sequence[str] | None = None, runs: int | None = None
) -> Evaluation:
    """Set arms side by side: those that have any rows, over what they share."""
    made = tuple(arm for arm in arms if arm.rows)
    waiting = tuple(arm.label for arm in arms if not arm.rows)
    return Evaluation(title, made, common(made, tasks, runs), peak_source(made), waiting)


def notes(shown: Evaluation) -> tuple[str, ...]:
    """What a reader of the figures should know."""
    shared = shown.shared
    whose = "the provider's count" if shown.source == "provider" else "our own count"
    words = f"{counted(len(shared.tasks), 'task')}, {counted(shared.runs, 'run')}."
    words += " Acc ± standard deviation across runs." if shared.runs > 1 else ""
    rows = [row for arm in shown.arms for row in arm.rows]
    if any(row.peak_reported if shown.source == "provider" else row.peak for row in rows):
        words += f" Peak in thousand tokens by {whose}."
    if any(row.usage.keys() & set(TOTAL) for row in rows):
        words += " Tokens: thousands per task, agent and compressor."
    said = [words, *_missing(shown), *size_warnings(len(shared.tasks), shared.runs)]
    return (*said, SIMULATED) if shown.simulated else tuple(said)


def _missing(shown: Evaluation) -> list[str]:
    """What is not in the figures, and what is in them although it says little of the agent."""
    said = []
    if shown.not_begun:
        said.append(f"Nothing is finished yet of {', '.join(shown.not_begun)}.")
    if shown.shared.left_out:
        said.append(left_out(shown.shared.left_out))
    names: dict[str, list[str]] = {}
    for arm in shown.arms:
        names.setdefault(arm.settings.get("key", arm.label), []).append(arm.label)
    for same in (labels for labels in names.values() if len(labels) > 1):
        said.append(f"{' and '.join(same)} are one arm under {len(same)} names, with the same trajectories.")
    shared, tasks = shown.shared, set(shown.shared.tasks)
    kept = [row for arm in shown.arms for row in arm.rows if row.task in tasks and row.run < shared.runs]
    if broken := sum(row.ending == BROKEN for row in kept):
        said.append(
            f"In {counted(broken, 'trajectory')} the environment broke; they count as failures. Once it is mended,"
            " recompact evaluate --retry makes them anew."
        )
    return said


def left_out(tasks: int) -> str:
    """
    >>> left_out(1)
    '1 task is left out: not every arm has finished it in every run.'
    """
    are, them = ("is", "it") if tasks == 1 else ("are", "them")
    return f"{counted(tasks, 'task')} {are} left out: not every arm has finished {them} in every run."


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "trajectory"), counted(1200, "trajectory"), counted(2, "task")
    ('1 trajectory', '1,200 trajectories', '2 tasks')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _shown(runs: int, present: set[str], *, short: bool = False) -> list[str]:
    """The metrics of the table of arms, in the paper's order."""
    keys = ["acc", f"pass^{runs}", *([] if short else [f"pass@{runs}"]), "em", f"em^{runs}", "f1", "steps", "peak"]
    keys += [] if short else ["compactions", "tokens", "cached"]
    return [key for key in keys if key in present]


def number(key: str, value: float, spread: float | None = None) -> Number:
    """A metric as people read it: points, thousands."""
    m = metric(key)
    return Number(value * m.scale, m.digits, None if spread is None else spread * m.scale)


def arm_table(shown: Evaluation) -> Table:
    """The table of arms."""
    measured = [(arm, shown.metrics(arm)) for arm in shown.arms]
    keys = _shown(shown.shared.runs, {key for _, found in measured for key in found.means})
    columns = (Column("arm", "arm"), Column("scope", "scope"), *(Column(key, metric(key).title) for key in keys))
    best = _best(measured, [key for key in keys if key not in ("compactions", "cached")])
    rows = tuple((arm.name, arm.scope, *_figures(found, keys, best.get(arm.label, ()))) for arm, found in measured)
    return without_empty(Table(shown.title, columns, rows, notes(shown), BOLD))


def _figures(found: Metrics, keys: Sequence[str], best: Collection[str] = ()) -> list[Cell]:
    """The spread is shown for success only, as in the paper; the others have theirs in JSON."""
    cells: list[Cell] = []
    for key in keys:
        spread = found.spread.get(key) if key in ("acc", "em") else None
        cell = number(key, found.means[key], spread) if key in found.means else None
        cells.append(replace(cell, best=True) if cell and key in best else cell)
    return cells


def _best(measured: Sequence[tuple[ArmRuns, Metrics]], keys: Sequence[str]) -> dict[str, set[str]]:
    """In which metrics an arm is the best of those that it competes with, by label: figures as shown, ties together.

    Arms compete if they compress under the same budget and scope; an arm without a scope competes in every one.
    """
    found: dict[str, set[str]] = {}
    for rivals in _rivals([(arm, metrics) for arm, metrics in measured if arm.compresses]):
        for key in keys:
            shown = {arm.label: number(key, m.means[key]) for arm, m in rivals if key in m.means}
            figures = {label: round(n.value, n.digits) for label, n in shown.items()}
            top = (max if metric(key).better == "more" else min)(figures.values(), default=None)
            for label in (label for label, figure in figures.items() if figure == top and len(figures) > 1):
                found.setdefault(label, set()).add(key)
    return found


def _rivals(arms: Sequence[tuple[ArmRuns, Metrics]]) -> list[list[tuple[ArmRuns, Metrics]]]:
    by_budget: dict[Any, list[tuple[ArmRuns, Metrics]]] = {}
    for entry in arms:
        by_budget.setdefault(entry[0].settings.get("budget"), []).append(entry)
    groups = []
    for entries in by_budget.values():
        scopes = {arm.scope for arm, _ in entries if arm.scope} or {""}
        groups += [[e for e in entries if (e[0].scope or scope) == scope] for scope in sorted(scopes)]
    return groups


def group_table(shown: Evaluation, key: str) -> Table:
    """The arms by one grouping of the tasks."""
    rows: list[tuple[Cell, ...]] = []
    keys: list[str] = []
    groups = grouped(shown.arms, shown.shared.tasks, key)
    for value, tasks in groups.items():
        measured = [(arm, shown.metrics(arm, tasks)) for arm in shown.arms]
        keys = keys or _shown(shown.shared.runs, {k for _, found in measured for k in found.means}, short=True)
        rows += [(value, len(tasks), arm.name, arm.scope, *_figures(found, keys)) for arm, found in measured]
    heads = (Column("group", key), Column("tasks", "tasks"), Column("arm", "arm"), Column("scope", "scope"))
    columns = (*heads, *(Column(k, metric(k).title) for k in keys))
    return without_empty(
        Table(f"{shown.title}, by {key}", columns, tuple(rows), _group_notes(map(len, groups.values())))
    )


def _group_notes(sizes: Iterable[int]) -> tuple[str, ...]:
    """What few tasks in a group mean."""
    fewest = min(sizes, default=0)
    return (f"Few tasks in a group say little: the smallest has {fewest}.",) if fewest < 20 else ()


def detail_tables(shown: Evaluation) -> tuple[Table, ...]:
    """What the table of arms has no room for: every k, tokens by role, endings."""
    measured = [(arm, shown.metrics(arm)) for arm in shown.arms]
    every = [f"{kind}{k}" for kind in ("pass^", "pass@", "em^") for k in range(2, shown.shared.runs + 1)]
    keys = [key for key in every if any(key in found.means for _, found in measured)]
    columns = (Column("arm", "arm"), Column("acc", "Acc"), *(Column(k, metric(k).title) for k in keys))
    passes = Table(
        "Reliability for every k", columns, tuple((a.label, *_figures(m, ["acc", *keys])) for a, m in measured)
    )
    usage: list[tuple[Cell, ...]] = []
    for arm, found in measured:
        for role, counts in found.usage.items():
            usage.append((arm.label, role, *(Number(counts[n] / 1000) for n in ("input", "cached", "output"))))
    heads = ("arm", "role", "input", "cached", "output")
    tokens = Table("Thousand tokens per task by role", tuple(Column(h, h) for h in heads), tuple(usage))
    names = list(dict.fromkeys(ending for _, found in measured for ending in found.endings))
    columns = (Column("arm", "arm"), *(Column(name, name or "?") for name in names))
    endings: list[tuple[Cell, ...]] = [(a.label, *(m.endings.get(name, 0) for name in names)) for a, m in measured]
    return passes, tokens, Table("Endings", columns, tuple(endings))


def references(shown: Evaluation, against: str = PROMPTING) -> list[tuple[ArmRuns, ArmRuns]]:
    """Each arm with the one that it is measured against: of the same scope and budget, or the nearest to that.

    Where no arm has just this name, those count that have it under some budget: `prompting@1024`.
    """
    found = [arm for arm in shown.arms if against in (arm.name, arm.label)]
    found = found or [arm for arm in shown.arms if against == arm.base]

    def nearest(arm: ArmRuns) -> ArmRuns:
        budget = arm.settings.get("budget")
        return min(found, key=lambda other: (other.settings.get("budget") != budget, other.scope != arm.scope))

    return [(arm, nearest(arm)) for arm in shown.arms if found and all(arm is not other for other in found)]


def difference_table(shown: Evaluation, against: str = PROMPTING) -> tuple[Table, list[Comparison]] | None:
    """Every arm minus a reference, with intervals and the sign test; None where there is nothing to compare."""
    pairs = references(shown, against)
    if not pairs or not shown.shared.tasks:
        return None
    runs = shown.shared.runs
    keys = ["acc", f"pass^{runs}", "em", f"em^{runs}", "f1", "steps", "peak", "tokens"]
    made = compare_many(pairs, shown.shared, keys=keys, source=shown.source)
    keys = [key for key in keys if any(d.metric == key for c in made for d in c.differences)]
    heads = (Column("arm", "arm"), Column("minus", "minus"))
    tail = (Column("wins", "win"), Column("losses", "lose"), Column("p", "p"))
    columns = (*heads, *(Column(key, f"Δ {metric(key).title}") for key in keys), *tail)
    rows = tuple((c.first, c.second, *_deltas(c, keys), c.wins, c.losses, Number(c.p, 3, positive=True)) for c in made)
    said = (STAR, f"win, lose, p: exact sign test on tasks solved in {'all runs' if runs > 1 else 'the run'}")
    return Table("Paired differences", columns, rows, (*said, *_pooled(pairs, made))), made


def _pooled(pairs: Sequence[tuple[ArmRuns, ArmRuns]], made: Sequence[Comparison]) -> list[str]:
    """What an arm won and lost under all its scopes and budgets together: told, but not tested."""
    found: dict[str, list[Comparison]] = {}
    for (arm, _), comparison in zip(pairs, made, strict=True):
        found.setdefault(arm.base, []).append(comparison)
    return [
        f"{name} under its {len(several)} settings together: {sum(c.wins for c in several)} wins,"
        f" {sum(c.losses for c in several)} losses. The tasks are the same ones, so this is no test."
        for name, several in found.items()
        if len(several) > 1
    ]


def _deltas(comparison: Comparison, keys: Sequence[str]) -> list[Cell]:
    found = {d.metric: d for d in comparison.differences}
    return [delta(found[key], comparison.tasks) if key in found else None for key in keys]


def delta(found: Difference, tasks: int) -> Number:
    """A difference as people read it. Over so few tasks that its interval tells nothing, it is not marked."""
    m = metric(found.metric)
    ends = (found.low * m.scale, found.high * m.scale)
    return Number(found.delta * m.scale, m.digits, interval=ends, signed=tasks >= FEWEST)


def percentage(found: Estimate, tasks: int) -> Number:
    """A relative difference in per cent, the same way."""
    return Number(100 * found.value, 1, interval=(100 * found.low, 100 * found.high), signed=tasks >= FEWEST)


def comparison_table(comparison: Comparison, simulated: bool = False) -> Table:
    """Two arms in every metric."""
    columns = (
        Column("metric", "metric"),
        Column("first", comparison.first),
        Column("second", comparison.second),
        Column("delta", "difference [95 %]"),
        Column("relative", "in per cent [95 %]"),
    )
    rows: list[tuple[Cell, ...]] = []
    for d in comparison.differences:
        share = percentage(d.relative, comparison.tasks) if d.relative else None
        figures = (number(d.metric, d.first), number(d.metric, d.second), delta(d, comparison.tasks), share)
        rows.append((metric(d.metric).title, *figures))
    p = Number(comparison.p, 3, positive=True).text
    solved = f"in all {comparison.runs} runs" if comparison.runs > 1 else "in its run"
    won = counted(comparison.wins, "task")
    said = (
        STAR,
        f"Solved {solved} by {comparison.first} alone: {won}; by {comparison.second} alone:"
        f" {comparison.losses}. Exact two-sided sign test: p {p if p.startswith('<') else f'= {p}'}.",
        *warnings(comparison),
        *([SIMULATED] if simulated else []),
    )
    over = f"{counted(comparison.tasks, 'task')}, {counted(comparison.runs, 'run')}"
    return without_empty(Table(f"{comparison.first} minus {comparison.second}: {over}", columns, tuple(rows), said))


def group_comparisons(first: ArmRuns, second: ArmRuns, shared: Common, key: str) -> dict[str, Comparison]:
    """Two arms within each group of the tasks."""
    keys = ["acc", f"pass^{shared.runs}", "steps"]
    return {
        value: compare_many([(first, second)], Common(tasks, shared.runs, 0), keys=keys)[0]
        for value, tasks in grouped([first, second], shared.tasks, key).items()
    }


def group_comparison_table(found: Mapping[str, Comparison], key: str) -> Table:
    """The same as a table."""
    every = tuple(found.values())
    keys = list(dict.fromkeys(d.metric for made in every for d in made.differences))
    rows: list[tuple[Cell, ...]] = []
    for value, made in found.items():
        p = Number(made.p, 3, positive=True)
        rows.append((value, made.tasks, *_deltas(made, keys), made.wins, made.losses, p))
    heads = (Column("group", key), Column("tasks", "tasks"), *(Column(k, f"Δ {metric(k).title}") for k in keys))
    tail = (Column("wins", "win"), Column("losses", "lose"), Column("p", "p"))
    title = f"{every[0].first} minus {every[0].second}, by {key}" if every else f"by {key}"
    return Table(title, (*heads, *tail), tuple(rows), (STAR, *_group_notes(made.tasks for made in every)))


def to_json(shown: Evaluation) -> dict[str, Any]:
    """All figures, whole."""
    arms = []
    for arm in shown.arms:
        by_group = {
            key: {value: shown.metrics(arm, tasks).to_json() for value, tasks in groups.items()}
            for key in group_keys(shown.arms)
            if (groups := grouped(shown.arms, shown.shared.tasks, key))
        }
        settings = {k: v for k, v in arm.settings.items() if k not in ("name", "scope")}
        found = {"arm": arm.label, "name": arm.name, "scope": arm.scope, **settings, **shown.metrics(arm).to_json()}
        arms.append({**found, "groups": by_group})
    return {
        "title": shown.title,
        "tasks": len(shown.shared.tasks),
        "runs": shown.shared.runs,
        "left_out": shown.shared.left_out,
        "not_begun": list(shown.not_begun),
        "simulated": shown.simulated,
        "arms": arms,
        "notes": list(notes(shown)),
    }


def without_empty(table: Table) -> Table:
    """Without columns that have nothing in any row (no arm has a scope), and without a cache that was never used."""
    kept = [
        n
        for n, column in enumerate(table.columns)
        if not (table.rows and all(row[n] is None for row in table.rows))
        and not (
            column.key == "cached" and all(not (isinstance(c := row[n], Number) and c.value) for row in table.rows)
        )
    ]
    rows = tuple(tuple(row[n] for n in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[n] for n in kept), rows=rows)
