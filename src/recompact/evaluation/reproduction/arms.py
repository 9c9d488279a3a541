"""The paper's tables of arms, filled from an evaluation, each figure beside the one that the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, find_arm, read_arms
from recompact.evaluation.arms import Arm
from recompact.evaluation.metrics import Metrics, group_tasks, metric
from recompact.evaluation.paired import Comparison, compare_many, difference_warnings
from recompact.evaluation.reproduction.experiments import Setting
from recompact.evaluation.reproduction.paper import Benchmark, arm_figures, benchmark
from recompact.evaluation.summary import Evaluation, delta, evaluation, mean, notes, sign_test_cells, without_empty
from recompact.values.tables import Cell, Column, Number, Row, Table, columns
from recompact.values.texts import quantity

MAIN = ("acc", "pass^3", "em", "em^3", "f1", "steps", "peak", "tokens")
SHORT = ("acc", "pass^3", "steps")
AGENTS = "GPT-5.6 Luna as agent and compressor"


def read_evaluation(setting: Setting, run: str, arms: Iterable[Arm], title: str) -> Evaluation:
    """These arms of a run, over what they share."""
    with Store.read(setting.path(run)) as store:
        recorded = read_arms(store)
        return evaluation(title, [find_arm(recorded, arm.label, store.path) for arm in arms], runs=setting.runs)


def main_table(shown: Evaluation, setting: Setting) -> Table:
    """All arms, as in the paper's main tables."""
    known = benchmark(setting.config.suite.use)
    measured = shown.measured()
    keys = _keys(measured, MAIN)
    rows = tuple((arm.name, arm.scope, *_beside(known, arm, metrics, keys)) for arm, metrics in measured)
    heads = (*columns("arm", "scope"), *_paired_columns(keys))
    return without_empty(Table(shown.title, heads, rows, (*notes(shown), *paper_notes(setting))))


def group_tables(shown: Evaluation, setting: Setting) -> list[Table]:
    """The same by the paper's groups of tasks; none where the suite has no such groups."""
    known = benchmark(setting.config.suite.use)
    if known is None or known.group is None:
        return []
    tables = []
    for value, tasks in group_tasks(shown.arms, shown.shared.tasks, known.group).items():
        measured = shown.measured(tasks)
        keys = _keys(measured, SHORT)
        group = known.printed_group(value)
        rows = tuple((arm.name, arm.scope, *_beside(known, arm, metrics, keys, group)) for arm, metrics in measured)
        title = f"{shown.title}, {known.group} {value}: {quantity(len(tasks), 'task')}"
        tables.append(without_empty(Table(title, (*columns("arm", "scope"), *_paired_columns(keys)), rows)))
    return tables


def token_table(shown: Evaluation, setting: Setting) -> Table:
    """Reliability against tokens per task: the paper's figure on efficiency."""
    known = benchmark(setting.config.suite.use)
    runs = shown.shared.runs
    keys = [f"pass^{runs}" if runs > 1 else "acc", "tokens"]
    rows: list[Row] = []
    for arm, metrics in shown.measured():
        printed = known.of("tokens", arm.scope or "", arm.name) if known else None
        rows.append((arm.name, arm.scope, *(mean(metrics, key) for key in keys), printed and Number(printed)))
    heads = (*columns("arm", "scope"), *(Column(key, metric(key).title) for key in keys), Column("paper", "paper"))
    note = "Thousand tokens per task, agent and compressor. The paper prints few of them as numbers."
    return without_empty(Table("Reliability and tokens", heads, tuple(rows), (note, *paper_notes(setting))))


def paired_table(shown: Evaluation, setting: Setting) -> Table | None:
    """PAIR minus the better ACON variant in each scope: differences with intervals, and the sign test."""
    known = benchmark(setting.config.suite.use)
    pairs = [pair for scope in setting.scopes if (pair := _with_best_acon(shown, scope))]
    if not pairs or not shown.shared.tasks:
        return None
    reliability = f"pass^{shown.shared.runs}" if shown.shared.runs > 1 else "acc"
    keys = list(dict.fromkeys([reliability, "acc"]))
    comparisons = compare_many(pairs, shown.shared, keys=keys, source=shown.source)
    rows = tuple(
        _paired_row(comparison, first.scope, second.name, keys, known)
        for (first, second), comparison in zip(pairs, comparisons, strict=True)
    )
    figures = [head for key in keys for head in (Column(key, f"Δ {metric(key).title}"), _paper(key))]
    tests = columns("wins", "losses", "p", "printed", wins="win", losses="lose", printed="paper")
    heads = (*columns("scope", "against"), *figures, *tests)
    rule = "Against the ACON variant with the higher Pass^k, which the paper may have chosen otherwise."
    tested = [comparison for comparison in comparisons if not comparison.one_arm]
    pooled = (
        f"Added up over scopes, {sum(c.wins for c in tested)} wins and {sum(c.losses for c in tested)} losses; both"
        " have the same tasks, so the sum is not tested. The paper has 75 and 34 over its three benchmarks."
    )
    notes = (rule, *([pooled] if len(tested) > 1 else []), *difference_warnings(comparisons), *paper_notes(setting))
    return without_empty(Table("PAIR minus ACON, paired by task", heads, rows, notes))


def _with_best_acon(shown: Evaluation, scope: str) -> tuple[ArmRuns, ArmRuns] | None:
    own = [arm for arm in shown.arms if arm.scope == scope]
    pair = next((arm for arm in own if arm.name == "pair"), None)
    rivals = [arm for arm in own if arm.name in ("acon-ut", "acon-utco")]
    if pair is None or not rivals:
        return None
    key = f"pass^{shown.shared.runs}" if shown.shared.runs > 1 else "acc"
    return pair, max(rivals, key=lambda arm: shown.metrics(arm).means.get(key, 0.0))


def _paired_row(
    comparison: Comparison, scope: str | None, against: str, keys: Sequence[str], known: Benchmark | None
) -> Row:
    printed = known.of("paired", scope or "") if known else None
    cells: list[Cell] = []
    for key in keys:
        figures = printed and printed.get(key.replace("^", ""))
        cells.append(None if comparison.one_arm else delta(comparison.of(key), comparison.tasks))
        cells.append(figures and Number(figures[0], interval=(figures[1], figures[2]), signed=True))
    tests = printed and f"{printed['wins']}/{printed['losses']} ({printed['p']}), against {printed['against']}"
    return (scope, against, *cells, *((None,) * 3 if comparison.one_arm else sign_test_cells(comparison)), tests)


def _keys(measured: Sequence[tuple[ArmRuns, Metrics]], wanted: Sequence[str]) -> list[str]:
    """The wanted metrics that some arm has; unless there are three runs, reliability is over as many as there are."""
    runs = max((metrics.runs for _, metrics in measured), default=0)
    named = [key.replace("^3", f"^{runs}") for key in wanted]
    return [key for key in named if any(key in metrics.means for _, metrics in measured)]


def _beside(
    known: Benchmark | None, arm: ArmRuns, metrics: Metrics, keys: Sequence[str], group: str = ""
) -> list[Cell]:
    """Each figure of an arm, followed by the paper's."""
    printed = arm_figures(known.name, arm.name, arm.scope, group) if known else {}
    cells: list[Cell] = []
    for key in keys:
        value = printed.get(key)
        spread = printed.get("sd") if key in ("acc", "em") else None
        cells.append(mean(metrics, key))
        cells.append(None if value is None else Number(value, metric(key).digits, spread))
    return cells


def _paired_columns(keys: Sequence[str]) -> list[Column]:
    return [head for key in keys for head in (Column(key, metric(key).title), _paper(key))]


def _paper(key: str) -> Column:
    return Column(f"paper_{key}", "paper")


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
