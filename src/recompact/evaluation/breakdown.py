"""Arms broken down by a group of the tasks, by budget, or by the models of several evaluations.

Each part of a breakdown is an evaluation of its own, whose arms are measured against one reference; one table and one
figure serve all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, Common, common, compaction_lines, left_out, seen_tasks
from recompact.evaluation.arms import NONE, PROMPTING, label
from recompact.evaluation.metrics import group_tasks, metric, reliability
from recompact.evaluation.paired import Comparison, compare_many, difference_warnings, size_warnings
from recompact.evaluation.summary import (
    SIGN_TEST,
    SIMULATED,
    STAR,
    Evaluation,
    arm_metrics,
    delta,
    evaluation,
    mean,
    metric_columns,
    percentage,
    references,
    sign_test_cells,
    without_empty,
)
from recompact.values.tables import Cell, Column, Row, Table, columns
from recompact.values.texts import quantity

BUDGET, MODEL = "budget", "model"


@dataclass(frozen=True)
class Part:
    """The arms for one value of what differs, and those that have a reference minus it."""

    value: str
    evaluation: Evaluation
    comparisons: tuple[Comparison, ...] = ()

    def comparison(self, arm: ArmRuns) -> Comparison | None:
        return next((c for c in self.comparisons if c.first == arm.label), None)


@dataclass(frozen=True)
class Breakdown:
    """All parts, over the same number of runs, with what a reader should know."""

    by: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def runs(self) -> int:
        return min((part.evaluation.shared.runs for part in self.parts), default=0)

    def to_json(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "notes": list(self.notes),
            "parts": [
                {
                    "value": part.value,
                    "models": part.evaluation.models,
                    "tasks": len(part.evaluation.shared.tasks),
                    "runs": part.evaluation.shared.runs,
                    "arms": [
                        {
                            "arm": arm.label,
                            "budget": arm.settings.get("budget"),
                            "adapted_with": arm.settings.get("adapted_with"),
                            **metrics.to_json(),
                        }
                        for arm, metrics in part.evaluation.measured()
                    ],
                    "comparisons": [comparison.to_json() for comparison in part.comparisons],
                }
                for part in self.parts
            ],
        }


def check_by(by: Iterable[str], groups: Iterable[str]) -> None:
    """Refuse what the tasks are not grouped by, and what nothing can be broken down by here."""
    known = sorted(groups)
    for key in by:
        if key == MODEL:
            raise InputError(f"--by {MODEL} needs two evaluations or more, each made with other models")
        if key not in (*known, BUDGET):
            grouped = f"the tasks are grouped by {', '.join(known) or 'nothing'}"
            raise InputError(f"--by {key}: {grouped}; {BUDGET} and {MODEL} can be given too")


def breakdown(shown: Evaluation, by: str, against: str | None = None) -> Breakdown | None:
    """One evaluation broken down by budget or by a group of its tasks; None where there is nothing to break down."""
    return by_budget(shown, against or NONE) if by == BUDGET else by_group(shown, by, against)


def by_group(shown: Evaluation, key: str, against: str | None = None) -> Breakdown | None:
    """The arms in each group of the tasks, with differences where a reference is named."""
    groups = group_tasks(shown.arms, shown.shared.tasks, key)
    parts = [
        _part(value, replace(shown, shared=Common(tasks, shown.shared.runs, 0)), against)
        for value, tasks in groups.items()
    ]
    fewest = min(map(len, groups.values()), default=0)
    notes = (f"Small groups say little: the smallest has {quantity(fewest, 'task')}.",) if 0 < fewest < 20 else ()
    return Breakdown(key, tuple(parts), notes, f"{shown.title}, by {key}") if parts else None


def swept_arms(shown: Evaluation) -> dict[tuple[str, str | None], dict[int, ArmRuns]]:
    """The arms under two budgets or more: by name and scope, then by budget."""
    swept: dict[tuple[str, str | None], dict[int, ArmRuns]] = {}
    for arm in shown.arms:
        if budget := arm.settings.get("budget"):
            # Two names for the same budget (`fifo` and `fifo@2048`) are one arm.
            swept.setdefault((arm.base, arm.scope), {}).setdefault(budget, arm)
    return {place: arms for place, arms in swept.items() if len(arms) > 1}


def by_budget(shown: Evaluation, against: str = NONE) -> Breakdown | None:
    """The arms that were run under two budgets or more, budget by budget, each beside the arm without compaction."""
    several = swept_arms(shown).values() if shown.shared.tasks else ()
    whole = [shown.none] if shown.none else []
    parts = []
    for budget in sorted({budget for arms in several for budget in arms}):
        arms = (*whole, *(arms[budget] for arms in several if budget in arms))
        parts.append(_part(f"{budget:,}", replace(shown, arms=arms), against))
    notes = compaction_lines([arm for arms in several for arm in arms.values()], shown.shared)
    return Breakdown(BUDGET, tuple(parts), tuple(notes)) if parts else None


def across_models(evaluations: Sequence[Evaluation]) -> Breakdown | str:
    """The breakdown by model, or why there is none. Evaluations whose models are unknown take no part."""
    known = [each for each in evaluations if each.models]
    if len(known) < 2:
        return "released records do not say which models made them"
    models = {describe_models(each.models) for each in known}
    if len(models) < 2:
        return f"they were made with the same models ({models.pop()})"
    try:
        return by_model(known)
    except InputError as error:
        return str(error)


def by_model(evaluations: Sequence[Evaluation], against: str = PROMPTING) -> Breakdown:
    """Does a template help models that it was not adapted with? The arms that all evaluations of one suite have, each
    beside the reference of its own evaluation."""
    if len(evaluations) < 2:
        raise InputError(f"--by {MODEL} needs two evaluations or more, each made with other models")
    if len(suites := sorted({each.suite for each in evaluations if each.suite})) > 1:
        raise InputError(f"these evaluations are of different suites ({', '.join(suites)}): give those of one suite")
    named = _number_titles(evaluations)
    bases = [{arm.base for arm in each.arms} for each in named]
    shared = set.intersection(*bases)
    if not any(arm.compresses and arm.base in shared for arm in named[0].arms):
        there = "; ".join(f"{each.title}: {', '.join(arm.label for arm in each.arms) or 'none'}" for each in named)
        raise InputError(f"no arm that compresses is in all of these evaluations ({there}): give each the same --arm")
    chosen = [[arm for arm in each.arms if arm.base in shared] for each in named]
    runs = min(common(arms).runs for arms in chosen)
    same = [
        evaluation(each.title, arms, runs=runs, suite=each.suite, models=each.models)
        for each, arms in zip(named, chosen, strict=True)
    ]
    for each in same:
        if not each.shared.tasks:
            why = f"has no task yet that all arms have done{each.shared.broken_words}"
            raise InputError(f"{each.title} {why}: finish it with recompact evaluate")
        if not references(each, against):
            labels = ", ".join(arm.label for arm in each.arms)
            raise InputError(f"{each.title} has no arm {against!r} to measure against: --against one of {labels}")
    models = [describe_models(each.models) for each in same]
    parts = tuple(
        _part(words if models.count(words) == 1 else f"{words} ({each.title})", each, against)
        for words, each in zip(models, same, strict=True)
    )
    return Breakdown(MODEL, parts, tuple(_model_notes(same, parts)))


def _part(value: str, shown: Evaluation, against: str | None) -> Part:
    pairs = references(shown, against) if against else []
    keys = ("acc", f"pass^{shown.shared.runs}", "steps")
    compared = compare_many(pairs, shown.shared, keys=keys, source=shown.source, relative=True) if pairs else []
    return Part(value, shown, tuple(compared))


def _number_titles(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Evaluations with the same name get numbers."""
    names = [each.title for each in evaluations]
    times = [names[: n + 1].count(name) for n, name in enumerate(names)]
    return [replace(e, title=f"{e.title} ({n})") if n > 1 else e for e, n in zip(evaluations, times, strict=True)]


def describe_models(models: Mapping[str, str] | None) -> str:
    """The models of an evaluation in words.

    >>> describe_models({"agent": "m3", "compressor": "m3"}), describe_models(None)
    ('m3', '?')
    >>> describe_models({"agent": "a", "compressor": "b", "user": "c"})
    'a, compressor b'
    """
    if not models:
        return "?"
    agent, compressor = models.get("agent", "?"), models.get("compressor")
    return agent if compressor in (None, agent) else f"{agent}, compressor {compressor}"


def _model_notes(evaluations: Sequence[Evaluation], parts: Sequence[Part]) -> list[str]:
    notes = []
    known = [describe_models(each.models) for each in evaluations if each.models]
    if len(set(known)) < len(known):
        notes.append("Some of these evaluations used the same models: between those there is no transfer.")
    for key, name in (("template", "template"), ("budget", "budgets")):
        if changed := _changed_arms(evaluations, key):
            notes.append(f"Not the same {name} in all of them: {', '.join(changed)}. More than the models differs.")
    if len({frozenset(each.shared.tasks) for each in evaluations}) > 1:
        notes.append("The evaluations are not of the same tasks: compare arms within one of them, not across.")
    for each in evaluations:
        own = [*left_out(each.shared.left_out, len(each.shared.broken)), *seen_tasks(each.arms, each.shared)]
        notes += [f"{each.title}: {words}" for words in (*own, *compaction_lines(each.arms, each.shared))]
    smallest = min(evaluations, key=lambda each: len(each.shared.tasks)).shared
    notes += size_warnings(len(smallest.tasks), smallest.runs)
    notes += difference_warnings([comparison for part in parts for comparison in part.comparisons])
    return [*notes, *([SIMULATED] if any(each.simulated for each in evaluations) else [])]


def _changed_arms(evaluations: Sequence[Evaluation], key: str) -> list[str]:
    """The arms that are not the same in all evaluations, as far as these tell."""
    by_name: dict[str, dict[int, set[Any]]] = {}
    for number, each in enumerate(evaluations):
        for arm in each.arms:
            if (value := arm.settings.get(key)) is not None:
                by_name.setdefault(label(arm.base, arm.scope), {}).setdefault(number, set()).add(value)
    return sorted(name for name, values in by_name.items() if len({frozenset(v) for v in values.values()}) > 1)


def breakdown_table(whole: Breakdown) -> Table:
    """One row for each part and arm: its figures, and where it has a reference, the paired differences."""
    runs = whole.runs
    measured = [entry for part in whole.parts for entry in part.evaluation.measured()]
    keys = arm_metrics(runs, measured, short=whole.by != BUDGET)
    compared = any(part.comparisons for part in whole.parts)
    deltas = [key for key in dict.fromkeys(("acc", reliability(runs), "steps")) if compared]
    heads = [*columns("value", "tasks", "arm", "scope", value=whole.by), Column("adapted_with", "adapted with")]
    heads += metric_columns(keys)
    if compared:
        titles = {key: "Δ Steps, %" if key == "steps" else f"Δ {metric(key).title}" for key in deltas}
        heads += [Column("minus", "minus"), *(Column(f"{key}_delta", titles[key]) for key in deltas), *SIGN_TEST]
    rows: list[Row] = []
    for part in whole.parts:
        for arm, metrics in part.evaluation.measured():
            adapted = arm.settings.get("adapted_with") if whole.by == MODEL else None
            cells: list[Cell] = [part.value, len(part.evaluation.shared.tasks), arm.base, arm.scope]
            cells += [describe_models(adapted) if adapted else None, *(mean(metrics, key) for key in keys)]
            rows.append((*cells, *(_differences(part.comparison(arm), deltas) if compared else ())))
    solved = "all runs" if runs > 1 else "the run"
    tests = [STAR, f"win, lose, p: exact sign test on tasks solved in {solved}"] if compared else []
    return without_empty(Table(whole.title or f"By {whole.by}", tuple(heads), tuple(rows), (*tests, *whole.notes)))


def _differences(comparison: Comparison | None, keys: Sequence[str]) -> Row:
    """The reference, the differences and the sign test; empty cells for an arm without a reference."""
    if comparison is None:
        return (None,) * (1 + len(keys) + len(SIGN_TEST))
    by_key = {d.metric: d for d in comparison.differences}
    cells: list[Cell] = [comparison.second]
    for key in keys:
        d = by_key.get(key)
        if d is not None and key == "steps":
            cells.append(percentage(key, d.relative, comparison.tasks, d.differ) if d.relative else None)
        else:
            cells.append(delta(d, comparison.tasks) if d else None)
    return (*cells, *sign_test_cells(comparison))
