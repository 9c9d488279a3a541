"""What stands below the tables of an evaluation, and what few tasks may not claim."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation_support import arm

from recompact.evaluation.arm_runs import ArmRuns, common
from recompact.evaluation.paired import compare_many
from recompact.evaluation.summary import (
    arm_table,
    comparison_table,
    difference_table,
    evaluation,
    group_comparison_table,
    group_comparisons,
    group_table,
    notes,
    to_json,
)
from recompact.tables import Number, render

GOOD = arm("prompting", ["111"] * 6, "history")
BAD = arm("pair", ["000"] * 6, "history", steps=20)


def first_tasks(made: ArmRuns, tasks: int) -> ArmRuns:
    return replace(made, rows=tuple(row for row in made.rows if int(row.task[1:]) < tasks))


def test_a_difference_over_fewer_than_six_tasks_is_not_marked() -> None:
    """Of one task every resample is the same: that says nothing of another task."""
    for tasks, marked in ((1, False), (5, False), (6, True)):
        one, other = (first_tasks(made, tasks) for made in (BAD, GOOD))
        found = difference_table(evaluation("e", [one, other]))
        assert found is not None
        table, (comparison,) = found
        assert ("]*" in render(table, "terminal")) is marked
        assert ("]*" in render(comparison_table(comparison), "terminal")) is marked
        assert any(d["excludes_zero"] for d in comparison.to_json()["differences"]) is marked
        assert any("fewer than 6 tasks" in said for said in notes(evaluation("e", [one, other]))) is not marked
        assert "acc_low" in render(table, "csv").splitlines()[0]  # the columns are the same, however few tasks


def test_groups_say_how_small_they_are() -> None:
    shown = evaluation("e", [GOOD, BAD])
    shared = common([GOOD, BAD])
    compared = group_comparison_table(group_comparisons(GOOD, BAD, shared, "difficulty"), "difficulty")
    assert [row[0] for row in compared.rows] == ["easy", "hard"]
    for table in (group_table(shown, "difficulty"), compared):
        assert "Few tasks in a group say little: the smallest has 3." in table.notes
        assert "]*" not in render(table, "terminal")
    many = [arm("a", ["111"] * 40), arm("b", ["110"] * 40)]
    assert group_table(evaluation("e", many), "difficulty").notes == ()


def test_an_arm_of_which_nothing_is_finished_is_named() -> None:
    shown = evaluation("e", [GOOD, replace(BAD, rows=())])
    assert [made.label for made in shown.arms] == ["prompting/history"]
    assert "Nothing is finished yet of pair/history." in notes(shown)
    assert to_json(shown)["not_begun"] == ["pair/history"]


def test_trajectories_whose_environment_broke_are_told() -> None:
    broken = replace(BAD, rows=tuple(replace(r, ending="environment error") if r.run == 1 else r for r in BAD.rows))
    (said,) = [note for note in notes(evaluation("e", [GOOD, broken])) if "broke" in note]
    assert said.startswith("In 6 trajectories the environment broke; they count as failures.")
    assert "evaluate --retry" in said
    # What is not in the figures is not told: the first run alone is sound.
    assert not any("broke" in note for note in notes(evaluation("e", [GOOD, broken], runs=1)))
    assert not any("broke" in note for note in notes(evaluation("e", [GOOD, BAD])))


def test_one_arm_under_two_names_is_told() -> None:
    twins = [replace(GOOD, name=name, settings={"key": "k", "kind": "prompted"}) for name in ("a", "b")]
    (said,) = [note for note in notes(evaluation("e", [*twins, BAD])) if "names" in note]
    assert said == "a/history and b/history are one arm under 2 names, with the same trajectories."


def test_question_answering_has_its_differences() -> None:
    one, other = (
        replace(made, rows=tuple(replace(row, em=(value,), f1=(value,)) for row in made.rows))
        for made, value in ((GOOD, 1.0), (BAD, 0.0))
    )
    found = difference_table(evaluation("e", [one, other]))
    assert found is not None
    keys = [column.key for column in found[0].columns]
    assert keys[2:7] == ["acc", "pass^3", "em", "em^3", "f1"]


def test_one_task_is_not_tasks() -> None:
    shown = evaluation("e", [first_tasks(GOOD, 1), BAD], runs=1)
    assert notes(shown)[0].startswith("1 task, 1 run.")
    assert "5 tasks are left out: not every arm has finished them in every run." in notes(shown)
    assert arm_table(shown).notes == notes(shown)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_a_spread_across_runs_is_spoken_of_where_there_is_one(runs: int) -> None:
    """The note and the metrics agree on it: two runs have a standard deviation, one has none."""
    shown = evaluation("e", [arm("prompting", ["110"[:runs]] * 3 + ["0" * runs] * 3, "history")])
    assert shown.shared.runs == runs
    assert ("± standard deviation across runs" in notes(shown)[0]) == (runs > 1)
    assert bool(shown.metrics(shown.arms[0]).spread) == (runs > 1)


def test_wins_and_losses_of_several_scopes_are_told_but_not_tested() -> None:
    """The paper's last row of its paired tests: the tasks are the same, so their sum has no p."""
    pairs = [arm("prompting", ["111", "110", "111", "000", "111", "111"], scope) for scope in ("history", "prefix")] + [
        arm("pair", ["111", "111", "000", "111", "111", "111"], scope) for scope in ("history", "prefix")
    ]
    found = difference_table(evaluation("e", [*pairs, arm("fifo", ["000"] * 6)]))
    assert found is not None
    (said,) = [note for note in found[0].notes if "together" in note]
    assert (
        said == "pair under its 2 settings together: 4 wins, 2 losses. The tasks are the same ones, so this is no test."
    )


def test_steps_and_tokens_also_in_per_cent() -> None:
    """As the paper tells them: so many per cent fewer tokens, with an interval, both arms resampled together."""
    slow = replace(GOOD, rows=tuple(replace(row, steps=2 * row.steps) for row in GOOD.rows))
    (made,) = compare_many([(slow, GOOD)], common([slow, GOOD]), relative=True)
    found = {d.metric: d.relative for d in made.differences}
    assert found["acc"] is None
    steps = found["steps"]
    assert steps is not None
    assert (steps.value, steps.low, steps.high) == pytest.approx((1, 1, 1))
    assert "+100.0 [+100.0, +100.0]*" in render(comparison_table(made), "terminal")
    assert made.to_json()["differences"][-1]["relative"] is not None
    (plain,) = compare_many([(slow, GOOD)], common([slow, GOOD]))
    assert all(d.relative is None for d in plain.differences)
    assert "per cent" not in render(comparison_table(plain), "terminal")


def test_where_no_peak_was_counted_none_is_spoken_of() -> None:
    bare = replace(GOOD, rows=tuple(replace(r, peak=0, peak_reported=0, compactions=None, usage={}) for r in GOOD.rows))
    table = arm_table(evaluation("e", [bare]))
    assert [column.key for column in table.columns] == ["arm", "scope", "acc", "pass^3", "pass@3", "steps"]
    assert not any("Peak" in note or "Tokens" in note for note in table.notes)
    beside = arm_table(evaluation("e", [bare, BAD]))  # one that has them keeps them
    keys = [column.key for column in beside.columns]
    assert beside.rows[0][keys.index("compactions")] is None
    assert isinstance(beside.rows[1][keys.index("peak")], Number)
