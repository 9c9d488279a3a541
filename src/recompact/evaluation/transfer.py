"""Does a template help models that it was not adapted with?

Evaluations of one suite, each with other models, are set side by side: for every one and every scope, the arm beside a
reference and beside `none`, with the paired difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, Common, common, read_arms, with_all_questions
from recompact.evaluation.arms import PROMPTING, built_in_arms, label
from recompact.evaluation.caveats import left_out, seen_tasks
from recompact.evaluation.metrics import Metrics, measure, metric, peak_source
from recompact.evaluation.paired import Comparison, compare_many, size_warnings
from recompact.evaluation.released import is_released, read_released
from recompact.evaluation.summary import (
    SIGN_TEST,
    SIMULATED,
    STAR,
    delta,
    mean,
    sign_test_cells,
    without_empty,
)
from recompact.values.tables import Cell, Column, Row, Table, columns

Models = Mapping[str, str]
"""Role -> model."""

Pair = tuple[ArmRuns, ArmRuns]
"""An arm and what it is measured against."""


@dataclass(frozen=True)
class Setting:
    """One evaluation: its arms and the models that it was made with; records from elsewhere do not say which."""

    name: str
    arms: tuple[ArmRuns, ...]
    suite: str = ""
    models: Models | None = None


@dataclass(frozen=True)
class Transferred:
    """One arm in one evaluation and scope, beside the reference and beside `none`."""

    setting: str
    models: Models | None
    adapted_with: Models | None
    scope: str | None
    budget: int | None
    arm: str  # without scope and budget
    against: str
    none: Metrics | None
    reference: Metrics
    moved: Metrics
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        names = ("models", "adapted_with", "scope", "budget", "arm", "against")
        figures = {"none": self.none, "against": self.reference, "arm": self.moved}
        return {
            "run": self.setting,
            **{name: getattr(self, name) for name in names},
            "figures": {name: metrics.to_json() if metrics else None for name, metrics in figures.items()},
            "comparison": self.comparison.to_json(),
        }


@dataclass(frozen=True)
class Transfer:
    """All rows, over the same number of runs, with what a reader should know."""

    rows: tuple[Transferred, ...]
    runs: int
    notes: tuple[str, ...]
    simulated: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The metrics that are shown."""
        return ("acc", f"pass^{self.runs}") if self.runs > 1 else ("acc",)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "rows": [row.to_json() for row in self.rows]}


def read_setting(run: str, directory: Path) -> Setting:
    """An evaluation by name or path, or released records."""
    if is_released(run):
        return Setting(Path(run).stem, read_released(Path(run)))
    with Store.read(find_run(run, directory)) as store:
        return Setting(store.path.stem, read_arms(store), store.metadata.suite, models_of(store))


def models_of(store: Store) -> Models:
    """The models that a run was made with, by role, as their servers call them."""
    tables = store.metadata.identity.get("models", {})
    by_role: dict[str, list[str]] = {}
    for name, role in sorted(store.spent()):
        by_role.setdefault(role, []).append(str(tables.get(name, {}).get("id", name)))
    return {role: " + ".join(names) for role, names in sorted(by_role.items())}


def describe_models(models: Models | None) -> str:
    """The models in words.

    >>> describe_models({"agent": "m3", "compressor": "m3"}), describe_models(None)
    ('m3', '?')
    >>> describe_models({"agent": "a", "compressor": "b", "user": "c"})
    'a, compressor b'
    """
    if not models:
        return "?"
    agent, compressor = models.get("agent", "?"), models.get("compressor")
    return agent if compressor in (None, agent) else f"{agent}, compressor {compressor}"


def transfer(settings: Sequence[Setting], arms: Sequence[str] = (), against: str = PROMPTING) -> Transfer:
    """Set evaluations side by side. `arms` are named without scope and budget; default: the template arms that all
    have."""
    if len(settings) < 2:
        raise InputError("transfer needs two evaluations or more, each made with other models")
    settings = [replace(setting, arms=with_all_questions(setting.arms)) for setting in _told_apart(settings)]
    suites = sorted({setting.suite for setting in settings if setting.suite})
    if len(suites) > 1:
        raise InputError(
            f"these evaluations are of different suites ({', '.join(suites)}): transfer compares one suite"
        )
    names = tuple(dict.fromkeys(arms)) or _in_all(settings, against)
    chosen = [_choose_pairs(setting, names, against) for setting in settings]
    runs = min(common([arm for pair in pairs for arm in pair]).runs for pairs in chosen)
    if not runs:
        raise InputError("an arm of these evaluations has no finished run yet: finish them with recompact evaluate")
    rows, shared = [], []
    for setting, pairs in zip(settings, chosen, strict=True):
        whole, one = _side_by_side(setting, pairs, runs)
        rows += _rows(setting, pairs, whole, one)
        shared.append(one)
    simulated = any(arm.simulated for setting in settings for arm in setting.arms)
    notes = [*_notes(settings, chosen, shared, runs), *([SIMULATED] if simulated else [])]
    return Transfer(tuple(rows), runs, tuple(notes), simulated)


def _told_apart(settings: Sequence[Setting]) -> list[Setting]:
    """Evaluations with the same name get numbers."""
    names = [setting.name for setting in settings]
    times = [names[: n + 1].count(name) for n, name in enumerate(names)]
    return [replace(s, name=f"{s.name} ({n})") if n > 1 else s for s, n in zip(settings, times, strict=True)]


def _in_all(settings: Sequence[Setting], against: str) -> tuple[str, ...]:
    """The arms that every evaluation has, except the reference and those that come with Recompact."""
    bases = [dict.fromkeys(arm.base for arm in setting.arms if arm.rows) for setting in settings]
    everywhere = [name for name in bases[0] if all(name in others for others in bases)]
    names = tuple(name for name in everywhere if name not in (*built_in_arms(), against))
    if not names:
        there = "; ".join(f"{s.name}: {', '.join(arm.label for arm in s.arms) or 'none'}" for s in settings)
        raise InputError(
            f"no template arm is in all of these evaluations ({there}): run each with the same --arm NAME=DIRECTORY"
        )
    return names


def _choose_pairs(setting: Setting, names: Sequence[str], against: str) -> list[Pair]:
    """Each arm that has one of these names, with the reference of its scope and budget."""
    there = [arm for arm in setting.arms if arm.rows]
    pairs = []
    for name in names:
        moved = [arm for arm in there if name in (arm.base, arm.name, arm.label)]
        if not moved:
            labels = ", ".join(arm.label for arm in there) or "none yet"
            raise InputError(f"{setting.name} has no arm {name!r}: it has {labels}")
        pairs += [(arm, _reference(setting, there, arm, against)) for arm in moved]
    return pairs


def _reference(setting: Setting, there: Sequence[ArmRuns], arm: ArmRuns, against: str) -> ArmRuns:
    same = [other for other in there if against in (other.base, other.name, other.label) and other is not arm]
    same = [other for other in same if arm.scope is None or other.scope in (arm.scope, None)]
    same = [other for other in same if _budget(other) == _budget(arm)] or same
    if not same:
        scope = f" of scope {arm.scope}" if arm.scope else ""
        raise InputError(f"{setting.name} has no arm {against!r}{scope} to measure {arm.label} against: --against NAME")
    return same[0]


def _budget(arm: ArmRuns) -> int | None:
    return arm.settings.get("budget")


def _elsewhere(arm: ArmRuns, other: ArmRuns) -> bool:
    """Whether both have a budget and the two differ."""
    return None not in (_budget(arm), _budget(other)) and _budget(arm) != _budget(other)


def _side_by_side(setting: Setting, pairs: Sequence[Pair], runs: int) -> tuple[ArmRuns | None, Common]:
    """The arm without compaction, if there is one, and what all arms of an evaluation have in common."""
    whole = next((arm for arm in setting.arms if not arm.compresses and arm.runs >= runs), None)
    shared = common([*(arm for pair in pairs for arm in pair), *([whole] if whole else [])], None, runs)
    if not shared.tasks:
        why = f"has no task yet that all arms have done{shared.broken_words}"
        raise InputError(f"{setting.name} {why}: finish it with recompact evaluate")
    return whole, shared


def _rows(setting: Setting, pairs: Sequence[Pair], whole: ArmRuns | None, shared: Common) -> list[Transferred]:
    involved = [arm for pair in pairs for arm in pair] + ([whole] if whole else [])
    source = peak_source(involved)
    comparisons = compare_many(pairs, shared, keys=("acc", f"pass^{shared.runs}", "steps"), source=source)
    figures = {id(arm): measure(arm, shared.tasks, shared.runs, source) for arm in involved}
    return [
        Transferred(
            setting=setting.name,
            models=setting.models,
            adapted_with=arm.settings.get("adapted_with"),
            scope=arm.scope,
            budget=_budget(arm),
            arm=arm.base,
            against=f"{other.base}@{_budget(other)}" if _elsewhere(arm, other) else other.base,
            none=figures[id(whole)] if whole else None,
            reference=figures[id(other)],
            moved=figures[id(arm)],
            comparison=comparison,
        )
        for (arm, other), comparison in zip(pairs, comparisons, strict=True)
    ]


def _notes(
    settings: Sequence[Setting], chosen: Sequence[Sequence[Pair]], shared: Sequence[Common], runs: int
) -> list[str]:
    notes = []
    known = [describe_models(setting.models) for setting in settings if setting.models]
    if len(set(known)) < len(known):
        notes.append("Some of these evaluations were made with the same models: between those nothing is transferred.")
    for key, name in (("template", "template"), ("budget", "budgets")):
        if changed := _changed_arms(chosen, key):
            notes.append(f"Not the same {name} in all of them: {', '.join(changed)}. More than the models differs.")
    if elsewhere := dict.fromkeys(a.label for pairs in chosen for a, b in pairs if _elsewhere(a, b)):
        notes.append(f"Measured against an arm of another budget, so two things differ: {', '.join(elsewhere)}.")
    if len({frozenset(one.tasks) for one in shared}) > 1:
        notes.append("The evaluations are not of the same tasks: compare arms within one of them, not across.")
    for setting, pairs, one in zip(settings, chosen, shared, strict=True):
        notes += [f"{setting.name}: {words}" for words in left_out(one.left_out, len(one.broken))]
        arms = {arm.label: arm for pair in pairs for arm in pair}
        notes += [f"{setting.name}: {words}" for words in seen_tasks(arms.values(), one)]
    return [*notes, *size_warnings(min(len(one.tasks) for one in shared), runs)]


def _changed_arms(chosen: Sequence[Sequence[Pair]], key: str) -> list[str]:
    """The arms, references included, that are not the same in all evaluations, as far as these tell."""
    by_name: dict[str, dict[int, set[Any]]] = {}
    for number, pairs in enumerate(chosen):
        for arm in (arm for pair in pairs for arm in pair):
            if (value := arm.settings.get(key)) is not None:
                by_name.setdefault(label(arm.base, arm.scope), {}).setdefault(number, set()).add(value)
    return sorted(name for name, values in by_name.items() if len({frozenset(v) for v in values.values()}) > 1)


def transfer_table(across: Transfer) -> Table:
    """One row for each evaluation, scope and arm."""
    names = ("run", "models", "adapted_with", "scope", "budget", "arm", "against", "tasks")
    heads = list(columns(*names, adapted_with="adapted with", against="reference"))
    for key in across.keys:
        title = metric(key).title
        whose = {f"{key}_none": "none", f"{key}_against": "reference", key: "arm"}
        heads += [
            *(Column(name, f"{title} {word}") for name, word in whose.items()),
            Column(f"{key}_delta", f"Δ {title}"),
        ]
    solved = "all runs" if across.runs > 1 else "the run"
    tests = f"win, lose, p: exact sign test on tasks solved in {solved}. Acc ± standard deviation across runs."
    rows = tuple(_row(row, across.keys) for row in across.rows)
    return without_empty(Table("Transfer", (*heads, *SIGN_TEST), rows, (STAR, tests, *across.notes)))


def _row(row: Transferred, keys: Sequence[str]) -> Row:
    adapted, comparison = describe_models(row.adapted_with) if row.adapted_with else None, row.comparison
    cells: list[Cell] = [row.setting, describe_models(row.models), adapted, row.scope, row.budget, row.arm, row.against]
    cells.append(comparison.tasks)
    for key in keys:
        cells += [mean(metrics, key) if metrics else None for metrics in (row.none, row.reference, row.moved)]
        cells.append(delta(comparison.of(key), comparison.tasks))
    return (*cells, *sign_test_cells(comparison))
