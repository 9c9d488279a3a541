"""The paper's tables as a whole, from runs that a test has written down: our figures, and the paper's beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_support import arm
from made_up_runs import begin, collect, pair
from sentences import numbers_in

from recompact.engine.config import Config, SuiteConfig, VerifyConfig
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.reproduction import tables as tables_module
from recompact.evaluation.reproduction.experiments import DRAWS, Diagnostics, Setting, UnseenTasks
from recompact.evaluation.reproduction.paper import arm_figures
from recompact.evaluation.reproduction.results import (
    COUNTED,
    allocation_table,
    draws_table,
    effect_table,
    group_table,
    main_table,
    paired_table,
    threshold_table,
    token_table,
)
from recompact.evaluation.reproduction.tables import TABLES, WITHOUT_LINGUA, chosen_tables
from recompact.evaluation.summary import Evaluation, evaluation
from recompact.values.tables import Table, as_json


def of_suite(directory: Path, suite: str) -> Setting:
    return Setting(Config(suite=SuiteConfig(use=suite)), directory, ("history",))


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """One compaction loses a task, one does nothing, one costs eleven steps, in a task that failed anyway."""
    made = of_suite(tmp_path, "pocket")
    with Store.open(made.path(Diagnostics().name)) as store:
        begin(store, verified=VerifyConfig(allocation=f"uniform:{DRAWS}"))
        for task, value, after, more in (("a", 1.0, 0.0, 0), ("b", 1.0, 1.0, 0), ("c", 0.0, 1.0, 11)):
            collect(store, task, value=value)
            for number in range(DRAWS):
                pair(store, task, 1, number, (1.0, 5), (after, 5 + more))
    return made


def rows(table: Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = as_json(table)["rows"]
    return listed


def noted(table: Table, words: str) -> list[list[str]]:
    """The numbers of the notes that have these words."""
    return [numbers_in(note) for note in table.notes if words in note]


def test_what_compactions_did_is_counted_by_group_beside_the_papers_counts(setting: Setting) -> None:
    table = effect_table(setting)
    assert [[row["group"], *(row[key] for key in COUNTED), row["correlation"]] for row in rows(table)] == [
        ["all", 3, 3, 2, 1, 0, 1, 1, 1, 1, 2, 1, 2, -0.5],
        ["failed", 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1, None],
        ["successful", 2, 2, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, None],
        ["paper", 82, 197, None, 47, None, 11, 151, 12, 3, None, 34, None, 0.004],
        ["paper, failed", 15, 67, 43, 20, 4, None, None, None, None, None, 12, None, None],
        ["paper, successful", 67, 130, None, 27, None, None, None, None, None, None, 22, None, None],
    ]
    titles = {column.key: column.title for column in table.columns}
    assert [titles[key] for key in ("severe_hazard", "severe_burden", "twice_severe_burden")] == [
        "H >= 0.5",
        "B >= 5",
        "B >= 10",
    ]
    office = rows(effect_table(of_suite(setting.directory, "officebench")))
    assert [row["group"] for row in office] == ["all", "failed", "successful", "paper"]  # it prints no groups there
    mine = effect_table(of_suite(setting.directory, "mine.py:suite"))
    assert len(rows(mine)) == 3
    assert [each.key for each in mine.columns] == [each.key for each in table.columns]


@pytest.mark.parametrize(
    ("suite", "numbers"),
    [
        ("pocket", ["197", "133", "198"]),
        ("officebench", ["211", "214", "298"]),
        ("tau2-retail", ["200", "200", "204"]),
    ],
)
def test_the_scope_of_the_papers_boundaries_is_the_one_whose_number_is_nearest(
    setting: Setting, suite: str, numbers: list[str]
) -> None:
    (note,) = [note for note in effect_table(of_suite(setting.directory, suite)).notes if "table of costs" in note]
    assert numbers_in(note) == numbers
    assert f"fit scope {'prefix' if suite == 'pocket' else 'history'} " in note
    assert not noted(effect_table(of_suite(setting.directory, "mine.py:suite")), "table of costs")


def test_fewer_draws_stand_beside_the_ranges_that_the_paper_prints(setting: Setting) -> None:
    table = draws_table(setting)
    keys = ("hazard", "burden", "jaccard")
    assert [[row["draws"], *(row[f"paper_{key}"] for key in keys)] for row in rows(table)] == [
        [1, None, None, None],
        [3, "0.69 to 0.76", "0.81 to 0.89", "0.57 to 0.68"],
        [5, "0.81 to 0.86", "0.90 to 0.95", "0.69 to 0.78"],
        [9, None, None, None],
    ]
    assert all(row[key] == 1.0 for row in rows(table) for key in keys)  # draws that are all alike agree at once


def test_other_thresholds_select_others(setting: Setting) -> None:
    with Store.open(setting.path(Diagnostics().name)) as store:
        collect(store, "d")
        for number in range(DRAWS):
            pair(store, "d", 1, number, (1.0, 5), (2 / 3, 9))
    table = threshold_table(setting)
    assert [(row["threshold"], row["value"], row["selected"], round(row["jaccard"], 2)) for row in rows(table)] == [
        ("hazard", 0.3, 3, 0.67),
        *(("hazard", value, 2, 1.0) for value in (0.4, 0.5, 0.6, 0.7)),
        ("burden", 3, 3, 0.67),
        ("burden", 4, 3, 0.67),
        *(("burden", value, 2, 1.0) for value in (5, 6, 7)),
    ]
    assert noted(table, "The paper") == [["0.56", "0.83", "34"]]


def test_allocations_stand_beside_the_papers_where_it_prints_any(setting: Setting) -> None:
    keys = ("recall", "precision", "continuations")
    table = allocation_table(setting)
    listed = [
        [row["allocation"], *(row[key] for key in keys), *(row[f"paper_{key}"] for key in keys)] for row in rows(table)
    ]
    assert listed[:2] == [
        ["uniform 3", 1.0, 1.0, 6.0, 0.85, 0.64, 6.0],
        ["halving", 0.5, 1.0, 4.0, 0.82, 0.66, 3.5],
    ]
    assert [row[0].partition(", ")[2] for row in listed[2:]] == [
        "first two boundaries",
        "first loss of success",
        "random half",
        "half of the trajectories",
    ]
    assert all(row[4:] == [None] * 3 for row in listed[2:])
    assert not noted(table, "Nothing is selected")


def arms(scope: str = "history") -> Evaluation:
    outcomes = {
        "none": ["111", "110", "101"],
        "prompting": ["110", "100", "101"],
        "acon-ut": ["100", "100", "101"],
        "acon-utco": ["111", "100", "001"],
        "pair": ["111", "110", "101"],
    }
    made = [arm(name, 3 * own, None if name == "none" else scope) for name, own in outcomes.items()]
    return evaluation("e", made)


def test_each_arm_stands_beside_the_papers(tmp_path: Path) -> None:
    table = main_table(arms(), of_suite(tmp_path, "pocket"))
    for row in rows(table):
        printed = arm_figures("appworld", row["arm"], row["scope"])
        for key in ("acc", "pass^3", "steps", "peak"):
            assert row[f"paper_{key}"] == printed[key], (row["arm"], key)
        assert row["paper_acc_sd"] == printed["sd"]
    assert [round(row["acc"], 1) for row in rows(table)] == [77.8, 55.6, 44.4, 55.6, 77.8]
    assert "paper_tokens" not in [each.key for each in table.columns]  # it prints none here
    assert noted(table, "paper: ")[0][0] == "168"
    plain = main_table(arms(), of_suite(tmp_path, "mine.py:suite"))
    assert not [each.key for each in plain.columns if each.key.startswith("paper_")]


def test_groups_stand_beside_the_papers_by_its_own_names(tmp_path: Path) -> None:
    table = group_table(arms(), of_suite(tmp_path, "pocket"))
    assert table is not None
    listed = rows(table)
    assert [(row["value"], row["tasks"]) for row in listed] == [("easy", 4)] * 5 + [("hard", 5)] * 5
    for row in listed:
        printed = arm_figures("appworld", row["arm"], row["scope"], row["value"])
        assert (row["paper_acc"], row["paper_pass^3"]) == (printed["acc"], printed["pass^3"])
    assert group_table(arms(), of_suite(tmp_path, "tau2-retail")) is None


def test_tokens_stand_beside_the_few_that_the_paper_prints(tmp_path: Path) -> None:
    table = token_table(arms("prefix"), of_suite(tmp_path, "officebench"))
    assert [each.key for each in table.columns] == ["arm", "scope", "pass^3", "tokens", "paper_tokens"]
    assert [row["paper_tokens"] for row in rows(table)] == [None, 62.8, None, None, 48.6]
    assert table.bold == ""


def test_pair_stands_against_the_better_acon_beside_the_papers_comparison(tmp_path: Path) -> None:
    table = paired_table(arms(), of_suite(tmp_path, "pocket"))
    assert table is not None
    (row,) = rows(table)
    assert (row["scope"], row["against"], row["wins"], row["losses"], row["p"]) == ("history", "acon-utco", 0, 0, 1.0)
    assert (row["pass^3"], round(row["acc"], 1)) == (0.0, 22.2)
    keys = ("paper_pass^3", "paper_pass^3_low", "paper_pass^3_high", "paper_acc", "paper_acc_low", "paper_acc_high")
    assert [row[key] for key in keys] == [8.9, 3.0, 15.5, 3.6, 0.8, 6.3]
    assert row["paper_p"] == "22/7 (0.008), against acon-ut"
    assert not noted(table, "Added up")  # over one scope there is nothing to add up
    assert paired_table(evaluation("e", [arm("pair", ["1"], "history")]), of_suite(tmp_path, "pocket")) is None


def test_wins_are_added_up_over_two_scopes(tmp_path: Path) -> None:
    made = [
        arm(name, own, scope)
        for scope in ("history", "prefix")
        for name, own in (("acon-ut", ["000", "111", "000"]), ("pair", ["111", "000", "111"]))
    ]
    setting = Setting(Config(suite=SuiteConfig(use="pocket")), tmp_path, ("history", "prefix"))
    table = paired_table(evaluation("e", made), setting)
    assert table is not None
    assert [(row["wins"], row["losses"]) for row in rows(table)] == [(2, 1), (2, 1)]
    assert noted(table, "Added up") == [["4", "2", "75", "34"]]


@pytest.mark.parametrize("installed", [True, False])
def test_the_main_table_says_that_an_arm_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    titles: list[str] = []

    def read(setting: Setting, run: str, chosen: Any, title: str) -> Evaluation:
        titles.append(title)
        return arms()

    monkeypatch.setattr(tables_module, "read_evaluation", read)
    monkeypatch.setattr(tables_module, "lingua_installed", lambda: installed)
    monkeypatch.setattr(UnseenTasks, "arms", lambda self, setting: ())
    setting = of_suite(tmp_path, "pocket")
    (table,) = TABLES["main"].tables(setting)
    assert (WITHOUT_LINGUA in table.notes) is not installed
    (locked,) = TABLES["locked"].tables(setting)
    assert [title.startswith("pocket, test tasks") for title in titles] == [True, True]
    assert len(titles[1]) > len(titles[0])  # and that it is about the lock
    assert rows(locked) == rows(table)
    (groups,) = TABLES["groups"].tables(setting)
    assert [row["value"] for row in rows(groups)] == ["easy"] * 5 + ["hard"] * 5
    assert [len(TABLES[name].tables(setting)) for name in ("paired", "tokens")] == [1, 1]
    with pytest.raises(InputError, match="tau2-retail"):
        TABLES["groups"].tables(of_suite(tmp_path, "tau2-retail"))
    monkeypatch.setattr(tables_module, "read_evaluation", lambda *_: evaluation("e", [arm("none", ["1"])]))
    assert TABLES["paired"].tables(setting) == []


def test_windows_are_a_table_only_where_budgets_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [replace(arm(f"prompting@{size}", ["1", "0"], "history"), settings={"budget": size}) for size in (100, 200)]
    monkeypatch.setattr(tables_module, "read_evaluation", lambda *_: evaluation("e", [arm("none", ["1", "1"]), *made]))
    setting = of_suite(tmp_path, "pocket")
    (table,) = TABLES["windows"].tables(setting)
    assert any("no numbers" in note for note in table.notes)
    monkeypatch.setattr(tables_module, "read_evaluation", lambda *_: evaluation("e", [arm("none", ["1", "1"])]))
    assert TABLES["windows"].tables(setting) == []


@pytest.mark.parametrize(
    ("suite", "groups"), [("pocket", True), ("officebench", True), ("tau2-retail", False), ("mine.py:suite", False)]
)
def test_all_tables_are_those_that_a_config_allows(tmp_path: Path, suite: str, groups: bool) -> None:
    setting = of_suite(tmp_path, suite)

    def left_out(made: Setting) -> set[str]:
        return set(TABLES) - {table.name for table in chosen_tables("all", made)}

    own = set() if groups else {"groups"}
    assert left_out(setting) == {"transfer", "released", *own}
    assert left_out(replace(setting, others=(Config(),))) == {"released", *own}
    assert left_out(replace(setting, released={"history": tmp_path})) == {"transfer", *own}
    assert [table.name for table in chosen_tables("groups", setting)] == ["groups"]
