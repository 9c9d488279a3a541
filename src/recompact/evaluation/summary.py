"""The tables of an evaluation: which metrics are in which column, and which notes belong below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recompact.engine.store.runs import BROKEN
from recompact.evaluation.arm_runs import (
    ArmRuns,
    Common,
    common,
    compaction_lines,
    failed_in_arm,
    left_out,
    seen_tasks,
    with_all_questions,
)
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.metrics import (
    TOTAL,
    Metrics,
    PeakSource,
    group_keys,
    group_tasks,
    is_share,
    measure,
    metric,
    peak_source,
    per_task,
)
from recompact.evaluation.paired import (
    Comparison,
    Difference,
    compare_many,
    difference_warnings,
    enough_tasks,
    size_warnings,
    warnings,
)
from recompact.values.stats import RESAMPLES, Estimate, bootstrap, wilson
from recompact.values.tables import Cell, Column, Number, Row, Table, columns
from recompact.values.texts import quantity
from recompact.values.trajectory import why_none_succeeded

SIMULATED = "Simulated models: these figures show how Recompact works, not how any real model behaves."
BOLD = "Bold: the best of the arms that compress within the same scope and budget."
STAR = "* the 95 % interval excludes zero (paired bootstrap over tasks, 10,000 resamples)"
SIGN_TEST = columns("wins", "losses", "p", wins="win", losses="lose")


@dataclass(frozen=True)
class Evaluation:
    """Arms side by side, over the tasks and runs that all of them have."""

    title: str
    arms: tuple[ArmRuns, ...]
    shared: Common
    source: PeakSource
    not_begun: tuple[str, ...] = ()  # arms with nothing finished yet
    suite: str = ""  # "" in records from elsewhere, which do not say
    models: Mapping[str, str] | None = None  # by role

    def metrics(self, arm: ArmRuns, tasks: Sequence[str] | None = None) -> Metrics:
        return measure(arm, self.shared.tasks if tasks is None else tasks, self.shared.runs, self.source)

    def measured(self, tasks: Sequence[str] | None = None) -> list[tuple[ArmRuns, Metrics]]:
        """Every arm with its metrics."""
        return [(arm, self.metrics(arm, tasks)) for arm in self.arms]

    @property
    def simulated(self) -> bool:
        return any(arm.simulated for arm in self.arms)

    @property
    def none(self) -> ArmRuns | None:
        """The arm that does not compress."""
        return next((arm for arm in self.arms if not arm.compresses), None)


def evaluation(
    title: str,
    arms: Sequence[ArmRuns],
    tasks: Sequence[str] | None = None,
    runs: int | None = None,
    *,
    suite: str = "",
    models: Mapping[str, str] | None = None,
) -> Evaluation:
    """Set arms side by side: those that have any rows, over what they share."""
    begun = with_all_questions([arm for arm in arms if arm.rows])
    waiting = tuple(arm.label for arm in arms if not arm.rows)
    return Evaluation(title, begun, common(begun, tasks, runs), peak_source(begun), waiting, suite, models)


Estimates = Mapping[str, Mapping[str, Estimate]]
"""By an arm's label and a metric's key. Units are those of `Metrics.means`."""


def estimates(evaluation: Evaluation, keys: Collection[str], *, resamples: int = RESAMPLES, seed: int = 0) -> Estimates:
    """These metrics of all arms with their intervals, shares by Wilson's over tasks, others by the bootstrap."""
    shared, by_arm = evaluation.shared, {arm.label: dict[str, Estimate]() for arm in evaluation.arms}
    if not shared.tasks:
        return by_arm
    values = {arm.label: per_task(arm, shared.tasks, shared.runs, evaluation.source) for arm in evaluation.arms}
    places = [(label, key) for label, metrics in values.items() for key in metrics if key in keys]
    resampled = bootstrap([values[label][key] for label, key in places], resamples, seed)
    # Near 0 and 1, resampling misses the truth: tasks that are all alike have no spread. The sample is tasks, not runs.
    resampled = [
        wilson(each.value, len(values[label][key])) if is_share(key) else each
        for (label, key), each in zip(places, resampled, strict=True)
    ]
    for (label, key), estimate in zip(places, resampled, strict=True):
        by_arm[label][key] = estimate
    return by_arm


SCOPES = (
    "The simulated compressor takes nothing but the task from the prefix, and that it sees in both scopes: where they"
    " differ, it is by chance."
)


def notes(evaluation: Evaluation) -> tuple[str, ...]:
    """What a reader of the figures should know."""
    shared, rows = evaluation.shared, [row for arm in evaluation.arms for row in arm.rows]
    words = f"{quantity(len(shared.tasks), 'task')}, {quantity(shared.runs, 'run')}."
    words += " Acc ± standard deviation across runs." if shared.runs > 1 else ""
    provider = evaluation.source == "provider"
    if any(row.peak_reported if provider else row.peak for row in rows):
        whose = "the provider's" if provider else "our own"
        words += f" Peak in thousand tokens by {whose} count."
    if any(row.usage.keys() & set(TOTAL) for row in rows):
        words += " Tokens: thousands per task, agent and compressor."
    lines = (words, *_missing(evaluation), *size_warnings(len(shared.tasks), shared.runs))
    if evaluation.simulated and {"history", "prefix"} <= {arm.scope for arm in evaluation.arms}:
        lines += (SCOPES,)
    return (*lines, SIMULATED) if evaluation.simulated else lines


def _missing(evaluation: Evaluation) -> list[str]:
    """What is not in the figures, which tasks an arm has seen before, where compactions failed or nothing was
    compacted, and which arms are the same."""
    shared, lines = evaluation.shared, []
    if evaluation.not_begun:
        lines.append(f"Nothing is finished yet: {', '.join(evaluation.not_begun)}.")
    lines += [*left_out(shared.left_out, len(shared.broken)), *seen_tasks(evaluation.arms, shared)]
    lines += compaction_lines(evaluation.arms, shared)
    for arm in evaluation.arms:
        whole = [row for row in arm.rows if row.ending != BROKEN]  # of the others a line above tells
        if whole and not any(row.success for row in whole):
            lines.append(f"{arm.label}: {why_none_succeeded(Counter(row.ending for row in whole))}")
    names: dict[str, list[str]] = {}
    for arm in evaluation.arms:
        names.setdefault(arm.settings.get("key", arm.label), []).append(arm.label)
    for same in (labels for labels in names.values() if len(labels) > 1):
        lines.append(f"{' and '.join(same)} are one arm under {len(same)} names, with the same trajectories.")
    return lines


def number(key: str, value: float, spread: float | None = None) -> Number:
    """A metric as people read it: points, thousands."""
    m = metric(key)
    return Number(value * m.scale, m.digits, None if spread is None else spread * m.scale)


def interval(key: str, estimate: Estimate, *, signed: bool = False) -> Number:
    """The same with its interval."""
    m = metric(key)
    ends = (estimate.low * m.scale, estimate.high * m.scale)
    return Number(estimate.value * m.scale, m.digits, interval=ends, signed=signed)


def metric_columns(keys: Iterable[str], prefix: str = "") -> tuple[Column, ...]:
    return tuple(Column(key, prefix + metric(key).title) for key in keys)


def arm_metrics(runs: int, measured: Sequence[tuple[ArmRuns, Metrics]], *, short: bool = False) -> list[str]:
    """The metrics of the table of arms that some arm has, in the paper's order."""
    keys = [
        "acc",
        f"pass^{runs}",
        *([] if short else [f"pass@{runs}"]),
        "em",
        f"em^{runs}",
        "f1",
        "violations",
        "steps",
        "peak",
    ]
    keys += [] if short else ["context", "compactions", "tokens", "cached"]
    return [key for key in keys if any(key in metrics.means for _, metrics in measured)]


def arm_table(evaluation: Evaluation, wanted: Sequence[str] | None = None) -> Table:
    """The table of arms, with all metrics or those wanted, as far as some arm has them."""
    measured = evaluation.measured()
    keys = arm_metrics(evaluation.shared.runs, measured)
    keys = [key for key in keys if wanted is None or key in wanted]
    best = _best(measured, [key for key in keys if key not in ("context", "compactions", "cached")])
    rows = tuple((arm.name, arm.scope, *_figures(metrics, keys, best.get(arm.label, ()))) for arm, metrics in measured)
    heads = (*columns("arm", "scope"), *metric_columns(keys))
    return without_empty(Table(evaluation.title, heads, rows, notes(evaluation), BOLD))


def mean(metrics: Metrics, key: str) -> Number | None:
    """A metric of an arm. The spread is shown for success only, as in the paper; the others have theirs in JSON."""
    spread = metrics.spread.get(key) if key in ("acc", "em") else None
    return number(key, metrics.means[key], spread) if key in metrics.means else None


def _figures(metrics: Metrics, keys: Sequence[str], best: Collection[str] = ()) -> list[Cell]:
    cells = [(key, mean(metrics, key)) for key in keys]
    return [replace(cell, best=True) if cell and key in best else cell for key, cell in cells]


def _best(measured: Sequence[tuple[ArmRuns, Metrics]], keys: Sequence[str]) -> dict[str, set[str]]:
    """By label, the metrics in which an arm is the best of those it competes with: figures as shown, ties together.

    Arms compete if they compress under the same budget and scope; an arm without a scope competes in every one.
    """
    best: dict[str, set[str]] = {}
    for rivals in _rivals([(arm, metrics) for arm, metrics in measured if arm.compresses]):
        for key in keys:
            numbers = {arm.label: number(key, m.means[key]) for arm, m in rivals if key in m.means}
            figures = {label: round(n.value, n.digits) for label, n in numbers.items()}
            top = (max if metric(key).better == "more" else min)(figures.values(), default=None)
            for label in (label for label, figure in figures.items() if figure == top and len(figures) > 1):
                best.setdefault(label, set()).add(key)
    return best


def _rivals(arms: Sequence[tuple[ArmRuns, Metrics]]) -> list[list[tuple[ArmRuns, Metrics]]]:
    by_budget: dict[Any, list[tuple[ArmRuns, Metrics]]] = {}
    for entry in arms:
        by_budget.setdefault(entry[0].settings.get("budget"), []).append(entry)
    groups = []
    for entries in by_budget.values():
        scopes = {arm.scope for arm, _ in entries if arm.scope} or {""}
        groups += [[e for e in entries if (e[0].scope or scope) == scope] for scope in sorted(scopes)]
    return groups


def detail_tables(evaluation: Evaluation) -> tuple[Table, ...]:
    """What the table of arms has no room for: every k, tokens by role, endings."""
    measured = evaluation.measured()
    every = [f"{kind}{k}" for kind in ("pass^", "pass@", "em^") for k in range(2, evaluation.shared.runs + 1)]
    keys = ["acc", *(key for key in every if any(key in metrics.means for _, metrics in measured))]
    names = list(dict.fromkeys(ending for _, metrics in measured for ending in metrics.endings))
    counted_tokens = [(arm, role, tokens) for arm, metrics in measured for role, tokens in metrics.usage.items()]
    kinds = ("input", "cached", "output")
    return (
        Table(
            "Reliability for every k",
            (*columns("arm"), *metric_columns(keys)),
            tuple((arm.label, *_figures(metrics, keys)) for arm, metrics in measured),
        ),
        Table(
            "Thousand tokens per task by role",
            columns("arm", "role", *kinds),
            tuple((arm.label, role, *(Number(of[kind] / 1000) for kind in kinds)) for arm, role, of in counted_tokens),
        ),
        Table(
            "Endings",
            (*columns("arm"), *(Column(name, name or "?") for name in names)),
            tuple((arm.label, *(metrics.endings.get(name, 0) for name in names)) for arm, metrics in measured),
        ),
    )


def references(evaluation: Evaluation, against: str = PROMPTING) -> list[tuple[ArmRuns, ArmRuns]]:
    """Each arm with the one that it is measured against: of the same scope and budget, or the nearest to that.

    Where no arm has exactly this name, those that have it with a budget count: `prompting@1024`.
    """
    arms = [arm for arm in evaluation.arms if against in (arm.name, arm.label)]
    arms = arms or [arm for arm in evaluation.arms if against == arm.base]

    def nearest(arm: ArmRuns) -> ArmRuns:
        budget = arm.settings.get("budget")
        return min(arms, key=lambda other: (other.settings.get("budget") != budget, other.scope != arm.scope))

    return [(arm, nearest(arm)) for arm in evaluation.arms if arms and all(arm is not other for other in arms)]


def difference_table(evaluation: Evaluation, against: str = PROMPTING) -> tuple[Table, list[Comparison]] | None:
    """Every arm minus a reference, with intervals and the sign test; None where there is nothing to compare."""
    pairs = references(evaluation, against)
    if not pairs or not evaluation.shared.tasks:
        return None
    runs = evaluation.shared.runs
    keys = ["acc", f"pass^{runs}", "em", f"em^{runs}", "f1", "violations", "steps", "peak", "tokens"]
    comparisons = compare_many(pairs, evaluation.shared, keys=keys, source=evaluation.source)
    keys = [key for key in keys if any(d.metric == key for c in comparisons for d in c.differences)]
    heads = (*columns("arm", "minus"), *metric_columns(keys, "Δ "), *SIGN_TEST)
    rows = tuple((c.first, c.second, *_deltas(c, keys), *sign_test_cells(c)) for c in comparisons)
    meaning = f"win, lose, p: exact sign test on tasks solved in {'all runs' if runs > 1 else 'the run'}"
    lines = (STAR, meaning, *_pooled_lines(pairs, comparisons), *difference_warnings(comparisons))
    return Table("Paired differences", heads, rows, lines), comparisons


def _pooled_lines(pairs: Sequence[tuple[ArmRuns, ArmRuns]], comparisons: Sequence[Comparison]) -> list[str]:
    """What an arm won and lost under all its scopes and budgets together: reported, but not tested."""
    by_arm: dict[str, list[Comparison]] = {}
    for (arm, _), comparison in zip(pairs, comparisons, strict=True):
        by_arm.setdefault(arm.base, []).append(comparison)
    return [
        f"{name} under its {len(several)} settings together: {sum(c.wins for c in several)} wins,"
        f" {sum(c.losses for c in several)} losses. The tasks are the same ones, so this is no test."
        for name, several in by_arm.items()
        if len(several) > 1
    ]


def _deltas(comparison: Comparison, keys: Sequence[str]) -> list[Cell]:
    differences = {d.metric: d for d in comparison.differences}
    return [delta(differences[key], comparison.tasks) if key in differences else None for key in keys]


def sign_test_cells(comparison: Comparison) -> Row:
    return comparison.wins, comparison.losses, Number(comparison.p, 3, positive=True)


def delta(difference: Difference, tasks: int) -> Number:
    """A difference as people read it; marked only where it rests on enough tasks."""
    estimate = Estimate(difference.delta, difference.low, difference.high)
    shown = interval(difference.metric, estimate, signed=True)
    return replace(shown, unmarked=not enough_tasks(difference.metric, tasks, difference.differ))


def percentage(key: str, share: Estimate, tasks: int, differ: int) -> Number:
    """A relative difference in a metric in per cent, the same way."""
    ends = (100 * share.low, 100 * share.high)
    unmarked = not enough_tasks(key, tasks, differ)
    return Number(100 * share.value, 1, interval=ends, signed=True, unmarked=unmarked)


def comparison_table(comparison: Comparison, simulated: bool = False, missing: Sequence[str] = ()) -> Table:
    """Two arms in every metric; `missing` says what is not in it."""
    first, second = comparison.first, comparison.second
    heads = (
        *columns("metric", "first", "second", first=first, second=second),
        Column("delta", "difference [95 %]"),
        Column("relative", "in per cent [95 %]"),
    )
    rows: list[Row] = []
    for d in comparison.differences:
        share = percentage(d.metric, d.relative, comparison.tasks, d.differ) if d.relative else None
        figures = (number(d.metric, d.first), number(d.metric, d.second), delta(d, comparison.tasks), share)
        rows.append((metric(d.metric).title, *figures))
    p = Number(comparison.p, 3, positive=True).text
    solved = f"in all {comparison.runs} runs" if comparison.runs > 1 else "in its run"
    lines = (
        STAR,
        f"Solved {solved} by {first} alone: {quantity(comparison.wins, 'task')}; by {second} alone:"
        f" {comparison.losses}. Exact two-sided sign test: p {p if p.startswith('<') else f'= {p}'}.",
        *missing,
        *warnings(comparison),
        *([SIMULATED] if simulated else []),
    )
    over = f"{quantity(comparison.tasks, 'task')}, {quantity(comparison.runs, 'run')}"
    return without_empty(Table(f"{first} minus {second}: {over}", heads, tuple(rows), lines))


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """All figures, exact."""
    arms = []
    for arm in evaluation.arms:
        by_group = {
            key: {value: evaluation.metrics(arm, tasks).to_json() for value, tasks in groups.items()}
            for key in group_keys(evaluation.arms)
            if (groups := group_tasks(evaluation.arms, evaluation.shared.tasks, key))
        }
        own = ("name", "scope", "adapted_on", "adapted_suite")
        settings = {k: v for k, v in arm.settings.items() if k not in own}
        seen = len(arm.seen(evaluation.shared.tasks))
        named = {"arm": arm.label, "name": arm.name, "scope": arm.scope, **settings, "seen_tasks": seen}
        named["failed_compactions"] = asdict(failed_in_arm(arm, evaluation.shared))
        arms.append({**named, **evaluation.metrics(arm).to_json(), "groups": by_group})
    return {
        "title": evaluation.title,
        "tasks": len(evaluation.shared.tasks),
        "runs": evaluation.shared.runs,
        "left_out": evaluation.shared.left_out,
        "broken": list(evaluation.shared.broken),
        "not_begun": list(evaluation.not_begun),
        "simulated": evaluation.simulated,
        "arms": arms,
        "notes": list(notes(evaluation)),
    }


def without_empty(table: Table) -> Table:
    """The table without columns that are empty in every row (no arm has a scope) and without a cache never used."""

    def empty(n: int) -> bool:
        cells = [row[n] for row in table.rows]
        if table.columns[n].key == "cached":
            return not any(isinstance(cell, Number) and cell.value for cell in cells)
        return bool(cells) and all(cell is None for cell in cells)

    return table.select([n for n in range(len(table.columns)) if not empty(n)])
