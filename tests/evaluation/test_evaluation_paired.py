"""Comparisons of two arms on the same tasks, and what few tasks cannot show."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from evaluation_support import arm
from growth import LINEAR, growth
from sentences import numbers_in, words_in

from recompact.errors import InputError
from recompact.evaluation.arm_runs import Common, common
from recompact.evaluation.paired import (
    Comparison,
    Difference,
    compare,
    compare_many,
    constant_share,
    difference_warnings,
    enough_tasks,
    hidden_share,
    size_warnings,
    warnings,
)
from recompact.values.chat import Usage
from recompact.values.stats import Estimate


def test_a_comparison_counts_tasks_solved_in_all_runs() -> None:
    a = arm("a", ["111", "111", "111", "110", "000"])
    b = arm("b", ["111", "110", "000", "111", "000"], steps=12)
    found = compare(a, b, resamples=2000)
    assert (found.wins, found.losses, found.p) == (2, 1, 1.0)
    assert (found.tasks, found.runs, found.reliability) == (5, 3, "pass^3")
    assert found.of("pass^3").delta == pytest.approx(0.2)
    assert found.of("steps").delta == pytest.approx(-2.0)
    assert found.of("steps").low == found.of("steps").high == -2.0
    assert found.of("steps").excludes_zero
    assert found.of("acc").low <= found.of("acc").delta <= found.of("acc").high
    back = compare(b, a, resamples=2000)
    for there, here in zip(found.differences, back.differences, strict=True):
        assert (there.delta, there.low, there.high) == pytest.approx((-here.delta, -here.high, -here.low))


def test_an_arm_compared_with_itself_shows_nothing() -> None:
    a = arm("a", ["111", "110", "000"] * 10)
    found = compare(a, a, resamples=200)
    assert all((d.delta, d.low, d.high) == (0.0, 0.0, 0.0) for d in found.differences)
    assert not any(d.excludes_zero for d in found.differences)
    assert found.p == 1.0


def test_tokens_that_nobody_counted_are_not_zero() -> None:
    """Released records have one role of their own, or none: beside our own arms that is no difference in tokens."""
    own = arm("own", ["111"] * 8)
    released = replace(own, name="theirs", rows=tuple(replace(row, usage={}) for row in own.rows))
    counted = replace(own, rows=tuple(replace(row, usage={"agent input": Usage(900, 0)}) for row in own.rows))
    for one, other in ((own, released), (counted, own), (released, counted)):
        assert not any("tokens" in d.metric for d in compare(one, other, resamples=10).differences)
    assert compare(counted, counted, resamples=10).of("tokens.agent input").first == 900
    lone = replace(own, rows=tuple(replace(row, usage={"agent": Usage(50, 5)}) for row in own.rows))
    assert compare(own, lone, resamples=10).of("tokens.compressor").second == 0  # an arm that has no compressor


def test_arms_without_a_common_task_are_refused() -> None:
    a = arm("a", ["111"])
    other = arm("b", ["11", "111"])
    with pytest.raises(InputError, match="a, b"):
        compare(a, type(other)("b", None, other.rows[2:]), resamples=10)


def test_warnings_in_words() -> None:
    assert size_warnings(168, 3) == ()
    assert numbers_in(size_warnings(40, 3)[0])[:2] == ["40", "2.5"]
    assert any("too narrow" in said for said in size_warnings(12, 3))
    assert any("6" in numbers_in(said) for said in size_warnings(5, 3))
    assert any("One run" in said for said in size_warnings(200, 1))
    few = compare(arm("a", ["111"] * 30), arm("b", ["110"] + ["111"] * 29), resamples=100)
    assert any("only 1 task" in said for said in warnings(few))


def test_the_time_of_a_comparison_grows_with_the_tasks_and_no_faster() -> None:
    chance = Random("speed")

    def compared(tasks: int) -> None:
        outcomes = ["".join(chance.choice("01") for _ in range(3)) for _ in range(2 * tasks)]
        compare(arm("a", outcomes[:tasks]), arm("b", outcomes[tasks:]), resamples=500)

    assert growth(compared, 42) < LINEAR


@pytest.mark.parametrize(
    ("low", "high", "excludes"),
    [
        (0.1, 0.2, True),
        (-0.2, -0.1, True),
        (-0.1, 0.1, False),
        (0.0, 0.1, False),
        (-0.1, 0.0, False),
        (0.0, 0.0, False),
    ],
)
def test_an_interval_excludes_zero_where_both_ends_are_on_one_side(low: float, high: float, excludes: bool) -> None:
    assert Difference("acc", 0.5, 0.5, 0.0, low, high).excludes_zero is excludes


def test_only_in_json_of_enough_tasks_an_interval_is_said_to_exclude_zero() -> None:
    for tasks, telling in ((5, False), (6, True)):
        better, worse = arm("a", ["11"] * tasks), arm("b", ["00"] * tasks)
        found = compare(better, worse, resamples=20).to_json()
        acc = next(each for each in found["differences"] if each["metric"] == "acc")
        assert acc["excludes_zero"] is telling
        steps = next(each for each in found["differences"] if each["metric"] == "steps")
        assert steps["excludes_zero"] is False
        assert (acc["differ"], steps["differ"]) == (tasks, 0)
        assert found["warnings"]


@pytest.mark.parametrize(
    ("key", "tasks", "differ", "enough"),
    [
        ("acc", 6, 6, True),
        ("acc", 168, 5, False),
        ("pass^3", 168, 6, True),
        ("em", 12, 6, True),
        ("f1", 29, 29, False),
        ("f1", 30, 6, True),
        ("steps", 29, 29, False),
        ("steps", 30, 30, True),
        ("steps", 168, 5, False),
        ("peak", 29, 29, False),
        ("tokens.agent", 30, 6, True),
        ("compactions", 29, 29, False),
    ],
)
def test_what_a_difference_has_to_rest_on(key: str, tasks: int, differ: int, enough: bool) -> None:
    assert enough_tasks(key, tasks, differ) is enough
    made = Difference(key, 2.0, 1.0, 1.0, 0.5, 1.5, differ=differ)
    comparison = Comparison("a", "b", tasks, 3, (made,), 6, 0, 0.03)
    assert comparison.marks(made) is enough
    assert comparison.to_json()["differences"][0]["excludes_zero"] is enough
    assert any("without a star" in said for said in warnings(comparison)) is not enough
    assert not comparison.marks(replace(made, low=-1.0))


@pytest.mark.parametrize(("tasks", "losses"), [(6, 3), (168, 4)])
def test_where_the_sign_test_cannot_be_significant_nothing_is_marked(tasks: int, losses: int) -> None:
    """The bootstrap alone excludes zero with four losses of 168, which is 0.125 by the sign test."""
    found = compare(arm("a", ["0"] * losses + ["1"] * (tasks - losses)), arm("b", ["1"] * tasks), resamples=1000)
    acc = found.of("acc")
    assert (acc.excludes_zero, acc.differ, found.marks(acc)) == (True, losses, False)
    assert found.p > 0.05


def test_warnings_of_a_table_name_the_arms_that_they_are_about() -> None:
    few, many = Comparison("a", "r", 100, 3, (), 1, 0, 1.0), Comparison("b", "r", 100, 3, (), 9, 9, 1.0)
    (said,) = difference_warnings([few, many])
    assert said.startswith("a: ")
    assert numbers_in(said)[-3:] == ["1", "6", "0.05"]
    (said,) = difference_warnings([few, replace(few, first="c")])
    assert not said.startswith(("a: ", "c: "))
    assert numbers_in(said)[-3:] == ["1", "6", "0.05"]
    six = (Difference("acc", 0.5, 0.5, 0.0, 0.0, 0.0),) * 6
    shown = difference_warnings([replace(many, differences=six)] * 2)
    assert [numbers_in(each) for each in shown] == [["12"]]


@pytest.mark.parametrize(("runs", "key", "wins", "losses"), [(1, "acc", 2, 1), (2, "pass^2", 1, 1)])
def test_the_sign_test_is_about_tasks_solved_in_all_runs(runs: int, key: str, wins: int, losses: int) -> None:
    a, b = arm("a", ["11", "10", "01", "00"]), arm("b", ["00", "01", "11", "00"])
    found = compare(a, b, runs=runs, resamples=10)
    assert (found.reliability, found.runs) == (key, runs)
    assert (found.wins, found.losses) == (wins, losses)


def test_a_cache_that_nobody_used_is_no_metric() -> None:
    used = arm("a", ["1"] * 3)
    unused = replace(used, rows=tuple(replace(row, usage={"agent": Usage(100, 10)}) for row in used.rows))
    keys = [d.metric for d in compare(unused, unused, resamples=10).differences]
    assert "cached" not in keys
    for one, other in ((used, unused), (unused, used)):
        assert "cached" in [d.metric for d in compare(one, other, resamples=10).differences]


def test_only_the_metrics_that_are_wanted_are_compared_and_the_same_tasks_are_drawn_for_all() -> None:
    a, b = arm("a", ["11", "10", "00", "01"]), arm("b", ["10", "10", "01", "11"], steps=12)
    shared = common([a, b])
    both = compare_many([(a, b), (b, a)], shared, keys=["steps", "acc"], resamples=50)
    assert [[d.metric for d in each.differences] for each in both] == [["acc", "steps"]] * 2
    assert [(each.first, each.second) for each in both] == [("a", "b"), ("b", "a")]
    there, back = (each.of("acc") for each in both)
    assert (there.first, there.second) == (back.second, back.first)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert both[0].of("steps").first == pytest.approx(43 / 4)
    assert both[0].of("steps").second == pytest.approx(51 / 4)


def test_steps_are_relative_where_that_is_asked_for_and_points_never_are() -> None:
    a, b = arm("a", ["1"] * 6, steps=6), arm("b", ["0"] * 6, steps=6)
    double = replace(a, rows=tuple(replace(row, steps=2 * row.steps) for row in a.rows))
    (found,) = compare_many([(double, b)], common([a, b]), relative=True, resamples=20)
    steps = found.of("steps").relative
    assert steps is not None
    assert (steps.value, steps.low, steps.high) == pytest.approx((1.0, 1.0, 1.0))
    assert found.of("acc").relative is None
    (half,) = compare_many([(b, double)], common([a, b]), relative=True, resamples=20)
    share = half.of("steps").relative
    assert share is not None
    assert (share.value, share.low, share.high) == pytest.approx((-0.5, -0.5, -0.5))


def test_a_comparison_without_tasks_names_the_arms_once_and_the_runs() -> None:
    a, b = arm("a", ["11"]), arm("b", ["11"])
    said = "there is no task that a, b have all done in {}, so nothing can be compared: finish them with"
    for runs, words in ((2, "2 runs"), (1, "1 run"), (0, "1 run")):
        with pytest.raises(InputError) as caught:
            compare_many([(a, b), (b, a)], Common((), runs, 1))
        assert str(caught.value).startswith(said.format(words))


def test_the_peak_of_a_comparison_is_by_the_counter_that_is_asked_for() -> None:
    a = arm("a", ["1"] * 3)
    for source, first in (("provider", 2001.0), ("own counter", 1001.0), (None, 2001.0)):
        (found,) = compare_many([(a, a)], common([a]), source=source, resamples=10)  # type: ignore[arg-type]
        assert found.of("peak").first == first


@pytest.mark.parametrize(
    ("tasks", "runs", "said"),
    [
        (1, 3, ["1 task: it is 100 points of Pass^3", "With fewer than 6 tasks an interval"]),
        (2, 2, ["2 tasks: one task is 50 points of Pass^2", "With fewer than 6 tasks an interval"]),
        (5, 3, ["5 tasks: one task is 20 points", "With fewer than 6 tasks an interval"]),
        (6, 3, ["6 tasks: one task is 17 points", "With fewer than 30 tasks"]),
        (29, 3, ["29 tasks: one task is 3.4 points", "With fewer than 30 tasks"]),
        (30, 3, ["30 tasks: one task is 3.3 points"]),
        (99, 1, ["99 tasks: one task is 1 points of Acc", "One run each"]),
        (100, 2, []),
        (100, 0, []),
        (100, 1, ["One run each"]),
    ],
)
def test_what_few_tasks_and_runs_mean(tasks: int, runs: int, said: list[str]) -> None:
    found = size_warnings(tasks, runs)
    assert len(found) == len(said)
    assert all(there.startswith(beginning) for there, beginning in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("wins", "losses", "said"),
    [
        (0, 0, "In Pass^3 no task differs: 200 tasks cannot exclude a difference of up to 1.5 points."),
        (0, 1, "In Pass^3 only 1 task differs: with fewer than 6"),
        (3, 2, "In Pass^3 only 5 tasks differ: with fewer than 6"),
        (3, 3, None),
        (6, 0, None),
    ],
)
def test_how_many_tasks_have_to_differ_is_told(wins: int, losses: int, said: str | None) -> None:
    found = warnings(Comparison("a", "b", 200, 3, (), wins, losses, 1.0))
    assert (found == ()) if said is None else (len(found) == 1 and found[0].startswith(said))


@pytest.mark.parametrize(("count", "told"), [(10, False), (11, True)])
def test_many_intervals_are_told(count: int, told: bool) -> None:
    many = (Difference("acc", 0.5, 0.5, 0.0, 0.0, 0.0),) * count
    found = warnings(Comparison("a", "b", 200, 3, many, 10, 10, 1.0))
    assert [numbers_in(text)[:1] == ["11"] for text in found] == [True] * told


def test_without_tasks_none_is_weighed() -> None:
    assert not any("points" in said or "fewer than 6" in said for said in size_warnings(0, 3))


def test_a_difference_that_is_the_same_in_every_task_is_not_certain() -> None:
    """Nothing varies, so resampling gives no width: what few tasks cannot exclude does."""
    same = Estimate(0.0, 0.0, 0.0)
    assert constant_share(same, 12) == same
    spread = Estimate(0.1, -0.2, 0.4)
    assert constant_share(spread, 12) == spread


def test_a_comparison_is_of_one_arm_where_key_and_trajectories_are_the_same() -> None:
    """An arm by another name differs in nothing; the same settings played again do."""
    one = replace(arm("a", ["11", "10"]), settings={"key": "k"})
    again = replace(one, name="b", rows=tuple(replace(row, steps=row.steps + 1) for row in one.rows))
    for other, same in (
        (replace(one, name="b"), True),
        (again, False),
        (replace(one, name="b", settings={"key": "l"}), False),
        (replace(one, name="b", settings={}), False),
    ):
        found = compare(one, other, resamples=10)
        assert found.one_arm is same
        assert found.to_json()["one_arm"] is same
    unnamed = replace(one, settings={})
    assert compare(unnamed, unnamed, resamples=10).one_arm is False  # nobody said which arms they are
    said = warnings(compare(one, replace(one, name="b"), resamples=10))
    assert any("b" in text.partition(":")[0] and "one arm" in text for text in said)


def test_intervals_of_one_arm_are_not_counted() -> None:
    six = (Difference("acc", 0.5, 0.5, 0.0, 0.0, 0.0),) * 6
    many = Comparison("a", "b", 200, 3, six, 10, 10, 1.0)
    assert [numbers_in(text) for text in difference_warnings([many, many])] == [["12"]]
    said = difference_warnings([many, replace(many, one_arm=True)])
    assert [text.startswith("a: nothing") for text in said] == [True]


@pytest.mark.parametrize(("tasks", "differ", "said"), [(6, 5, ["1"]), (5, 5, [])])
def test_intervals_without_a_star_are_counted_from_six_tasks_on(tasks: int, differ: int, said: list[str]) -> None:
    unmarked = Difference("acc", 1.0, 0.5, 0.5, 0.1, 0.9, differ=differ)
    settled = Difference("acc", 1.0, 0.5, 0.5, -0.1, 0.9, differ=differ)
    found = difference_warnings([Comparison("a", "b", tasks, 3, (unmarked, settled), 9, 9, 1.0)])
    assert [numbers_in(text)[0] for text in found] == said


@pytest.mark.parametrize("tasks", [1, 6, 100])
@pytest.mark.parametrize("value", [-1.0, -0.5, 0.25, 1.0])
def test_what_few_tasks_leave_open_about_a_constant_difference(tasks: int, value: float) -> None:
    """A share q of other tasks goes unseen with (1 - q) ** tasks; they may be at either end."""
    found = constant_share(Estimate(value, value, value), tasks)
    unseen = hidden_share(tasks)
    assert (1 - unseen) ** tasks == pytest.approx(0.05)
    assert found.low == pytest.approx((1 - unseen) * value - unseen)
    assert found.high == pytest.approx((1 - unseen) * value + unseen)
    assert found.value == value
    assert constant_share(Estimate(value, value, value), 0) == Estimate(value, value, value)


@pytest.mark.parametrize(("unmarked", "verb"), [(1, "excludes"), (2, "exclude")])
def test_intervals_without_a_star_are_counted_in_words_that_agree(unmarked: int, verb: str) -> None:
    few = Difference("acc", 1.0, 0.5, 0.5, 0.1, 0.9, differ=5)
    (said,) = difference_warnings([Comparison("a", "b", 40, 3, (few,) * unmarked, 9, 9, 1.0)])
    assert words_in(said, "exclude", "excludes") == [verb]
    assert numbers_in(said)[0] == str(unmarked)


@pytest.mark.parametrize(
    ("wins", "losses", "numbers", "verbs"),
    [
        (0, 0, ["40", "7.2"], ["differs"]),
        (1, 0, ["1", "6", "0.05"], ["differs"]),
        (1, 1, ["2", "6", "0.05"], ["differ"]),
        (5, 0, ["5", "6", "0.05"], ["differ"]),
    ],
)
def test_too_few_tasks_that_differ_are_counted_in_words_that_agree(
    wins: int, losses: int, numbers: list[str], verbs: list[str]
) -> None:
    (said,) = difference_warnings([Comparison("a", "b", 40, 3, (), wins, losses, 1.0)])
    assert words_in(said, "differ", "differs") == verbs
    assert numbers_in(said) == ["3", *numbers]  # of Pass^3
    assert difference_warnings([Comparison("a", "b", 40, 3, (), 3, 3, 1.0)]) == ()


@pytest.mark.parametrize(("intervals", "said"), [(10, []), (11, ["11"])])
def test_more_than_ten_intervals_are_said_to_be_many(intervals: int, said: list[str]) -> None:
    same = (Difference("acc", 0.5, 0.5, 0.0, 0.0, 0.0),) * intervals
    found = difference_warnings([Comparison("a", "b", 200, 3, same, 9, 9, 1.0)])
    assert [numbers_in(text)[0] for text in found] == said


@pytest.mark.parametrize(
    ("tasks", "points", "nothing", "narrow"),
    [
        (0, None, False, True),
        (1, "100", True, False),
        (2, "50", True, False),
        (5, "20", True, False),
        (6, "17", False, True),
        (29, "3.4", False, True),
        (30, "3.3", False, False),
        (99, "1", False, False),
        (100, None, False, False),
    ],
)
def test_what_few_tasks_mean(tasks: int, points: str | None, nothing: bool, narrow: bool) -> None:
    said = size_warnings(tasks, 3)
    weights = [numbers_in(each)[:2] for each in said if "noise" in each]
    assert weights == ([] if points is None else [[str(tasks), points]])
    assert any("tells nothing" in each for each in said) is nothing
    assert any("too narrow" in each for each in said) is narrow
    assert len(size_warnings(tasks, 1)) == len(said) + 1
