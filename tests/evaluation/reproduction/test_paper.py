"""The paper's figures as data: compared with the paper itself, where it is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from needs import PAPER, require

from recompact.evaluation.reproduction.paper import arm_figures, benchmark, printed_range, test_split as split_of

ROOT = Path(__file__).parents[3]
NAMES = {
    "none": "No [Cc]ompression",
    "fifo": "FIFO",
    "llmlingua2": "LLMLingua-2",
    "prompting": "Prompting",
    "acon-ut": "ACON-UT",
    "acon-utco": "ACON-UTCO",
    "acon-ut-locked": r"ACON-UT \(Locked\)",
    "pair": r"PAIR\S* \(Ours\)",
}
TABLES = {
    "appworld": ("tab:appworld_gpt_luna", ("acc", "sd", "pass^3", "steps", "peak")),
    "officebench": ("tab:4_officebench_main", ("acc", "sd", "pass^3", "steps", "peak")),
    "tau2-retail": ("tab:3_qa_main", ("acc", "sd", "pass^3", "steps", "peak")),
    "qa": ("tab:qa_main", ("em", "sd", "em^3", "f1", "steps", "peak", "tokens")),
}


def paper() -> str:
    require("paper")
    return min(PAPER.glob("*.txt")).read_text(encoding="utf-8")


def printed_rows(text: str, label: str, arm: str) -> list[list[float]]:
    """The numbers of an arm's rows in a table of the paper, in the order of the scopes."""
    start = text.index(f"\\label{{{label}}}")
    body = text[text.index(r"\begin{tabular}", start) : text.index(r"\end{tabular}", start)]
    rows = []
    for row in body.split(r"\\"):
        plain = re.sub(r"\\(rowcolor\{[^}]*\}|midrule(\[[^]]*\])?|std|textbf|textit|texttt)", "", row)
        plain = re.sub(r"[{}$\s]+", " ", plain).strip()
        if re.match(rf"{NAMES[arm]} ?&", plain):
            rows.append([float(n) for n in re.findall(r"(?<![\w-])\d+\.\d+", plain.partition("&")[2])])
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_the_arms_are_those_that_the_paper_prints(name: str) -> None:
    text = paper()
    label, keys = TABLES[name]
    compared = 0
    for arm in NAMES:
        rows = printed_rows(text, label, arm)
        for row, scope in zip(rows, ("history", "prefix") if len(rows) == 2 else [None] * len(rows), strict=True):
            figures = arm_figures(name, arm, scope)
            assert [figures[key] for key in keys] == row[: len(keys)], (arm, scope)
            compared += 1
    assert compared == 11


def test_the_locked_variant_has_a_table_of_its_own() -> None:
    rows = printed_rows(paper(), "tab:template-controlled-acon", "acon-ut-locked")
    ours = [arm_figures("appworld", "acon-ut-locked", scope) for scope in ("history", "prefix")]
    assert [[o[key] for key in ("acc", "sd", "pass^3", "steps", "peak")] for o in ours] == rows


def test_groups_average_to_the_whole() -> None:
    sizes = {"appworld": {"easy": 57, "medium": 48, "hard": 63}, "officebench": {"1-APP": 42, "2-APP": 22, "3-APP": 31}}
    for name, groups in sizes.items():
        for arm in ("fifo", "prompting", "pair"):
            whole = arm_figures(name, arm, "history")["acc"]
            parts = [(n, arm_figures(name, arm, "history", group)["acc"]) for group, n in groups.items()]
            assert sum(n * acc for n, acc in parts) / sum(groups.values()) == pytest.approx(whole, abs=0.15)


def test_costs_follow_from_halving() -> None:
    for name in ("appworld", "officebench", "tau2-retail"):
        known = benchmark(name)
        assert known is not None
        for scope in ("history", "prefix"):
            cost = known.of("cost", scope)
            assert cost["continuations"] == pytest.approx(3.5 * cost["boundaries"], abs=3)


def test_a_suite_of_ones_own_has_no_figures() -> None:
    assert benchmark("mine.py:suite") is None
    assert benchmark("draws") is None  # a part of the file, not a benchmark
    assert arm_figures("appworld", "mine", "history") == {}
    assert printed_range("draws", "1", "hazard") is None


def test_splits_and_groups_are_called_as_the_suites_call_them() -> None:
    assert [split_of(name) for name in ("appworld", "officebench", "pocket", "mine.py:suite")] == [
        "test_normal",
        "test",
        "test",
        "test",
    ]
    appworld, office = benchmark("appworld"), benchmark("officebench")
    assert appworld is not None
    assert office is not None
    assert [appworld.printed_group(value) for value in ("1", "2", "3", "hard")] == ["easy", "medium", "hard", "hard"]
    assert office.printed_group("2") == "2-APP"


def test_pocket_stands_beside_appworld() -> None:
    known = benchmark("pocket")
    assert known is not None
    assert known.name == "appworld"
