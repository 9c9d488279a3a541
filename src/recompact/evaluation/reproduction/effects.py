"""The paper's analyses of boundaries, filled from nine draws in each arm, and the cost of PAIR's adaptation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import get_args

from recompact.adaptation.registry import load_method
from recompact.attribution.controls import cited_in_clauses
from recompact.attribution.counts import counts, coupling
from recompact.attribution.detection import Part, PartRule, compare_allocations, selected_by_all
from recompact.attribution.effects import effects_of
from recompact.attribution.halving import Halving
from recompact.attribution.records import outcomes_in, settings_of
from recompact.attribution.sensitivity import sensitivity_to_draws, sensitivity_to_thresholds
from recompact.attribution.uniform import Uniform
from recompact.compressors.protocol import SCOPES, Scope
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import tokens_by_unit
from recompact.engine.store.runs import boundary_rows, continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.reproduction.arms import NamedRow, beside_notes, paper_notes, with_paper
from recompact.evaluation.reproduction.experiments import DRAWS, Adaptations, Diagnostics, Setting
from recompact.evaluation.reproduction.paper import benchmark, printed_range, printed_table
from recompact.values.effect import Thresholds
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.tables import Cell, Number, Row, Table, columns, estimate_cell
from recompact.values.texts import quantity

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
    known = benchmark(setting.config.suite.use)
    strictly = bool(known and known.of("effects", "strictly"))
    if known and (printed := known.of("effects")):
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
    known = benchmark(setting.config.suite.use)
    counted = known.of("effects", "boundaries") if known else None
    by_scope = {scope: known.of("cost", scope, "boundaries") for scope in SCOPES} if known else {}
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
    with Store.read(setting.path(Diagnostics(setting.scopes[0]).name)) as store:
        thresholds = settings_of(store).thresholds
        pool = _complete(outcomes_in(store).outcomes)
        rules = cited_in_clauses(store)
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
    with Store.read(setting.path(Diagnostics(setting.scopes[0]).name)) as store:
        points = sensitivity_to_draws(_complete(outcomes_in(store).outcomes))
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
    with Store.read(setting.path(Diagnostics(setting.scopes[0]).name)) as store:
        thresholds = settings_of(store).thresholds
        points = sensitivity_to_thresholds(_complete(outcomes_in(store).outcomes), thresholds=thresholds)
    rows = tuple(
        (point.threshold, Number(point.value, 1), point.selected, Number(point.jaccard, 2)) for point in points
    )
    known, overlap = benchmark(setting.config.suite.use), printed_range("thresholds", "jaccard")
    printed = [f"The paper: overlaps of {overlap[0]:.2f} to {overlap[1]:.2f}"] if overlap else []
    if known and (selected := known.of("thresholds", "selected")):
        printed.append(f"{selected} selected by its own thresholds on {known.title}")
    overlaps = "jaccard: overlap with what the default thresholds select."
    notes = (overlaps, "; ".join(printed) + ".", *beside_notes(setting))
    return Table("Sensitivity to the thresholds", columns("threshold", "value", "selected", "jaccard"), rows, notes)


def cost_table(setting: Setting) -> Table:
    """What PAIR's adaptation cost in each scope."""
    known = benchmark(setting.config.suite.use)
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
        figures = (known.of("cost", str(row["scope"])) if known else None) or {}
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


def _complete(outcomes: Mapping[BoundaryId, Outcomes]) -> dict[BoundaryId, Outcomes]:
    """The boundaries that have draws in both arms; others were left out by verification."""
    return {boundary: own for boundary, own in outcomes.items() if own.pre and own.post}


def _range(printed: tuple[float, float] | None) -> str | None:
    return f"{printed[0]:.2f} to {printed[1]:.2f}" if printed else None
