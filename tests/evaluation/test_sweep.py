"""Arms under several budgets: which belong together, what their figures are, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Any

import pytest
from evaluation_support import arm

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.intervals import RELATIVE, estimates, none_of
from recompact.evaluation.summary import STAR, arm_table, difference_table, evaluation, references
from recompact.evaluation.sweep import figure_estimates, reliability, sweep, sweep_keys, sweep_table
from recompact.values.stats import Estimate
from recompact.values.tables import Number, Table, as_json, render


def at(made: ArmRuns, budget: int | None, kind: str = "prompted") -> ArmRuns:
    return replace(made, settings={"kind": kind, "budget": budget})


def with_steps(made: ArmRuns, steps: Mapping[str, int]) -> ArmRuns:
    return replace(made, rows=tuple(replace(row, steps=steps[row.task]) for row in made.rows))


NONE = at(arm("none", ["111", "110", "100", "111"]), None, "none")
SMALL = at(arm("prompting@1024", ["100", "000", "100", "111"], "history", steps=20), 1024)
LARGE = at(arm("prompting@4096", ["111", "010", "110", "111"], "history", steps=12), 4096)
MIDDLE = at(arm("prompting", ["110", "010", "110", "111"], "history", steps=15), 2048)  # the config's own budget
OTHER = at(arm("pair@1024", ["111", "110", "100", "111"], "history"), 1024)


def test_arms_of_one_name_and_scope_are_one_line() -> None:
    prefix = [replace(made, scope="prefix") for made in (LARGE, SMALL)]
    again = replace(MIDDLE, name="prompting@2048")  # the same under another name
    found = sweep(evaluation("e", [NONE, LARGE, SMALL, MIDDLE, again, OTHER, *prefix]))
    assert found is not None
    assert [line.label for line in found.lines] == ["prompting/history", "prompting/prefix"]
    assert [point.budget for point in found.lines[0].points] == [1024, 2048, 4096]
    assert [point.budget for point in found.lines[1].points] == [1024, 4096]
    assert (found.tasks, found.runs) == (4, 3)
    figures = found.lines[0].points[0].figures
    assert figures["acc"].value == pytest.approx(5 / 12)
    assert figures["pass^3"].value == pytest.approx(1 / 4)
    assert figures["pass@3"].value == pytest.approx(3 / 4)
    assert found.none is not None
    assert found.none["acc"].value == pytest.approx(9 / 12)
    assert found.lines[0].points[0].compactions == 1  # runs 0, 1 and 2 have as many
    assert found.to_json()["lines"][0]["points"][0]["figures"]["pass^3"]["value"] == 0.25


def test_one_budget_is_no_sweep() -> None:
    assert sweep(evaluation("e", [NONE, SMALL, OTHER])) is None
    assert sweep(evaluation("e", [])) is None
    released = [replace(made, settings={}) for made in (SMALL, LARGE)]
    assert sweep(evaluation("e", released)) is None


def test_a_single_run_has_no_reliability_and_without_none_there_is_nothing_to_measure_by() -> None:
    found = sweep(evaluation("e", [SMALL, LARGE], runs=1))
    assert found is not None
    assert found.none is None
    assert list(found.lines[0].points[0].figures) == ["acc", "steps"]
    assert [column.key for column in sweep_table(found).columns][-2:] == ["acc", "steps"]


def test_steps_beside_none_are_resampled_together() -> None:
    tasks = {f"t{n:03d}": 5 + 7 * n for n in range(4)}
    whole = with_steps(NONE, tasks)
    twice = with_steps(SMALL, {task: 2 * steps for task, steps in tasks.items()})
    mixed = with_steps(LARGE, {task: steps + Random(task).randint(0, 9) for task, steps in tasks.items()})
    found = estimates(evaluation("e", [whole, twice, mixed]), ("acc", "steps"))
    assert (found["none"][RELATIVE].value, found["none"][RELATIVE].low, found["none"][RELATIVE].high) == (0, 0, 0)
    # Whatever tasks are drawn, it is twice as many: drawn apart, the interval would be wide.
    double = found["prompting@1024/history"][RELATIVE]
    assert (double.value, double.low, double.high) == (1, 1, 1)
    third = found["prompting@4096/history"][RELATIVE]
    ratios = resampled_ratios(mixed, whole)
    assert third.low == pytest.approx(ratios[250], abs=0.02)
    assert third.high == pytest.approx(ratios[9749], abs=0.02)
    assert third.low < third.value < third.high


def resampled_ratios(one: ArmRuns, other: ArmRuns) -> list[float]:
    """The same by a loop that shares nothing with the code."""
    chance = Random("another generator")
    mean = [{row.task: row.steps for row in made.rows} for made in (one, other)]
    tasks = sorted(mean[0])
    found = []
    for _ in range(10_000):
        drawn = [chance.choice(tasks) for _ in tasks]
        found.append(fmean(mean[0][t] for t in drawn) / fmean(mean[1][t] for t in drawn) - 1)
    return sorted(found)


def test_the_table_by_budget() -> None:
    found = sweep(evaluation("e", [NONE, SMALL, LARGE]))
    assert found is not None
    table = sweep_table(found)
    assert [row[2] for row in table.rows] == [None, 1024, 4096]
    text = render(table, "terminal")
    assert "1,024" in text
    assert "41.7 [" in text
    cell = table.rows[1][-1]
    assert isinstance(cell, Number)
    assert cell.text.startswith("+93.0 [")  # 20.75 steps beside 10.75 (t000 to t003 add 0, 1, 2, 0)
    assert "*" not in cell.text  # four tasks
    acc = table.rows[1][4]
    assert isinstance(acc, Number)
    assert "*" not in acc.text  # that a share is not zero is no finding
    for tasks, marked in ((19, 0), (20, 2)):
        whole, half = (
            at(arm("none", ["111"] * tasks), None, "none"),
            [at(arm(f"a@{n}", ["111"] * tasks, steps=n), n) for n in (20, 40)],
        )
        enough = sweep(evaluation("e", [whole, *half]))
        assert enough is not None
        assert [point.differ for point in enough.lines[0].points] == [tasks, tasks]
        assert render(sweep_table(enough), "terminal").count("]*") == marked
        assert as_json(sweep_table(enough))["rows"][0]["relative_steps"] is None


def test_each_arm_is_measured_against_the_reference_of_its_budget() -> None:
    shown = evaluation("e", [NONE, SMALL, LARGE, OTHER, at(arm("fifo@4096", ["000"] * 4), 4096, "fifo")])
    pairs = {a.label: b.label for a, b in references(shown)}
    assert pairs == {
        "none": "prompting@1024/history",
        "pair@1024/history": "prompting@1024/history",
        "fifo@4096": "prompting@4096/history",
    }
    exact = evaluation("e", [NONE, MIDDLE, SMALL])
    assert {a.label: b.label for a, b in references(exact)} == {
        "none": "prompting/history",
        "prompting@1024/history": "prompting/history",
    }
    assert difference_table(shown) is not None


def bold(table: Table) -> dict[str, set[str]]:
    return {
        f"{row[0]}/{row[1]}": {
            column.key
            for column, cell in zip(table.columns, row, strict=True)
            if isinstance(cell, Number) and cell.best
        }
        for row in table.rows
    }


def test_the_best_of_those_that_compress_are_bold() -> None:
    one = at(arm("prompting", ["110", "010", "110", "111"], "history", steps=15), 2048)
    two = at(arm("pair", ["111", "110", "000", "111"], "history", steps=12), 2048)
    fifo = at(arm("fifo", ["000", "000", "000", "111"], steps=9), 2048, "fifo")
    alone = at(arm("pair", ["111"] * 4, "prefix", steps=3), 2048)
    elsewhere = at(arm("pair@512", ["111"] * 4, "history", steps=1), 512)
    table = arm_table(evaluation("e", [NONE, one, two, fifo]))
    found = bold(table)
    assert found["none/None"] == set()  # it does not compete
    assert found["pair/history"] >= {"acc", "pass^3"}
    assert "acc" in found["prompting/history"]  # eight of twelve both
    assert "pass@3" in found["prompting/history"]
    assert found["fifo/None"] >= {"steps", "peak", "tokens"}
    assert "peak" in found["pair/history"]  # ties stand together
    assert not {"compactions", "cached"} & set().union(*found.values())
    other = bold(arm_table(evaluation("e", [NONE, one, two, alone, elsewhere])))
    assert other["pair/history"] >= {"steps", "pass^3"}  # another scope or budget takes nothing from it
    assert other["pair/prefix"] == other["pair@512/history"] == set()  # nobody to be better than
    markdown, latex = render(table, "markdown"), render(table, "latex")
    assert "**66.7 ± " in markdown
    assert r"$\mathbf{66.7}${\scriptsize" in latex
    for text in (markdown, latex):
        assert "Bold: the best of the arms" in text
    assert "Bold" not in render(table, "terminal")
    plain = arm_table(evaluation("e", [NONE, one]))
    assert "Bold" not in render(plain, "markdown")


def test_a_difference_is_bold_by_its_interval_alone() -> None:
    def cell(**more: Any) -> str:
        return Number(5.0, 1, interval=(1.0, 9.0), **more).text

    assert cell(signed=True) == "+5.0 [+1.0, +9.0]*"
    assert cell() == "5.0 [1.0, 9.0]"


def test_what_is_said_below_the_table_by_budget() -> None:
    size = "4 tasks, 3 runs. In brackets: 95 % intervals (bootstrap over tasks, 10,000 resamples). Budgets in tokens."
    found = sweep(evaluation("e", [NONE, SMALL, LARGE]))
    assert found is not None
    table = sweep_table(found)
    assert table.notes == (size, f"Δ Steps: steps beside those of `none`, in per cent. {STAR}")
    assert [column.title for column in table.columns] == [
        *("arm", "scope", "budget", "Compactions", "Acc", "Pass^3", "Pass@3", "Steps", "Δ Steps, %"),
    ]
    assert table.rows[0][:4] == ("none", None, None, None)
    assert table.rows[0][-1] is None
    assert isinstance(table.rows[0][-2], Number)
    assert table.rows[1][:3] == ("prompting", "history", 1024)
    compactions = table.rows[1][3]
    assert isinstance(compactions, Number)
    assert compactions.text == "1.00"
    alone = sweep(evaluation("e", [SMALL, LARGE]))
    assert alone is not None
    table = sweep_table(alone)
    assert table.notes == (size,)  # nothing to measure steps by
    assert [row[0] for row in table.rows] == ["prompting", "prompting"]
    assert "Δ Steps, %" not in [column.title for column in table.columns]


def test_compactions_that_nobody_counted_are_not_shown() -> None:
    unknown = [replace(made, rows=tuple(replace(r, compactions=None) for r in made.rows)) for made in (SMALL, LARGE)]
    found = sweep(evaluation("e", unknown))
    assert found is not None
    assert [point.compactions for point in found.lines[0].points] == [None, None]
    assert [row[3] for row in sweep_table(found).rows] == [None, None]


@pytest.mark.parametrize(("runs", "keys"), [(1, ("acc", "steps")), (2, ("acc", "pass^2", "pass@2", "steps"))])
def test_the_metrics_of_a_sweep(runs: int, keys: tuple[str, ...]) -> None:
    assert sweep_keys(runs) == keys
    assert reliability(runs) == ("pass^2" if runs > 1 else "acc")


def test_the_figures_need_those_estimates_and_no_others() -> None:
    swept = figure_estimates(evaluation("e", [NONE, SMALL, LARGE]))
    assert set(swept["none"]) == {"acc", "pass^3", "pass@3", "steps", "tokens", RELATIVE}
    plain = figure_estimates(evaluation("e", [NONE, SMALL, OTHER]))
    assert set(plain["none"]) == {"acc", "pass^3", "tokens"}
    once = figure_estimates(evaluation("e", [NONE, SMALL, OTHER], runs=1))
    assert set(once["none"]) == {"acc", "tokens"}


def test_estimates_at_hand_are_used() -> None:
    shown = evaluation("e", [NONE, SMALL, LARGE])
    known = {label: {"acc": Estimate(0.5, 0.4, 0.6), "tokens": Estimate(1, 1, 1)} for label in figure_estimates(shown)}
    found = sweep(shown, known)
    assert found is not None
    assert found.lines[0].points[0].figures == {"acc": Estimate(0.5, 0.4, 0.6)}
    assert found.none == {"acc": Estimate(0.5, 0.4, 0.6)}


def test_without_shared_tasks_there_are_no_estimates() -> None:
    apart = evaluation("e", [SMALL, LARGE], [])
    assert estimates(apart, ("acc",)) == {"prompting@1024/history": {}, "prompting@4096/history": {}}
    assert sweep(apart) is None


def test_estimates_are_the_means_with_their_intervals() -> None:
    found = estimates(evaluation("e", [SMALL, LARGE]), ("acc", "tokens"), resamples=50)
    small = found["prompting@1024/history"]
    assert set(small) == {"acc", "tokens"}
    assert small["acc"].value == pytest.approx(5 / 12)
    assert small["acc"].low < small["acc"].value < small["acc"].high
    assert (small["tokens"].value, small["tokens"].low, small["tokens"].high) == (135, 135, 135)
    assert RELATIVE not in small
    assert estimates(evaluation("e", [SMALL]), ("acc",), resamples=50, seed=1) != estimates(
        evaluation("e", [SMALL]), ("acc",), resamples=50, seed=2
    )


def test_steps_beside_none_need_steps_of_none() -> None:
    with_none = evaluation("e", [SMALL, NONE])
    assert RELATIVE not in estimates(with_none, ("acc",), resamples=20)["none"]  # steps were not asked for
    assert RELATIVE in estimates(with_none, ("steps",), resamples=20)["none"]
    still = with_steps(NONE, dict.fromkeys(("t000", "t001", "t002", "t003"), 0))
    assert RELATIVE not in estimates(evaluation("e", [SMALL, still]), ("steps",), resamples=20)["none"]
    # Where only some tasks have none, a resample may be of those alone.
    some = with_steps(NONE, {"t000": 0, "t001": 0, "t002": 0, "t003": 5})
    assert RELATIVE not in estimates(evaluation("e", [SMALL, some]), ("steps",), resamples=200)["none"]


def test_the_arm_that_does_not_compress() -> None:
    found = none_of(evaluation("e", [SMALL, NONE, LARGE]))
    assert found is not None
    assert found.name == "none"
    assert none_of(evaluation("e", [SMALL, LARGE])) is None
