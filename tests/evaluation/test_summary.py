"""What stands below the tables of an evaluation, and what few tasks may not claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evaluation_support import arm
from sentences import numbers_in, words_in

from recompact.evaluation.arm_runs import ArmRuns, common, left_out, seen_tasks
from recompact.evaluation.paired import Comparison, Difference, compare_many
from recompact.evaluation.summary import (
    SCOPES,
    SIMULATED,
    STAR,
    arm_table,
    comparison_table,
    delta,
    detail_tables,
    difference_table,
    evaluation,
    notes,
    percentage,
    references,
    sign_test_cells,
    to_json,
)
from recompact.values.chat import Usage
from recompact.values.stats import Estimate
from recompact.values.tables import Number, Table, render

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
        assert any("fewer than 6" in said for said in notes(evaluation("e", [one, other]))) is not marked
        assert "acc_low" in render(table, "csv").splitlines()[0]  # the columns are the same, however few tasks


def test_an_arm_of_which_nothing_is_finished_is_named() -> None:
    shown = evaluation("e", [GOOD, replace(BAD, rows=())])
    assert [made.label for made in shown.arms] == ["prompting/history"]
    assert any("pair/history" in note for note in notes(shown))
    assert to_json(shown)["not_begun"] == ["pair/history"]


def test_trajectories_whose_environment_broke_are_told() -> None:
    broken = replace(BAD, rows=tuple(replace(r, ending="environment error") if r.run == 1 else r for r in BAD.rows))
    (said,) = [note for note in notes(evaluation("e", [GOOD, broken])) if "broke" in note]
    assert numbers_in(said)[0] == "6"
    assert "evaluate --retry" in said
    # The first run alone is sound.
    assert not any("broke" in note for note in notes(evaluation("e", [GOOD, broken], runs=1)))
    assert not any("broke" in note for note in notes(evaluation("e", [GOOD, BAD])))


def test_one_arm_under_two_names_is_told() -> None:
    twins = [replace(GOOD, name=name, settings={"key": "k", "kind": "prompted"}) for name in ("a", "b")]
    (said,) = [note for note in notes(evaluation("e", [*twins, BAD])) if "names" in note]
    assert said.startswith("a/history and b/history ")
    assert numbers_in(said) == ["2"]


def test_tasks_that_a_template_was_adapted_on_are_told() -> None:
    adapted = replace(BAD, settings={"adapted_on": ["t001", "t003", "elsewhere"], "adapted_suite": "s"})
    shown = evaluation("e", [GOOD, adapted])
    said = "pair/history was adapted on 2 of these 6 tasks: only unseen tasks show what it gains."
    assert said in notes(shown)
    assert said in to_json(shown)["notes"]
    assert [one["seen_tasks"] for one in to_json(shown)["arms"]] == [0, 2]
    assert "adapted_on" not in to_json(shown)["arms"][1]
    assert not any("adapted on" in note for note in notes(evaluation("e", [GOOD, adapted], ["t000", "t002"])))
    both = evaluation("e", [adapted, replace(adapted, name="facts")])
    (said,) = (note for note in notes(both) if note.startswith("pair/history and facts/history "))
    assert numbers_in(said)[:2] == ["2", "6"]


def test_question_answering_has_its_differences() -> None:
    one, other = (
        replace(made, rows=tuple(replace(row, em=(value,), f1=(value,)) for row in made.rows))
        for made, value in ((GOOD, 1.0), (BAD, 0.0))
    )
    found = difference_table(evaluation("e", [one, other]))
    assert found is not None
    keys = [column.key for column in found[0].columns]
    assert keys[2:7] == ["acc", "pass^3", "em", "em^3", "f1"]


def test_questions_are_counted_over_all_arms() -> None:
    """An arm that answered two of four questions is not measured on these two alone."""
    two, four = (1.0, 1.0), (1.0, 1.0, 0.0, 0.0)
    some, every = (
        replace(made, rows=tuple(replace(row, em=values, f1=values) for row in made.rows))
        for made, values in ((GOOD, two), (BAD, four))
    )
    shown = evaluation("qa", [some, every])
    for _, metrics in shown.measured():
        assert [metrics.means[key] for key in ("em", "em^3", "f1")] == [0.5, 0.5, 0.5]
        assert metrics.by_run["em"] == (0.5, 0.5, 0.5)
    (made,) = compare_many([(some, every)], common([some, every]), keys=["em", "em^3", "f1"], resamples=10)
    assert [d.delta for d in made.differences] == [0, 0, 0]
    assert shown.arms[1] is every  # it had all of them
    assert evaluation("e", [GOOD, BAD]).arms == (GOOD, BAD)


def test_one_task_is_not_tasks() -> None:
    shown = evaluation("e", [first_tasks(GOOD, 1), BAD], runs=1)
    assert numbers_in(notes(shown)[0])[:2] == ["1", "1"]
    assert left_out(5)[0] in notes(shown)
    assert arm_table(shown).notes == notes(shown)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_a_spread_across_runs_is_spoken_of_where_there_is_one(runs: int) -> None:
    """The note and the metrics agree on it: two runs have a standard deviation, one has none."""
    shown = evaluation("e", [arm("prompting", ["110"[:runs]] * 3 + ["0" * runs] * 3, "history")])
    assert shown.shared.runs == runs
    assert ("across runs" in notes(shown)[0]) == (runs > 1)
    assert bool(shown.metrics(shown.arms[0]).spread) == (runs > 1)


def test_wins_and_losses_of_several_scopes_are_told_but_not_tested() -> None:
    """The paper's last row of its paired tests: the tasks are the same, so their sum has no p."""
    pairs = [arm("prompting", ["111", "110", "111", "000", "111", "111"], scope) for scope in ("history", "prefix")] + [
        arm("pair", ["111", "111", "000", "111", "111", "111"], scope) for scope in ("history", "prefix")
    ]
    found = difference_table(evaluation("e", [*pairs, arm("fifo", ["000"] * 6)]))
    assert found is not None
    (said,) = [note for note in found[0].notes if "together" in note]
    assert said.startswith("pair ")
    assert numbers_in(said) == ["2", "4", "2"]


def test_steps_and_tokens_also_in_per_cent() -> None:
    """As the paper tells them: so many per cent fewer tokens, with an interval, both arms resampled together."""
    usual = arm("prompting", ["111"] * 30, "history")
    slow = replace(usual, rows=tuple(replace(row, steps=2 * row.steps) for row in usual.rows))
    (made,) = compare_many([(slow, usual)], common([slow, usual]), relative=True)
    found = {d.metric: d.relative for d in made.differences}
    assert found["acc"] is None
    steps = found["steps"]
    assert steps is not None
    assert (steps.value, steps.low, steps.high) == pytest.approx((1, 1, 1))
    assert "+100.0 [+100.0, +100.0]*" in render(comparison_table(made), "terminal")
    assert made.to_json()["differences"][-1]["relative"] is not None
    (few,) = compare_many([(slow, usual)], common([slow, usual], sorted(usual.complete(3))[:19]), relative=True)
    text = render(comparison_table(few), "terminal")
    assert "+100.0 [+100.0, +100.0]" in text
    assert "]*" not in text  # of nineteen tasks the intervals are too narrow
    (plain,) = compare_many([(slow, usual)], common([slow, usual]))
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


# --- notes


def without_peaks(made: ArmRuns) -> ArmRuns:
    return replace(made, rows=tuple(replace(row, peak_reported=0) for row in made.rows))


def test_whose_count_the_peak_is_stands_below_it() -> None:
    both = "6 tasks, 3 runs. Acc ± standard deviation across runs. Peak in thousand tokens by {} count."
    tokens = " Tokens: thousands per task, agent and compressor."
    assert notes(evaluation("e", [GOOD]))[0] == both.format("the provider's") + tokens
    assert notes(evaluation("e", [without_peaks(GOOD)]))[0] == both.format("our own") + tokens
    assert notes(evaluation("e", [GOOD, without_peaks(BAD)]))[0] == both.format("our own") + tokens
    unknown = replace(GOOD, rows=tuple(replace(row, peak=0, peak_reported=0, usage={}) for row in GOOD.rows))
    assert numbers_in(notes(evaluation("e", [unknown]))[0]) == ["6", "3"]
    user = replace(GOOD, rows=tuple(replace(row, usage={"user": Usage(5, 5)}) for row in GOOD.rows))
    assert "Tokens" not in notes(evaluation("e", [user]))[0]  # nothing of the total


def test_simulated_models_are_told_last() -> None:
    simulated = replace(BAD, simulated=True)
    assert notes(evaluation("e", [GOOD, simulated]))[-1] == SIMULATED
    assert evaluation("e", [GOOD, simulated]).simulated
    assert SIMULATED not in notes(evaluation("e", [GOOD, BAD]))
    assert not evaluation("e", [GOOD, BAD]).simulated
    assert to_json(evaluation("e", [GOOD, simulated]))["simulated"] is True


def test_nothing_is_said_of_what_is_not_missing() -> None:
    whole = notes(evaluation("e", [GOOD, BAD]))
    assert not any("left out" in said or "finished yet" in said or "names" in said for said in whole)
    assert [numbers_in(said) for number in (1, 2) for said in left_out(number)] == [["1"], ["2"]]
    assert left_out(0) == []


def test_an_environment_that_broke_once() -> None:
    once = replace(BAD, rows=(replace(BAD.rows[0], ending="environment error"), *BAD.rows[1:]))
    (said,) = [note for note in notes(evaluation("e", [GOOD, once])) if "broke" in note]
    assert numbers_in(said)[0] == "1"
    shown = evaluation("e", [GOOD, once])
    assert (shown.shared.tasks, shown.shared.broken) == (("t001", "t002", "t003", "t004", "t005"), ("t000",))
    assert to_json(shown)["broken"] == ["t000"]
    assert [metrics.tasks for _, metrics in shown.measured()] == [5, 5]
    # A task that is not asked for is not counted.
    assert not any("broke" in note for note in notes(evaluation("e", [GOOD, once], ["t001", "t002"])))


# --- the table of arms


def keys_of(table: Table) -> list[str]:
    return [column.key for column in table.columns]


def cell_of(table: Table, row: int, key: str) -> Any:
    return table.rows[row][keys_of(table).index(key)]


def test_the_columns_of_the_table_of_arms() -> None:
    common_keys = ["steps", "peak", "context", "compactions", "tokens", "cached"]
    table = arm_table(evaluation("e", [GOOD, BAD]))
    assert keys_of(table) == ["arm", "scope", "acc", "pass^3", "pass@3", *common_keys]
    assert keys_of(arm_table(evaluation("e", [GOOD], runs=1))) == ["arm", "scope", "acc", *common_keys]
    assert [row[:2] for row in table.rows] == [("prompting", "history"), ("pair", "history")]
    unscoped = arm_table(evaluation("e", [arm("fifo", ["111"])]))
    assert "scope" not in keys_of(unscoped)
    assert "scope" in keys_of(arm_table(evaluation("e", [arm("fifo", ["111"] * 6), GOOD])))


def test_a_cache_that_was_never_used_has_no_column() -> None:
    unused = replace(GOOD, rows=tuple(replace(row, usage={"agent": Usage(100, 10)}) for row in GOOD.rows))
    assert "cached" not in keys_of(arm_table(evaluation("e", [unused])))
    assert "cached" in keys_of(arm_table(evaluation("e", [unused, GOOD])))


def test_a_spread_is_shown_for_success_only() -> None:
    table = arm_table(evaluation("e", [arm("a", ["110"] * 6)]))
    assert cell_of(table, 0, "acc").spread is not None
    assert cell_of(table, 0, "steps").spread is None
    assert cell_of(table, 0, "pass^3").spread is None
    assert cell_of(table, 0, "peak").text == "2.00"
    assert cell_of(table, 0, "tokens").text == "0.1"
    assert cell_of(table, 0, "compactions").text == "1.00"
    answered = replace(GOOD, rows=tuple(replace(row, em=(1.0,), f1=(0.5,)) for row in GOOD.rows))
    table = arm_table(evaluation("e", [answered]))
    assert (cell_of(table, 0, "em").spread, cell_of(table, 0, "f1").spread) == (0, None)


def test_what_the_table_of_arms_has_no_room_for() -> None:
    every, tokens, endings = detail_tables(evaluation("e", [GOOD, BAD]))
    assert keys_of(every) == ["arm", "acc", "pass^2", "pass^3", "pass@2", "pass@3"]
    assert [row[0] for row in every.rows] == ["prompting/history", "pair/history"]
    assert [row[:2] for row in tokens.rows] == [
        ("prompting/history", "agent"),
        ("prompting/history", "compressor"),
        ("pair/history", "agent"),
        ("pair/history", "compressor"),
    ]
    assert keys_of(tokens) == ["arm", "role", "input", "cached", "output"]
    assert [cell.value for cell in tokens.rows[0][2:] if isinstance(cell, Number)] == [0.1, 0.04, 0.01]
    assert endings.rows == (("prompting/history", 18), ("pair/history", 18))
    unknown = replace(BAD, rows=tuple(replace(row, ending="") for row in BAD.rows))
    *_, endings = detail_tables(evaluation("e", [GOOD, unknown]))
    assert [column.title for column in endings.columns] == ["arm", "finished", "?"]
    assert endings.rows == (("prompting/history", 18, 0), ("pair/history", 0, 18))
    single, *_ = detail_tables(evaluation("e", [GOOD], runs=1))
    assert keys_of(single) == ["arm", "acc"]


# --- differences


@pytest.mark.parametrize("runs", [1, 3])
def test_the_table_of_differences(runs: int) -> None:
    found = difference_table(evaluation("e", [BAD, GOOD], runs=runs))
    assert found is not None
    table, (comparison,) = found
    reliable = [f"pass^{runs}"] if runs > 1 else []
    assert keys_of(table) == ["arm", "minus", "acc", *reliable, "steps", "peak", "tokens", "wins", "losses", "p"]
    assert table.rows[0][:2] == ("pair/history", "prompting/history")
    assert cell_of(table, 0, "acc").value == -100
    assert cell_of(table, 0, "steps").value == 10
    assert (cell_of(table, 0, "wins"), cell_of(table, 0, "losses")) == (0, 6)
    solved = "all runs" if runs > 1 else "the run"
    assert table.notes[0] == STAR
    assert solved in table.notes[1]
    (said,) = table.notes[2:]  # of six tasks, steps are not marked
    assert numbers_in(said)[:2] == ["1", "6"]
    assert (cell_of(table, 0, "acc").strong, cell_of(table, 0, "steps").strong) == (True, False)
    assert comparison.runs == runs


def test_without_a_reference_or_a_task_there_is_no_difference() -> None:
    assert difference_table(evaluation("e", [BAD])) is None
    assert difference_table(evaluation("e", [GOOD])) is None
    assert difference_table(evaluation("e", [GOOD, BAD], [])) is None
    assert difference_table(evaluation("e", [GOOD, BAD]), "pair") is not None
    assert difference_table(evaluation("e", [GOOD, BAD]), "pair/history") is not None
    assert difference_table(evaluation("e", [GOOD, BAD]), "nobody") is None


def test_an_arm_is_measured_against_the_nearest_reference() -> None:
    def at(name: str, scope: str | None, budget: int) -> ArmRuns:
        return replace(arm(name, ["111"] * 3, scope), settings={"budget": budget})

    first = at("prompting@1", "history", 1)
    arms = [
        first,
        at("prompting@1", "prefix", 1),
        at("prompting@2", "history", 2),
        at("pair@1", "prefix", 1),
        at("pair@2", "prefix", 2),
        at("pair@2", "history", 2),
        at("fifo@3", None, 3),
        at("pair@3", "prefix", 3),
    ]
    pairs = [(a.label, b.label) for a, b in references(evaluation("e", arms))]
    assert pairs == [
        ("pair@1/prefix", "prompting@1/prefix"),
        ("pair@2/prefix", "prompting@2/history"),  # a budget is nearer than a scope
        ("pair@2/history", "prompting@2/history"),
        ("fifo@3", "prompting@1/history"),
        ("pair@3/prefix", "prompting@1/prefix"),
    ]


@pytest.mark.parametrize(("p", "text"), [(0.0001, "<0.001"), (0.0004, "<0.001"), (0.02, "0.020"), (1.0, "1.000")])
def test_a_p_value_is_never_shown_as_zero(p: float, text: str) -> None:
    made = Comparison("a", "b", 200, 3, (), 12, 0, p)
    wins, losses, cell = sign_test_cells(made)
    assert (wins, losses) == (12, 0)
    assert isinstance(cell, Number)
    assert cell.text == text
    shown = text if text.startswith("<") else f"= {text}"
    assert f"sign test: p {shown}." in comparison_table(made).notes[1]


@pytest.mark.parametrize(
    ("tasks", "differ", "success", "steps"),
    [(5, 5, False, False), (6, 6, True, False), (20, 5, False, False), (30, 6, True, True)],
)
def test_a_difference_is_marked_where_it_may_be_read_and_has_its_sign_everywhere(
    tasks: int, differ: int, success: bool, steps: bool
) -> None:
    figure = delta(Difference("acc", 0.5, 0.25, 0.25, 0.1, 0.4, differ=differ), tasks)
    assert (figure.value, figure.interval, figure.signed, figure.strong) == (25, (10, 40), True, success)
    assert delta(Difference("steps", 5, 4, 1, 0.5, 1.5, differ=differ), tasks).strong is steps
    share = percentage("steps", Estimate(0.5, 0.25, 0.75), tasks, differ)
    assert (share.value, share.interval, share.signed, share.digits, share.strong) == (50, (25, 75), True, 1, steps)


@pytest.mark.parametrize(("runs", "solved"), [(1, "in its run"), (3, "in all 3 runs")])
@pytest.mark.parametrize("simulated", [False, True])
def test_two_arms_in_every_metric(runs: int, solved: str, simulated: bool) -> None:
    (made,) = compare_many([(GOOD, BAD)], common([GOOD, BAD], runs=runs), resamples=20)
    table = comparison_table(made, simulated)
    assert table.title.startswith("prompting/history minus pair/history: ")
    assert numbers_in(table.title) == ["6", str(runs)]
    assert [column.title for column in table.columns] == [
        "metric",
        "prompting/history",
        "pair/history",
        "difference [95 %]",
    ]
    assert table.notes[0] == STAR
    assert solved in table.notes[1]
    assert numbers_in(table.notes[1].partition(solved)[2])[:2] == ["6", "0"]
    assert (table.notes[-1] == SIMULATED) is simulated
    acc = table.rows[0]
    assert acc[0] == "Acc"
    assert [cell.value for cell in acc[1:] if isinstance(cell, Number)] == [100, 0, 100]


def test_all_figures_of_an_evaluation() -> None:
    told = replace(GOOD, settings={"name": "prompting", "scope": "history", "key": "k", "budget": 5})
    shown = evaluation("e", [told, BAD, replace(BAD, name="waiting", rows=())], ["t000", "t001", "gone"])
    found = to_json(shown)
    assert (found["title"], found["tasks"], found["runs"], found["left_out"]) == ("e", 2, 3, 1)
    assert found["not_begun"] == ["waiting/history"]
    assert found["simulated"] is False
    first, second = found["arms"]
    named = {"arm": "prompting/history", "name": "prompting", "scope": "history", "key": "k", "budget": 5, "acc": 1.0}
    assert first.items() >= named.items()
    assert first["groups"]["difficulty"]["easy"]["tasks"] == 1
    assert second["acc"] == 0
    assert found["notes"] == list(notes(shown))


def test_why_an_arm_never_succeeded_is_told() -> None:
    never = arm("never", ["000"] * 4)
    ended = replace(never, rows=tuple(replace(row, ending="step limit") for row in never.rows))
    told = [note for note in notes(evaluation("e", [GOOD, ended])) if note.startswith("never")]
    assert [numbers_in(note) for note in told] == [["12", "12"]]
    assert "step limit" in told[0]


@pytest.mark.parametrize(
    ("scopes", "simulated"),
    [(("history", "prefix"), True), (("history", "history"), True), (("history", "prefix"), False)],
)
def test_simulated_models_that_ignore_the_scope_say_so(scopes: tuple[str, str], simulated: bool) -> None:
    arms = [replace(arm(f"a{n}", ["110"] * 4, scope), simulated=simulated) for n, scope in enumerate(scopes)]
    assert (SCOPES in notes(evaluation("e", arms))) == (simulated and len(set(scopes)) == 2)


@pytest.mark.parametrize(("number", "words"), [(1, ["is", "it"]), (2, ["are", "them"]), (3, ["are", "them"])])
def test_tasks_that_are_left_out_are_counted_in_words_that_agree(number: int, words: list[str]) -> None:
    unfinished, broken = left_out(number, number)
    assert words_in(unfinished, "is", "are", "it", "them") == words_in(broken, "is", "are", "it", "them") == words
    assert left_out(0, number) == [broken]
    assert left_out(number) == [unfinished]


def test_arms_that_were_adapted_on_the_tasks_are_named_together() -> None:
    made = [replace(arm(name, ["1"] * 4), settings={"adapted_on": ["t000", "t001", "x"]}) for name in ("a", "b")]
    one = [replace(arm("c", ["1"] * 4), settings={"adapted_on": ["t003"]})]
    shared = common([*made, *one])
    said = seen_tasks([*made, *one], shared)
    assert [numbers_in(each) for each in said] == [["2", "4"], ["1", "4"]]
    assert [words_in(each, "a", "b", "c", "was", "were", "it", "they") for each in said] == [
        ["a", "b", "were", "they"],
        ["c", "was", "it"],
    ]
    assert seen_tasks([arm("d", ["1"])], shared) == []
