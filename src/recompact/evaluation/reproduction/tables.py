"""Which of the paper's tables and figures there are, what runs each needs, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recompact.errors import InputError
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.breakdown import breakdown_table, by_budget, by_model
from recompact.evaluation.released import load_evaluation
from recompact.evaluation.reproduction.experiments import (
    LOCKED,
    METHODS,
    Adaptations,
    Diagnostics,
    Experiment,
    Setting,
    UnseenTasks,
    Windows,
    lingua_installed,
)
from recompact.evaluation.reproduction.results import (
    add_notes,
    allocation_table,
    beside_notes,
    cost_table,
    draws_table,
    effect_table,
    group_table,
    main_table,
    paired_table,
    read_evaluation,
    threshold_table,
    token_table,
)
from recompact.evaluation.summary import Evaluation
from recompact.values.tables import Number, Row, Table, columns

WITHOUT_LINGUA = "LLMLingua-2 is left out: it needs the extra llmlingua (docs/compressors.md)."


@dataclass(frozen=True)
class PaperTable:
    """One table or figure of the paper."""

    name: str
    title: str
    experiments: Callable[[Setting], list[Experiment]]
    tables: Callable[[Setting], list[Table]]


def _adaptations(setting: Setting, methods: tuple[str, ...]) -> list[Experiment]:
    return [Adaptations(scope, methods) for scope in setting.scopes]


def _evaluations(setting: Setting, methods: tuple[str, ...] = METHODS) -> list[Experiment]:
    return [*_adaptations(setting, methods), UnseenTasks(methods)]


def _arms(setting: Setting, methods: tuple[str, ...] = METHODS, baselines: bool = True) -> Evaluation:
    chosen = UnseenTasks(methods, baselines=baselines)
    title = f"{setting.config.suite.use}, test tasks" + ("" if baselines else ", ACON-UT with and without the lock")
    return read_evaluation(setting, chosen.name, chosen.arms(setting), title)


def _main(setting: Setting) -> list[Table]:
    table = main_table(_arms(setting), setting)
    return [table] if lingua_installed() else [add_notes(table, WITHOUT_LINGUA)]


def _groups(setting: Setting) -> list[Table]:
    table = group_table(_arms(setting), setting)
    if table is None:
        raise InputError(f"the paper breaks {setting.config.suite.use} down by no group of tasks")
    return [table]


def _paired_tables(setting: Setting) -> list[Table]:
    table = paired_table(_arms(setting), setting)
    return [table] if table else []


def _windows(setting: Setting) -> list[Table]:
    windows = Windows(setting.scopes[0])
    shown = read_evaluation(setting, windows.name, windows.arms(setting), "budgets, training tasks")
    budgets = by_budget(shown)
    note = "The paper draws this figure and prints no numbers of it."
    return [add_notes(breakdown_table(budgets), note)] if budgets else []


def _transfers(setting: Setting) -> list[Experiment]:
    if not setting.others:
        raise InputError("transfer needs the same suite with other models: give their config with --other FILE")
    others = [UnseenTasks(("pair",), other=n, baselines=False) for n in range(len(setting.others))]
    return [*_adaptations(setting, ("pair",)), UnseenTasks(("pair",)), *others]


def _transfer(setting: Setting) -> list[Table]:
    names = [experiment.name for experiment in _transfers(setting) if isinstance(experiment, UnseenTasks)]
    across = by_model([load_evaluation(str(setting.path(name)), setting.directory, setting.runs) for name in names])
    known, printed = setting.known, setting.printed("transfer")
    if not (known and printed):
        return [breakdown_table(across)]
    rows: list[Row] = []
    for scope in setting.scopes:
        reference, pair = printed[scope]["reference"], printed[scope]["pair"]
        rows.append((scope, *(Number(of[key]) for key in ("acc", "pass3") for of in (reference, pair))))
    titles = {
        "acc": f"Acc {PROMPTING}",
        "acc_pair": "Acc pair",
        "pass3": f"Pass^3 {PROMPTING}",
        "pass3_pair": "Pass^3 pair",
    }
    heads = columns("scope", *titles, **titles)
    note = (
        f"{known.title}, {known.test} test tasks, three runs. Templates adapted with GPT-5.6 Luna, agent and compressor"
        " MiniMax-M3."
    )
    if none := printed.get("none"):
        note += f" Without compaction: Acc {none['acc']}, Pass^3 {none['pass3']}."
    return [breakdown_table(across), Table("The paper's transfer", heads, tuple(rows), (note, *beside_notes(setting)))]


def _released_runs(setting: Setting) -> list[Experiment]:
    if missing := [scope for scope in setting.scopes if scope not in setting.released]:
        raise InputError(
            f"released needs a template of scope {' and '.join(missing)}: give --template {missing[0]}=DIRECTORY, or"
            " --scope with the one you have"
        )
    return [UnseenTasks(("pair",), baselines=False, released=True)]


def _released_table(setting: Setting) -> list[Table]:
    chosen = UnseenTasks(("pair",), baselines=False, released=True)
    title = f"{setting.config.suite.use}, test tasks, pair as released"
    return [main_table(read_evaluation(setting, chosen.name, chosen.arms(setting), title), setting)]


LOCKED_METHODS = ("acon-ut", LOCKED, "pair")

TABLES = {
    table.name: table
    for table in (
        PaperTable("main", "all arms on the test tasks, in both scopes", _evaluations, _main),
        PaperTable("groups", "the same by difficulty, or by number of apps", _evaluations, _groups),
        PaperTable("paired", "PAIR against the better ACON, paired by task", _evaluations, _paired_tables),
        PaperTable(
            "tokens",
            "reliability against tokens per task",
            _evaluations,
            lambda setting: [token_table(_arms(setting), setting)],
        ),
        PaperTable(
            "locked",
            "ACON-UT with the section lock beside PAIR",
            lambda setting: _evaluations(setting, LOCKED_METHODS),
            lambda setting: [main_table(_arms(setting, LOCKED_METHODS, baselines=False), setting)],
        ),
        PaperTable(
            "cost",
            "boundaries, continuations and tokens of PAIR's adaptation",
            lambda setting: _adaptations(setting, ("pair",)),
            lambda setting: [cost_table(setting)],
        ),
        PaperTable(
            "windows",
            "what a smaller budget costs, on training tasks",
            lambda setting: [Windows(setting.scopes[0])],
            _windows,
        ),
        PaperTable(
            "boundaries",
            "how many compactions hurt, by nine draws in each arm",
            lambda setting: [Diagnostics(setting.scopes[0])],
            lambda setting: [effect_table(setting)],
        ),
        PaperTable(
            "draws",
            "how far fewer draws agree with nine",
            lambda setting: [Diagnostics(setting.scopes[0])],
            lambda setting: [draws_table(setting)],
        ),
        PaperTable(
            "allocations",
            "what halving finds, against three pairs for every boundary",
            lambda setting: [Diagnostics(setting.scopes[0], adapted=True)],
            lambda setting: [allocation_table(setting)],
        ),
        PaperTable(
            "thresholds",
            "what other thresholds would select",
            lambda setting: [Diagnostics(setting.scopes[0])],
            lambda setting: [threshold_table(setting)],
        ),
        PaperTable("released", "templates that others adapted, as PAIR (--template)", _released_runs, _released_table),
        PaperTable("transfer", "the adapted template with other models (--other)", _transfers, _transfer),
    )
}


def chosen_tables(name: str, setting: Setting) -> list[PaperTable]:
    """One table by name, or all that this config allows."""
    known = setting.known
    if name == "all":
        left_out = {*(() if setting.others else ("transfer",)), *(() if known and known.group else ("groups",))}
        left_out |= set() if setting.released else {"released"}
        return [table for table in TABLES.values() if table.name not in left_out]
    if name not in TABLES:
        raise InputError(f"unknown table {name!r}: choose {', '.join(TABLES)}, or all")
    return [TABLES[name]]
