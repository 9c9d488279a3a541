"""The paper's tables of arms, filled from an evaluation, each figure beside the one that the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, find_arm, read_arms
from recompact.evaluation.arms import Arm
from recompact.evaluation.breakdown import breakdown_table, by_group
from recompact.evaluation.metrics import metric, reliability
from recompact.evaluation.paired import compare_many, difference_warnings
from recompact.evaluation.reproduction.experiments import Setting
from recompact.evaluation.reproduction.paper import Benchmark, arm_figures, benchmark
from recompact.evaluation.summary import (
    SIGN_TEST,
    Evaluation,
    arm_table,
    delta,
    evaluation,
    metric_columns,
    sign_test_cells,
)
from recompact.values.tables import Cell, Column, Number, Row, Table, columns

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
    known = benchmark(setting.config.suite.use)
    groups = by_group(shown, known.group) if known and known.group else None
    if groups is None:
        return None
    return add_notes(with_paper(breakdown_table(groups), _figures(setting)), *paper_notes(setting))


def _figures(setting: Setting) -> Callable[[NamedRow], NamedRow]:
    """The paper's figures for the arm of a row, in the group that the row is about, if any."""
    known = benchmark(setting.config.suite.use)

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
    known = benchmark(setting.config.suite.use)

    def printed(row: NamedRow) -> NamedRow:
        tokens = known.of("tokens", str(row.get("scope") or ""), str(row["arm"])) if known else None
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
    known = benchmark(setting.config.suite.use)
    return with_paper(
        Table("PAIR minus ACON, paired by task", heads, tuple(rows), notes), lambda row: _printed_pair(known, row)
    )


def _printed_pair(known: Benchmark | None, row: NamedRow) -> NamedRow:
    """The paper's comparison in the scope of a row."""
    printed = known.of("paired", str(row["scope"] or "")) if known else None
    if not printed:
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
    suite = setting.config.suite.use
    known = benchmark(suite)
    if known is None:
        return (f"The paper has no figures for {suite}.",)
    tasks = "training tasks" if training else f"{known.test or ''} test tasks, three runs".lstrip()
    return (f"paper: its figures for {known.title}, {tasks}, {AGENTS}.", *beside_notes(setting))


def beside_notes(setting: Setting) -> tuple[str, ...]:
    """That the suite only stands beside a benchmark of the paper, if it does."""
    suite = setting.config.suite.use
    known = benchmark(suite)
    if known is None or suite == known.name:
        return ()
    return (
        f"{suite} is not {known.title}, and its models are simulated: the figures of the paper are there to be"
        " compared in shape, not in size.",
    )
