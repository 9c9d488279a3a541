"""The paper's tables, filled from runs, each figure beside the one that the paper prints: of arms, from an evaluation;
of boundaries, from nine draws in each arm; and the cost of PAIR's adaptation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import get_args

from recompact.adaptation.method import load_method
from recompact.attribution.controls import cited_in_clauses
from recompact.attribution.detection import (
    Part,
    PartRule,
    compare_allocations,
    selected_by_all,
    sensitivity_to_draws,
    sensitivity_to_thresholds,
)
from recompact.attribution.effects import effects_of
from recompact.attribution.halving import Halving
from recompact.attribution.means import counts, coupling
from recompact.attribution.records import outcomes_in, settings_of
from recompact.attribution.uniform import Uniform
from recompact.compressors.protocol import SCOPES, Scope
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import tokens_by_unit
from recompact.engine.store.runs import boundary_rows, continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, find_arm, read_arms
from recompact.evaluation.arms import Arm
from recompact.evaluation.breakdown import breakdown_table, by_group
from recompact.evaluation.metrics import metric, reliability
from recompact.evaluation.paired import compare_many, difference_warnings
from recompact.evaluation.reproduction.experiments import DRAWS, Adaptations, Diagnostics, Setting
from recompact.evaluation.reproduction.paper import arm_figures, printed_range, printed_table
from recompact.evaluation.summary import (
    SIGN_TEST,
    Evaluation,
    arm_table,
    delta,
    evaluation,
    metric_columns,
    sign_test_cells,
)
from recompact.values.outcome import BoundaryId, Outcomes, Thresholds
from recompact.values.tables import Cell, Column, Number, Row, Table, columns, estimate_cell
from recompact.values.texts import quantity

MAIN = ("acc", "pass^k", "em", "em^k", "f1", "steps", "peak", "tokens")
AGENTS = "GPT-5.6 Luna as agent and compressor"

NamedRow = Mapping[str, Cell]
"""The cells of a row by their columns' keys."""


def with_paper(table: Table, printed: Callable[[NamedRow], NamedRow]) -> Table:
    """The table with a column after each one that the paper has figures for; `printed` gives those beside a row."""
    keys = [column.key for column in table.columns]
    beside = [printed(dict(zip(keys, row, strict=True))) for row in table.rows]
    known = {key for figures in beside for key, figure in figures.items() if figure is not None}
    heads: list[Column] = []
    rows: list[list[Cell]] = [[] for _ in table.rows]
    for n, column in enumerate(table.columns):
        heads += [column, Column(f"paper_{column.key}", "paper")] if column.key in known else [column]
        for own, row, figures in zip(rows, table.rows, beside, strict=True):
            own += [row[n], figures.get(column.key)] if column.key in known else [row[n]]
    return replace(table, columns=tuple(heads), rows=tuple(map(tuple, rows)))


def read_evaluation(setting: Setting, run: str, arms: Iterable[Arm], title: str) -> Evaluation:
    """These arms of a run, over what they share."""
    with Store.read(setting.path(run)) as store:
        recorded = read_arms(store)
        return evaluation(title, [find_arm(recorded, arm.label, store.path) for arm in arms], runs=setting.runs)


def main_table(shown: Evaluation, setting: Setting) -> Table:
    """All arms, as in the paper's main tables."""
    keys = [key.replace("^k", f"^{shown.shared.runs}") for key in MAIN]
    return add_notes(with_paper(arm_table(shown, keys), _figures(setting)), *paper_notes(setting))


def group_table(shown: Evaluation, setting: Setting) -> Table | None:
    """The same by the paper's groups of tasks; None where the suite has no such groups."""
    known = setting.known
    if not (known and known.group and (groups := by_group(shown, known.group))):
        return None
    return add_notes(with_paper(breakdown_table(groups), _figures(setting)), *paper_notes(setting))


def _figures(setting: Setting) -> Callable[[NamedRow], NamedRow]:
    """The paper's figures for the arm of a row, in the group that the row is about, if any."""
    known = setting.known

    def figures(row: NamedRow) -> NamedRow:
        if known is None:
            return {}
        group = known.printed_group(str(row["value"])) if row.get("value") else ""
        printed = arm_figures(known.name, str(row["arm"]), str(row.get("scope") or ""), group)
        spread = {key: printed.get("sd") for key in ("acc", "em")}
        return {
            key: Number(value, metric(key).digits, spread.get(key)) for key, value in printed.items() if key != "sd"
        }

    return figures


def token_table(shown: Evaluation, setting: Setting) -> Table:
    """Reliability against tokens per task: the paper's figure on efficiency."""

    def printed(row: NamedRow) -> NamedRow:
        tokens = setting.printed("tokens", str(row.get("scope") or ""), str(row["arm"]))
        return {"tokens": tokens and Number(tokens)}

    table = arm_table(shown, [reliability(shown.shared.runs), "tokens"])
    note = "Thousand tokens per task, agent and compressor. The paper prints few of them as numbers."
    return replace(
        with_paper(table, printed), title="Reliability and tokens", notes=(note, *paper_notes(setting)), bold=""
    )


def paired_table(shown: Evaluation, setting: Setting) -> Table | None:
    """PAIR minus the better ACON variant in each scope: differences with intervals, and the sign test."""
    pairs = [pair for scope in setting.scopes if (pair := _with_best_acon(shown, scope))]
    if not pairs or not shown.shared.tasks:
        return None
    keys = list(dict.fromkeys([reliability(shown.shared.runs), "acc"]))
    comparisons = compare_many(pairs, shown.shared, keys=keys, source=shown.source)
    rows: list[Row] = []
    for (first, second), comparison in zip(pairs, comparisons, strict=True):
        cells = (*(delta(comparison.of(key), comparison.tasks) for key in keys), *sign_test_cells(comparison))
        rows.append((first.scope, second.name, *((None,) * len(cells) if comparison.one_arm else cells)))
    heads = (*columns("scope", "against"), *metric_columns(keys, "Δ "), *SIGN_TEST)
    rule = "Against the ACON variant with the higher Pass^k, which the paper may have chosen otherwise."
    tested = [comparison for comparison in comparisons if not comparison.one_arm]
    pooled = (
        f"Added up over scopes, {sum(c.wins for c in tested)} wins and {sum(c.losses for c in tested)} losses; both"
        " have the same tasks, so the sum is not tested. The paper has 75 and 34 over its three benchmarks."
    )
    notes = (rule, *([pooled] if len(tested) > 1 else []), *difference_warnings(comparisons), *paper_notes(setting))
    return with_paper(
        Table("PAIR minus ACON, paired by task", heads, tuple(rows), notes), partial(_printed_pair, setting)
    )


def _printed_pair(setting: Setting, row: NamedRow) -> NamedRow:
    """The paper's comparison in the scope of a row."""
    if not (printed := setting.printed("paired", str(row["scope"] or ""))):
        return {}
    keys = {key: printed.get(key.replace("^", "")) for key in row}
    figures: dict[str, Cell] = {
        key: Number(value[0], interval=(value[1], value[2]), signed=True)
        for key, value in keys.items()
        if isinstance(value, list)
    }
    return figures | {"p": f"{printed['wins']}/{printed['losses']} ({printed['p']}), against {printed['against']}"}


def _with_best_acon(shown: Evaluation, scope: str) -> tuple[ArmRuns, ArmRuns] | None:
    own = [arm for arm in shown.arms if arm.scope == scope]
    pair = next((arm for arm in own if arm.name == "pair"), None)
    rivals = [arm for arm in own if arm.name in ("acon-ut", "acon-utco")]
    if pair is None or not rivals:
        return None
    key = reliability(shown.shared.runs)
    return pair, max(rivals, key=lambda arm: shown.metrics(arm).means.get(key, 0.0))


def add_notes(table: Table, *lines: str) -> Table:
    return replace(table, notes=(*table.notes, *lines))


def paper_notes(setting: Setting, *, training: bool = False) -> tuple[str, ...]:
    """What the paper's columns are, and what they are not."""
    known = setting.known
    if known is None:
        return (f"The paper has no figures for {setting.config.suite.use}.",)
    tasks = "training tasks" if training else f"{known.test or ''} test tasks, three runs".lstrip()
    return (f"paper: its figures for {known.title}, {tasks}, {AGENTS}.", *beside_notes(setting))


def beside_notes(setting: Setting) -> tuple[str, ...]:
    """That the suite only stands beside a benchmark of the paper, if it does."""
    suite, known = setting.config.suite.use, setting.known
    if known is None or suite == known.name:
        return ()
    return (
        f"{suite} is not {known.title}, and its models are simulated: the figures of the paper are there to be"
        " compared in shape, not in size.",
    )


PAID = ("agent", "compressor", "optimizer")
"""Whose tokens the paper's cost counts: a simulated customer's or a judge's belong to the benchmark."""

COUNTED = (
    "trajectories",
    "boundaries",
    "unchanged",
    "reduced",
    "improved",
    "severe_hazard",
    "longer",
    "severe_burden",
    "twice_severe_burden",
    "harmful",
    "trajectories_with_reduced",
    "trajectories_with_harmful",
)


def effect_table(setting: Setting) -> Table:
    """How many compactions hurt, and how: the paper's section 3.3 and its appendix."""
    with Store.read(setting.path(Diagnostics(setting.scopes[0]).name)) as store:
        thresholds = settings_of(store).thresholds
        effects = effects_of(outcomes_in(store).outcomes, thresholds)
        success = {row.unit: row.success for row in trajectories(store) if row.compactions}
    every = counts(effects, success, thresholds)
    correlation = coupling(effects.values())
    rows: list[Row] = [
        (group.group, *(asdict(group)[key] for key in COUNTED), _correlation(correlation, group.group == "all"))
        for group in every
    ]
    strictly = bool(setting.printed("effects", "strictly"))
    if printed := setting.printed("effects"):
        for group in ("all", "failed", "successful"):
            if figures := printed if group == "all" else printed.get(group):
                name = "paper" if group == "all" else f"paper, {group}"
                cells = [figures.get(key) for key in COUNTED]
                rows.append((name, *cells, _correlation(figures.get("correlation"), group == "all")))
    heads = columns("group", *COUNTED, "correlation", **_effect_titles(thresholds))
    notes = (
        *_scope_notes(setting),
        f"{DRAWS} draws in each arm of every boundary, trajectories with at least one compaction. unchanged, reduced:"
        " success after the compaction; longer: more steps after it. correlation: Spearman's, of H and B.",
        *(("The paper counts more than 0.5, 5 and 10 steps here; we count at least that.",) if strictly else ()),
        *paper_notes(setting, training=True),
    )
    return Table(f"What compactions did, scope {setting.scopes[0]}", heads, tuple(rows), notes)


def _scope_notes(setting: Setting) -> tuple[str, ...]:
    """The paper does not say which scope its boundaries were collected in; the cost of its adaptations tells."""
    counted = setting.printed("effects", "boundaries")
    by_scope = {scope: setting.printed("cost", scope, "boundaries") for scope in SCOPES}
    if not counted or not all(by_scope.values()):
        return ()
    near = min(SCOPES, key=lambda scope: abs(by_scope[scope] - counted))
    listed = ", ".join(f"{number} in scope {scope}" for scope, number in by_scope.items())
    return (f"The paper's {counted} boundaries fit scope {near} by its table of costs: {listed}.",)


def _effect_titles(thresholds: Thresholds) -> dict[str, str]:
    hazard, burden = f"H >= {thresholds.hazard:g}", f"B >= {thresholds.burden:g}"
    return {
        "severe_hazard": hazard,
        "severe_burden": burden,
        "twice_severe_burden": f"B >= {2 * thresholds.burden:g}",
        "trajectories_with_reduced": "trajectories with reduced",
        "harmful": "either",
        "trajectories_with_harmful": "in trajectories",
    }


def _correlation(value: float | None, shown: bool) -> Cell:
    return Number(value, 3, signed=True) if shown and value is not None else None


def allocation_table(setting: Setting) -> Table:
    """What halving and three pairs for every boundary find of what nine draws select."""
    thresholds, pool, rules = _read_diagnostics(setting)
    uniform = Uniform(3, thresholds)
    parts = [Part(rule, uniform) for rule in get_args(PartRule)]
    allocations = (uniform, Halving(3, thresholds), *parts)
    keys = ("recall", "precision", "continuations")
    rows = tuple(
        (score.allocation, *(estimate_cell(getattr(score, key), 2) for key in (*keys, "support")))
        for score in compare_allocations(allocations, pool, thresholds=thresholds, rules=rules)
    )
    notes = (
        f"Against what all {DRAWS} draws select; 20 orders of the draws, 2.5 to 97.5 percentiles. Continuations are of"
        " one boundary. Parts are the simpler ways that the paper examined too; it prints no figures of them.",
        f"Rule support: of {quantity(len(rules), 'clause')} that PAIR wrote from all draws (in all candidates where the"
        ' original won), the share that keeps a boundary it answers; in the paper "essentially unchanged" by halving.',
        *(() if selected_by_all(pool, thresholds) else ("Nothing is selected by all draws, so there is no recall.",)),
        *beside_notes(setting),
    )
    heads = columns("allocation", *keys, "support", support="rule support")
    printed = printed_table("allocations")
    return with_paper(
        Table("Allocations against all draws", heads, rows, notes),
        lambda row: {key: Number(value, 2) for key, value in printed.get(str(row["allocation"]), {}).items()},
    )


def draws_table(setting: Setting) -> Table:
    """How closely fewer draws agree with nine."""
    _, pool, _ = _read_diagnostics(setting)
    points = sensitivity_to_draws(pool)
    keys = ("hazard", "burden", "jaccard")
    rows = tuple((point.draws, *(estimate_cell(getattr(point, key), 2) for key in keys)) for point in points)
    titles = {"hazard": "H, rank correlation", "burden": "B, rank correlation", "jaccard": "overlap of selections"}
    notes = (
        f"With all {DRAWS} draws; 1,000 subsamples, 2.5 to 97.5 percentiles. The paper gives ranges over its three"
        " benchmarks.",
        *beside_notes(setting),
    )
    return with_paper(
        Table("Sensitivity to the number of draws", columns("draws", *keys, **titles), rows, notes),
        lambda row: {key: _range(printed_range("draws", str(row["draws"]), key)) for key in keys},
    )


def threshold_table(setting: Setting) -> Table:
    """What other thresholds would select from three pairs."""
    thresholds, pool, _ = _read_diagnostics(setting)
    points = sensitivity_to_thresholds(pool, thresholds=thresholds)
    rows = tuple(
        (point.threshold, Number(point.value, 1), point.selected, Number(point.jaccard, 2)) for point in points
    )
    known, overlap = setting.known, printed_range("thresholds", "jaccard")
    printed = [f"The paper: overlaps of {overlap[0]:.2f} to {overlap[1]:.2f}"] if overlap else []
    if known and (selected := known.of("thresholds", "selected")):
        printed.append(f"{selected} selected by its own thresholds on {known.title}")
    overlaps = "jaccard: overlap with what the default thresholds select."
    notes = (overlaps, "; ".join(printed) + ".", *beside_notes(setting))
    return Table("Sensitivity to the thresholds", columns("threshold", "value", "selected", "jaccard"), rows, notes)


def cost_table(setting: Setting) -> Table:
    """What PAIR's adaptation cost in each scope."""
    rows: list[Row] = []
    for scope in setting.scopes:
        boundaries, continuations, tokens = _cost(setting, scope)
        rows.append((scope, boundaries, continuations, Number(tokens / 1e6, 2)))
    heads = columns("scope", "boundaries", "continuations", "tokens", tokens="M tokens")
    note = "Tokens of agent, compressor and optimizer: collecting, continuing, diagnosing, revising, selecting."
    printed = printed_table("costs")
    ranges = [
        f"{name.upper()} {low} to {high} M" for name in ("acon-ut", "acon-utco") for low, high in (printed[name],)
    ]
    saved = (
        f"The paper: {printed['uniform']} M for its six adaptations with three pairs for every boundary,"
        f" {printed['halving']} M with halving; for one of ACON's, {' and '.join(ranges)}."
    )
    table = Table("Cost of PAIR's adaptation", heads, tuple(rows), (note, saved, *paper_notes(setting, training=True)))

    def beside(row: NamedRow) -> NamedRow:
        figures = setting.printed("cost", str(row["scope"])) or {}
        return {key: Number(value, 2) if key == "tokens" else value for key, value in figures.items()}

    return with_paper(table, beside)


def _cost(setting: Setting, scope: Scope) -> tuple[int, int, int]:
    """Boundaries, continuations and tokens of PAIR alone, in a run that other methods share."""
    method = load_method("pair")
    with Store.read(setting.path(Adaptations(scope, ()).name)) as store:
        records = read_adaptations(store)
        own = {hash[:16] for record in records if record.method == method.name for hash in record.templates}
        begin = ("collect/", "continue/", *method.phases)
        tokens = sum(
            tokens
            for unit, tokens in tokens_by_unit(store, PAID).items()
            if unit.startswith(begin) or _selects(unit, own)
        )
        return len(boundary_rows(store)), len(continuation_rows(store)), tokens


def _selects(unit: str, own: Collection[str]) -> bool:
    """Whether a unit was run to select from these templates, or is a start that all of them share.

    >>> [_selects(unit, {"a"}) for unit in ("select/a/t/0", "select/check/a/t/0", "select/check/b/t/0", "x/a")]
    [True, True, False, False]
    """
    phase, *places = unit.split("/")[:3]
    return phase == "select" and not {"shared", *own}.isdisjoint(places)


def _read_diagnostics(setting: Setting) -> tuple[Thresholds, dict[BoundaryId, Outcomes], list[set[BoundaryId]]]:
    """The thresholds, the draws of all boundaries that have some in both arms (others were left out by verification),
    and which boundaries each clause cites that was written from them."""
    with Store.read(setting.path(Diagnostics(setting.scopes[0]).name)) as store:
        pool = {id: own for id, own in outcomes_in(store).outcomes.items() if own.pre and own.post}
        return settings_of(store).thresholds, pool, cited_in_clauses(store)


def _range(printed: tuple[float, float] | None) -> str | None:
    return f"{printed[0]:.2f} to {printed[1]:.2f}" if printed else None
