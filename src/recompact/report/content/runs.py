"""What a report reads of each run: an evaluation with its tables and comparisons, a verified run with its boundaries.

Comes in: an open run, or released records. Goes out: values from which the answer, the tables, the figures and the
cases of a page are made. Only records are read; no model is asked and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recompact.adaptation.diagnosis import Diagnosis
from recompact.attribution.findings import Findings, findings
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, read_arms
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.intervals import Estimates, none_of
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.paired import Comparison
from recompact.evaluation.released import read_released
from recompact.evaluation.summary import (
    Evaluation,
    arm_table,
    counted,
    detail_tables,
    difference_table,
    evaluation,
    group_table,
)
from recompact.evaluation.sweep import sweep, sweep_table, swept_arms
from recompact.evaluation.transfer import Setting, models_of
from recompact.outcome import BoundaryId
from recompact.report.content.answer import Contrast, adapted, compacted, compared, contrast
from recompact.report.content.arms import cautions, without
from recompact.report.content.boundaries import Case, boundary_list, cases, counts_table
from recompact.report.content.harm import Harm, harm_of
from recompact.report.content.provenance import Made, evaluation_made, released_made, verified_made
from recompact.report.figures import figure_estimates
from recompact.store.adaptations import recorded_templates
from recompact.store.runs import overview, trajectories
from recompact.store.store import Store
from recompact.tables import Table
from recompact.template import Template


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: its tables, and its arms in words. `name` is short, `made.name` what a command takes."""

    name: str
    setting: Setting
    shown: Evaluation
    arms: Table
    differences: Table | None
    sweep: Table | None
    estimates: Estimates | None  # where the table of budgets had to be resampled, so that figures need not again
    details: tuple[Table, ...]
    costs: tuple[Contrast, ...]
    gains: tuple[Contrast, ...]
    others: tuple[Contrast, ...]
    warnings: tuple[str, ...]
    made: Made
    templates: Mapping[str, Template] = field(repr=False)


@dataclass(frozen=True)
class Verified:
    """A verified run: its counts, its list of boundaries, and the most harmful of them."""

    name: str
    found: Findings
    harm: Harm
    counts: Table
    listed: Table
    cases: tuple[Case, ...]
    simulated: bool
    made: Made


def short_names(runs: Sequence[str]) -> dict[str, str]:
    """How runs are called where there are several: by the file's name, or by the whole path where two share that.

    >>> short_names(["a/x.db", "b/x.db", "b/y.db"])
    {'a/x.db': 'a/x.db', 'b/x.db': 'b/x.db', 'b/y.db': 'y'}
    """
    stems = [Path(run).stem for run in runs]
    return {run: stem if stems.count(stem) == 1 else run for run, stem in zip(runs, stems, strict=True)}


# --- evaluations


def released_run(path: str, name: str, several: bool) -> Evaluated:
    """Released records. `several`: there are other evaluations, so tables say which one they are of."""
    setting = Setting(name, read_released(Path(path)))
    shown = _side_by_side(path, Path(path).stem, setting, several)
    return _evaluated(setting, shown, released_made(path, shown), {})


def evaluated_run(store: Store, name: str, several: bool) -> Evaluated:
    """An evaluation of ours."""
    path, suite = str(store.path), store.metadata.suite or "?"
    setting = Setting(name, read_arms(store), suite, models_of(store))
    shown = _side_by_side(path, suite, setting, several)
    return _evaluated(setting, shown, evaluation_made(store, path, shown), recorded_templates(store))


def _side_by_side(path: str, suite: str, setting: Setting, several: bool) -> Evaluation:
    shown = evaluation(suite, setting.arms)
    if not shown.shared.tasks:
        raise InputError(f"{path} has no task yet that every arm has finished: go on with the same recompact evaluate")
    size = f"{counted(len(shown.shared.tasks), 'task')}, {counted(shown.shared.runs, 'run')}"
    return replace(shown, title=f"{suite}, {size}" + (f" ({setting.name})" if several else ""))


def _evaluated(setting: Setting, shown: Evaluation, made: Made, templates: Mapping[str, Template]) -> Evaluated:
    warnings = cautions(shown)
    present, none = compacted(shown), none_of(shown)
    differences = difference_table(shown, _against(shown, present))
    known = differences[1] if differences else []
    estimates = figure_estimates(shown) if swept_arms(shown) else None
    budgets = sweep(shown, estimates)
    cost_pairs = [(arm, none) for arm in present] if none else []
    pairs = [*cost_pairs, *adapted(shown)]
    told = [contrast(_title(c), c) for c in compared(shown, pairs, known)]
    return Evaluated(
        name=setting.name,
        setting=setting,
        shown=shown,
        arms=without(arm_table(shown), warnings),
        differences=differences[0] if differences else None,
        sweep=sweep_table(budgets) if budgets else None,
        estimates=estimates,
        details=_details(shown),
        costs=tuple(told[: len(cost_pairs)]),
        gains=tuple(told[len(cost_pairs) :]),
        others=() if told else tuple(contrast(_title(c), c) for c in known),
        warnings=warnings,
        made=made,
        templates=templates,
    )


def _details(shown: Evaluation) -> tuple[Table, ...]:
    """The tables that are folded; one with nothing in it (records that do not count tokens) is left out."""
    found = (*(group_table(shown, key) for key in group_keys(shown.arms)), *detail_tables(shown))
    return tuple(table for table in found if table.rows)


def _against(shown: Evaluation, present: Sequence[ArmRuns]) -> str:
    """What the table measures the others against: prompting in each scope, or else the arm that stands for it."""
    if any(arm.base == PROMPTING for arm in present):
        return PROMPTING
    return (present or shown.arms)[0].label


def _title(comparison: Comparison) -> str:
    return f"{comparison.first} against {comparison.second}"


# --- verified runs


def verified_run(store: Store, name: str, top: int, prefix: str, *, adapted: bool) -> Verified:
    """A verified run. The anchors of its cases begin with `prefix`; `adapted`: it holds candidates too."""
    found = findings(store)
    rows = trajectories(store)
    shown = cases(store, found, top, _diagnoses(store), prefix)
    return Verified(
        name=name,
        found=found,
        harm=harm_of(found, len(rows)),
        counts=counts_table(found, {row.unit: row.success for row in rows}),
        listed=boundary_list(found),
        cases=shown,
        simulated=overview(store).simulated,
        made=verified_made(store, str(store.path), found, str(shown[0].id) if shown else "", adapted=adapted),
    )


def _diagnoses(store: Store) -> dict[BoundaryId, Diagnosis]:
    made = [Diagnosis.from_json(store.result(unit)) for unit in sorted(store.finished("diagnosis"))]
    return {diagnosis.id: diagnosis for diagnosis in made}
