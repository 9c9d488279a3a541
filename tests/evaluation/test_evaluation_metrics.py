"""Each metric beside its definition, worked out another way."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from statistics import fmean, pstdev

import pytest
from evaluation_support import arm

from recompact.evaluation.arm_runs import TaskRun, common, with_all_questions
from recompact.evaluation.metrics import (
    group_keys,
    group_tasks,
    measure,
    metric,
    pass_all,
    pass_any,
    peak_source,
    per_task,
)
from recompact.values.chat import Usage


@pytest.mark.parametrize("runs", range(1, 7))
def test_pass_k_is_the_mean_over_all_choices_of_k_runs(runs: int) -> None:
    for successes in range(runs + 1):
        outcomes = [n < successes for n in range(runs)]
        for k in range(1, runs + 1):
            chosen = list(combinations(outcomes, k))
            assert pass_all(successes, runs, k) == pytest.approx(fmean(all(c) for c in chosen))
            assert pass_any(successes, runs, k) == pytest.approx(fmean(any(c) for c in chosen))
        assert pass_all(successes, runs, runs) == (successes == runs)
        assert pass_any(successes, runs, runs) == (successes > 0)


def test_pass_k_is_unbiased() -> None:
    """The mean of the estimate over many sets of five runs is what three fresh runs would show."""
    chance = Random("unbiased")
    found = [pass_all(sum(chance.random() < 0.7 for _ in range(5)), 5, 3) for _ in range(20_000)]
    assert fmean(found) == pytest.approx(0.7**3, abs=0.01)


def test_the_figures_of_an_arm() -> None:
    made = arm("a", ["111", "110", "000", "101"])
    found = measure(made, [f"t{n:03d}" for n in range(4)], 3)
    assert found.means["acc"] == pytest.approx(7 / 12)
    assert found.by_run["acc"] == (0.75, 0.5, 0.5)
    # The sample standard deviation over runs, as the paper has it.
    assert found.spread["acc"] == pytest.approx(pstdev((0.75, 0.5, 0.5)) * (3 / 2) ** 0.5)
    assert found.means["pass^3"] == 0.25
    assert found.means["pass^2"] == pytest.approx((1 + 1 / 3 + 0 + 1 / 3) / 4)
    assert found.means["pass@2"] == pytest.approx(0.75)
    assert found.means["pass@3"] == 0.75
    assert found.means["steps"] == pytest.approx((10 + 11 + 12 + 10) / 4)
    assert found.means["peak"] == pytest.approx(2001.5)
    assert found.means["compactions"] == 1.0
    assert found.means["tokens"] == 135.0
    assert found.means["cached"] == 40.0
    assert found.means["tokens.compressor"] == 25.0
    assert found.usage["agent"] == {"input": 100.0, "cached": 40.0, "output": 10.0}
    assert found.endings == {"finished": 12}
    assert (found.tasks, found.runs, found.peak_source) == (4, 3, "provider")


def test_every_mean_is_the_mean_of_its_values_per_task() -> None:
    made = arm("a", ["1101", "0110", "0000"])
    tasks = ["t000", "t001", "t002"]
    values = per_task(made, tasks, 4, "own counter")
    assert measure(made, tasks, 4, "own counter").means == {key: fmean(v) for key, v in values.items()}
    assert set(values) >= {"acc", *(f"pass{kind}{k}" for kind in "^@" for k in (2, 3, 4)), "steps", "peak", "tokens"}
    assert values["peak"] == (1000.0, 1001.0, 1002.0)


def test_one_run_has_no_spread_and_no_reliability() -> None:
    found = measure(arm("a", ["1", "0"]), ["t000", "t001"], 1)
    assert found.spread == {}
    assert not any("^" in key or "@" in key for key in found.means)


def test_a_simulated_user_is_apart_from_the_total() -> None:
    made = arm("a", ["1"])
    row = replace(made.rows[0], usage={"agent": Usage(10, 1), "user": Usage(500, 5)})
    found = measure(replace(made, rows=(row,)), ["t000"], 1)
    assert (found.means["tokens"], found.means["tokens.user"]) == (11.0, 505.0)


def test_peaks_are_never_of_two_counters() -> None:
    with_provider, without = arm("a", ["11"]), arm("b", ["11"])
    without = replace(without, rows=tuple(replace(row, peak_reported=0) for row in without.rows))
    assert peak_source([with_provider]) == "provider"
    assert peak_source([with_provider, without]) == "own counter"
    # An episode that never began has no peak at all and decides nothing.
    broken = replace(with_provider, rows=(*with_provider.rows, TaskRun("t9", 0, False, 0)))
    assert peak_source([broken]) == "provider"


def test_question_answering_by_question() -> None:
    """Two tasks of two questions, two runs: EM^2 counts questions, not tasks."""
    made = arm("qa", ["11", "11"])
    exact = {("t000", 0): (1.0, 0.0), ("t000", 1): (1.0, 1.0), ("t001", 0): (0.0, 1.0), ("t001", 1): (0.0,)}
    rows = tuple(replace(row, em=exact[row.task, row.run], f1=(0.5,)) for row in made.rows)
    [filled] = with_all_questions([replace(made, rows=rows)])
    found = measure(filled, ["t000", "t001"], 2).means
    assert found["em"] == pytest.approx((1 + 1 + 0 + 1 + 0 + 1 + 0 + 0) / 8)
    assert found["em^2"] == pytest.approx(1 / 4)  # only the first question of the first task
    assert found["f1"] == 0.5
    assert (metric("em^2").title, metric("pass@3").title) == ("EM^2", "Pass@3")


def test_answers_that_are_missing_are_wrong_and_metrics_that_are_missing_are_absent() -> None:
    made = arm("qa", ["11"])
    short = {0: (1.0, 1.0, 1.0, 0.0), 1: (1.0, 1.0)}  # the second run came to two answers of four
    rows = tuple(replace(row, em=short[row.run]) for row in made.rows)
    [filled] = with_all_questions([replace(made, rows=rows)])
    found = measure(filled, ["t000"], 2)
    assert found.means["em"] == pytest.approx(5 / 8)
    assert found.by_run["em"] == (3 / 4, 2 / 4)
    assert fmean(found.by_run["em"]) == found.means["em"]  # one and the same figure, whichever way it is averaged
    assert found.means["em^2"] == pytest.approx(2 / 4)
    assert "f1" not in found.means  # nobody told it
    bare = tuple(replace(row, peak=0, peak_reported=0, compactions=None) for row in made.rows)
    assert not {"peak", "compactions"} & measure(replace(made, rows=bare), ["t000"], 2).means.keys()


def test_groups_and_what_arms_have_in_common() -> None:
    a, b = arm("a", ["111", "110", "101"]), arm("b", ["11", "1", "00", "11"])
    shared = common([a, b])
    assert (shared.runs, shared.tasks, shared.left_out) == (2, ("t000", "t002"), 2)
    assert group_tasks([a], ["t000", "t001", "t002"], "difficulty") == {"easy": ("t001",), "hard": ("t000", "t002")}
    assert common([a, b], ["t002", "t000"], 1).tasks == ("t000", "t002")  # in one order, whoever asks
    assert common([a, b], runs=3).runs == 2


def test_a_task_that_nobody_answered_counts_as_one_wrong_answer() -> None:
    made = arm("a", ["00", "11"])
    answers: dict[str, tuple[float, ...]] = {"t000": (), "t001": (1.0, 1.0)}
    found = measure(
        replace(made, rows=tuple(replace(row, em=answers[row.task]) for row in made.rows)), list(answers), 2
    )
    assert (found.means["em"], found.means["em^2"]) == (0.5, 0.5)


def test_groups_that_are_no_difficulty_come_first_by_name() -> None:
    kinds = ["hard", "zebra", "easy", "medium", "ape"]
    made = arm("a", ["1"] * 5)
    rows = tuple(replace(row, groups={"kind": kind}) for row, kind in zip(made.rows, kinds, strict=True))
    tasks = [row.task for row in rows]
    assert list(group_tasks([replace(made, rows=rows)], tasks, "kind")) == ["ape", "zebra", "easy", "medium", "hard"]
    numbers = tuple(replace(row, groups={"kind": n}) for row, n in zip(rows, ("10", "9", "2", "1", "0"), strict=True))
    assert list(group_tasks([replace(made, rows=numbers)], tasks, "kind")) == ["0", "1", "2", "9", "10"]


@pytest.mark.parametrize(
    ("key", "figure"), [("acc", 25.0), ("pass^3", 25.0), ("steps", 0.25), ("compactions", 0.25), ("peak", 0.00025)]
)
def test_a_figure_stands_in_the_unit_of_its_metric(key: str, figure: float) -> None:
    assert 0.25 * metric(key).scale == pytest.approx(figure)


@pytest.mark.parametrize(
    ("key", "title", "unit", "better", "digits"),
    [
        ("acc", "Acc", "points", "more", 1),
        ("pass^3", "Pass^3", "points", "more", 1),
        ("pass@2", "Pass@2", "points", "more", 1),
        ("em", "EM", "points", "more", 1),
        ("em^3", "EM^3", "points", "more", 1),
        ("f1", "F1", "points", "more", 1),
        ("steps", "Steps", "steps", "less", 1),
        ("peak", "Peak", "thousand tokens", "less", 2),
        ("compactions", "Compactions", "compactions", "less", 2),
        ("violations", "Violations", "violations", "less", 2),
        ("tokens", "Tokens", "thousand tokens", "less", 1),
        ("tokens.agent", "Tokens, agent", "thousand tokens", "less", 1),
        ("cached", "cached", "thousand tokens", "more", 1),
    ],
)
def test_how_a_metric_is_read(key: str, title: str, unit: str, better: str, digits: int) -> None:
    found = metric(key)
    assert (found.key, found.title, found.unit, found.better, found.digits) == (key, title, unit, better, digits)


def test_a_task_counts_by_its_first_runs() -> None:
    made = arm("a", ["011", "100"])
    assert per_task(made, ["t000", "t001"], 1, "provider")["acc"] == (0, 1)
    two = per_task(made, ["t001", "t000"], 2, "provider")
    assert (two["acc"], two["pass^2"], two["pass@2"]) == ((0.5, 0.5), (0, 0), (1, 1))
    assert "pass^3" not in two
    assert list(per_task(made, ["t000"], 3, "provider"))[:5] == ["acc", "pass^2", "pass^3", "pass@2", "pass@3"]


def test_a_metric_that_one_row_lacks_is_absent() -> None:
    made = arm("a", ["11"])
    first, second = made.rows

    def keys(*rows: TaskRun) -> set[str]:
        return set(measure(replace(made, rows=rows), ["t000"], 2, "provider").means)

    assert "compactions" not in keys(first, replace(second, compactions=None))
    assert "em" not in keys(replace(first, em=(1.0,)), second)
    assert "em" in keys(replace(first, em=(1.0,)), replace(second, em=(1.0,)))
    # A peak that one row lacks was reported for the others.
    assert "peak" in keys(first, replace(second, peak_reported=0))
    assert "peak" not in keys(replace(first, peak_reported=0), replace(second, peak_reported=0))
    assert measure(made, ["t000"], 2, "own counter").means["peak"] == 1000
    assert measure(made, ["t000"], 2, "provider").means["peak"] == 2000


def test_tokens_are_counted_where_the_agent_or_the_compressor_used_any() -> None:
    made = arm("a", ["1"])

    def means(usage: dict[str, Usage]) -> dict[str, float]:
        row = replace(made.rows[0], usage=usage)
        return dict(measure(replace(made, rows=(row,)), ["t000"], 1).means)

    assert "tokens" not in means({})
    assert "tokens" not in means({"user": Usage(5, 5)})
    assert "tokens" not in means({"agent": Usage(0, 0)})
    only = means({"compressor": Usage(5, 1, 2)})
    assert (only["tokens"], only["cached"], only["tokens.compressor"]) == (6, 2, 6)


def test_a_role_that_some_rows_lack_counts_as_nothing_there() -> None:
    made = arm("a", ["11"])
    first, second = made.rows
    rows = (
        replace(first, usage={"agent": Usage(10, 2)}),
        replace(second, usage={"agent": Usage(10, 2), "user": Usage(8, 0)}),
    )
    found = measure(replace(made, rows=rows), ["t000"], 2)
    assert found.means["tokens.user"] == 4
    assert found.usage["user"] == {"input": 4, "cached": 0, "output": 0}
    assert list(found.usage) == ["agent", "user"]


def test_without_tasks_there_are_no_figures() -> None:
    found = measure(arm("a", ["11"]), [], 2)
    assert (found.tasks, found.means, found.by_run, found.usage, found.endings) == (0, {}, {}, {}, {})


def test_endings_are_counted_the_most_frequent_first() -> None:
    made = arm("a", ["111"])
    rows = tuple(
        replace(row, ending=end) for row, end in zip(made.rows, ("refused", "finished", "finished"), strict=True)
    )
    found = measure(replace(made, rows=rows), ["t000"], 3)
    assert list(found.endings.items()) == [("finished", 2), ("refused", 1)]
    data = found.to_json()
    assert (data["tasks"], data["runs"], data["acc"], data["peak_source"]) == (1, 3, 1.0, "provider")
    assert "means" not in data


def test_an_answer_is_exact_only_if_it_is_wholly_right() -> None:
    made = arm("qa", ["11"])
    answers = {0: (1.0, 0.99), 1: (1.0, 1.0)}
    rows = tuple(replace(row, em=answers[row.run]) for row in made.rows)
    assert measure(replace(made, rows=rows), ["t000"], 2).means["em^2"] == 0.5


def test_peaks_of_arms_without_steps_are_our_own() -> None:
    assert peak_source([]) == "own counter"
    still = replace(arm("a", ["1"]), rows=(TaskRun("t", 0, False, 0, peak_reported=5),))
    assert peak_source([still]) == "own counter"


def test_tasks_are_grouped_by_every_key_that_a_row_has() -> None:
    made = arm("a", ["1", "1", "1"])
    first, second, third = made.rows
    rows = (replace(first, groups={"b": "2"}), replace(second, groups={"a": "x", "b": "10"}), replace(third, groups={}))
    mixed = replace(made, rows=rows)
    assert group_keys([mixed, arm("b", ["1"])]) == ("a", "b", "difficulty")
    assert group_tasks([mixed], ["t002", "t001", "t000"], "b") == {"2": ("t000",), "10": ("t001",)}
    assert group_tasks([mixed], ["t000"], "a") == {}
