"""Costs with a prompt cache and strategies at equal context, by the numbers of records made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from evaluation_support import arm
from hypothesis import given, strategies as st

from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.evaluation.costs import (
    Compactions,
    _full_bills,
    arm_costs,
    common_size,
    compactions_of,
    context_size,
    cost_table,
    costs_of,
)
from recompact.evaluation.evaluate import unit_of
from recompact.evaluation.strategies import NEAR, equal_context, strategies_of
from recompact.evaluation.summary import Evaluation, evaluation
from recompact.values.chat import Usage
from recompact.values.receipt import OUTPUT, READ, WRITE, CompactionBill
from recompact.values.tables import Number


class Records:
    """A store with the documents of trajectories, by unit."""

    def __init__(self, units: Mapping[str, Mapping[str, Any]]) -> None:
        self._units = units

    def result(self, unit: str) -> Mapping[str, Any]:
        return self._units[unit]

    def document(self, key: bytes) -> Mapping[str, Any]:
        boundary: Mapping[str, Any] = json.loads(key)
        return boundary


def turn(name: str, tokens: int) -> list[Any]:
    return [name, [], tokens]


def recorded(turns: Sequence[list[Any]], fixed: int, *boundaries: Mapping[str, Any]) -> dict[str, Any]:
    """A trajectory as a run keeps it; `fixed` is what every call reads besides the history."""
    sizes, size = [], 0
    by_step = {each["step"]: each for each in boundaries}
    for step, each in enumerate(turns):
        size = context_size(by_step[step]["post"]) if step in by_step else size
        sizes.append(size)
        size += each[2]
    keys = [json.dumps(each).encode().hex() for each in boundaries]
    return {"turns": list(turns), "peak": fixed + max(sizes), "boundaries": keys}


TURNS = [turn("a", 10), turn("b", 20), turn("c", 30), turn("d", 40)]
PRE = {"summary": None, "turns": TURNS[:2]}
POST = {"summary": ["s", 7], "turns": TURNS[1:2], "pinned": [["p", 3]]}
ONCE = recorded(TURNS, 100, {"step": 2, "pre": PRE, "post": POST})
NEVER = recorded(TURNS, 100)


def store(**units: Mapping[str, Any]) -> Store:
    return cast(Store, Records(units))


def test_a_trajectory_without_a_compaction_reads_all_but_its_last_turns_from_the_cache() -> None:
    made = compactions_of(store(x=NEVER), "x")
    assert (made.number, made.before, made.after, made.bills, made.following) == (0, 0, 0, (), ())
    # Four calls of 100, 110, 130 and 160 tokens; each finds what the one before had read.
    assert made.cached == pytest.approx((100 + 110 + 130) / (100 + 110 + 130 + 160))


def test_a_compaction_is_billed_for_what_it_made_new() -> None:
    made = compactions_of(store(x=ONCE), "x")
    assert (made.number, made.before, made.after, made.following) == (1, 30, 30, (2,))
    assert made.bills == (CompactionBill(0, 30, 0),)
    # Histories of 0, 10, 30 and 60 tokens; the third call finds only what is fixed.
    assert made.cached == pytest.approx((100 + 100 + 130) / (100 + 110 + 130 + 160))
    masked = {"summary": None, "turns": [TURNS[0], turn("b", 5)]}
    kept = compactions_of(store(x=recorded(TURNS, 100, {"step": 2, "pre": PRE, "post": masked})), "x")
    assert kept.bills == (CompactionBill(10, 5, 15),)
    assert kept.cached == pytest.approx((100 + 110 + 115) / (100 + 110 + 115 + 145))


def test_calls_follow_a_compaction_up_to_the_next_one() -> None:
    boundaries = [{"step": step, "pre": PRE, "post": POST} for step in (1, 3)]
    made = compactions_of(store(x=recorded(TURNS, 0, *boundaries)), "x")
    assert (made.number, made.following, made.before, made.after) == (2, (2, 1), 60, 60)


def test_an_empty_trajectory_has_nothing_cached() -> None:
    assert compactions_of(store(x={"turns": [], "peak": 0, "boundaries": []}), "x").cached == 0.0


SIZES = st.lists(st.integers(1, 50), max_size=5)


@given(SIZES, SIZES, st.booleans(), st.integers(0, 9))
def test_what_two_contexts_share_is_their_common_beginning(
    one: list[int], other: list[int], summary: bool, pin: int
) -> None:
    def context(sizes: list[int]) -> dict[str, Any]:
        turns = [turn(f"t{n}-{size}", size) for n, size in enumerate(sizes)]
        pinned = {"pinned": [["p", pin]]} if pin else {}
        return {"summary": ["s", 7] if summary else None, "turns": turns, **pinned}

    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += left
    assert common_size(context(one), context(other)) == 7 * summary + pin + shared
    assert context_size(context(one)) == 7 * summary + pin + sum(one)


# --- arms


def costing(name: str, usage: Mapping[str, Usage], outcomes: Sequence[str] = ("11", "10")) -> ArmRuns:
    made = arm(name, outcomes)
    rows = tuple(replace(row, usage=usage) for row in made.rows)
    return replace(made, rows=rows, settings={"key": name, "budget": 10, "kind": "fifo"})


def records_of(shown: Evaluation, document: Mapping[str, Any]) -> Store:
    return store(
        **{unit_of(each.settings["key"], row.task, row.run): document for each in shown.arms for row in each.rows}
    )


USAGE = {"agent": Usage(1_000, 10), "compressor": Usage(200, 20)}


def test_an_arm_costs_what_it_read_wrote_and_put_out() -> None:
    shown = evaluation("e", [costing("x", USAGE), costing("y", USAGE)])
    costs = arm_costs(records_of(shown, ONCE), shown, shown.arms[0])
    share = compactions_of(store(x=ONCE), "x").cached
    assert (costs.read, costs.written) == pytest.approx((1_000 * share, 1_000 * (1 - share)))
    assert (costs.output, costs.summaries, costs.reported) == (10, 200 + 20 * OUTPUT, False)
    assert costs.cost.value == pytest.approx(READ * costs.read + WRITE * costs.written + 10 * OUTPUT + 300)
    assert (costs.compactions, costs.before, costs.after) == (4, 120, 120)
    assert costs.bill == CompactionBill(0, 30, 0, 300.0)
    assert costs.paid == 0.0  # the history did not shrink
    data = costs.to_json()
    assert (data["arm"], data["bill"]) == ("x", costs.bill.to_json())


def test_a_compaction_has_paid_after_as_many_calls_as_it_takes() -> None:
    small = {"summary": ["s", 1], "turns": []}
    large = {"summary": None, "turns": [turn("a", 10_000)]}
    turns = [turn("a", 10_000), *(turn(f"b{n}", 1) for n in range(5))]
    shown = evaluation("e", [costing("x", {"agent": Usage(1_000, 10)})])
    paying = arm_costs(
        records_of(shown, recorded(turns, 0, {"step": 1, "pre": large, "post": small})), shown, shown.arms[0]
    )
    assert paying.bill is not None
    assert (paying.bill.payback, paying.paid, paying.bill.saved) == (1, 1.0, 9_999)
    dear = evaluation("e", [costing("x", {"agent": Usage(1_000, 10), "compressor": Usage(10_000, 0)})])
    document = recorded(turns, 0, {"step": 1, "pre": large, "post": small})
    costs = arm_costs(records_of(dear, document), dear, dear.arms[0])
    assert costs.bill is not None
    assert (costs.bill.payback, costs.paid) == (11, 0.0)  # five calls follow


def test_what_the_server_reported_stands_where_all_of_it_was_reported() -> None:
    told = {"agent": Usage(1_000, 10, cached=250, cache_reported=1_000)}
    shown = evaluation("e", [costing("x", told)])
    costs = arm_costs(records_of(shown, NEVER), shown, shown.arms[0])
    assert (costs.read, costs.written, costs.reported) == (250, 750, True)
    assert (costs.bill, costs.paid, costs.summaries) == (None, None, 0)
    partly = evaluation("e", [costing("x", {"agent": Usage(1_000, 10, cached=250, cache_reported=999)})])
    assert not arm_costs(records_of(partly, NEVER), partly, partly.arms[0]).reported


def test_a_table_of_costs_is_in_thousands_and_leaves_out_who_counted_nothing() -> None:
    shown = evaluation("e", [costing("x", USAGE), costing("y", {})])
    costs = costs_of(records_of(shown, ONCE), shown)
    assert [each.arm for each in costs] == ["x", "y"]
    (row,) = cost_table(costs).rows
    assert row[0] == "x"
    assert [cell.value for cell in row[1:5] if isinstance(cell, Number)] == pytest.approx(
        [costs[0].read / 1000, costs[0].written / 1000, 0.01, 0.3]
    )
    cell = row[5]
    assert isinstance(cell, Number)
    assert (cell.value, cell.interval) == (
        costs[0].cost.value / 1000,
        (costs[0].cost.low / 1000, costs[0].cost.high / 1000),
    )
    bill = costs[0].bill
    assert bill is not None
    assert row[6:] == (Number(bill.cost / 1000, 2), Number(bill.saved / 1000, 2), None, Number(0.0, 0))
    nameless = replace(shown, arms=tuple(replace(each, settings={}) for each in shown.arms))
    assert costs_of(records_of(shown, ONCE), nameless) == ()


# --- strategies


def at_context(name: str, budget: int, context: int, outcomes: Sequence[str]) -> ArmRuns:
    made = arm("", outcomes)
    rows = tuple(replace(row, usage={"agent": Usage(10 * context, 1, calls=10)}) for row in made.rows)
    return replace(made, name=name, rows=rows, settings={"budget": budget, "kind": "fifo", "key": name})


ALL, HALF, NO = ["1"] * 8, ["1", "0"] * 4, ["0"] * 8


def test_between_two_budgets_a_strategy_is_their_mixture() -> None:
    shown = evaluation(
        "e",
        [at_context("x@100", 100, 1_000, NO), at_context("x@500", 500, 5_000, ALL), at_context("y", 1, 2_000, HALF)],
    )
    equal = equal_context(shown)
    assert equal is not None
    assert (equal.context, equal.against, equal.out_of_reach) == (2_000, "x", ())
    assert {name: each.value for name, each in equal.accuracies.items()} == {"x": 0.25, "y": 0.5}
    assert equal.differences["y"].value == 0.25


@pytest.mark.parametrize(("context", "reached"), [(1_000 * (1 + NEAR), True), (1_000 * (1 + 3 * NEAR), False)])
def test_an_arm_that_is_near_enough_is_at_the_same_context(context: float, reached: bool) -> None:
    shown = evaluation("e", [at_context("x", 1, 1_000, ALL), at_context("y", 2, int(context), NO)])
    assert (equal_context(shown) is not None) is reached


def test_prompting_is_what_others_are_measured_against() -> None:
    shown = evaluation("e", [at_context("fifo", 1, 1_000, ALL), at_context("prompting/history", 1, 1_000, HALF)])
    equal = equal_context(shown)
    assert equal is not None
    assert (equal.against, equal.differences["fifo"].value) == ("prompting/history", 0.5)


def test_each_pair_is_compared_once_and_each_arm_with_the_one_that_does_not_compress() -> None:
    none = replace(at_context("none", 1, 1_000, ALL), settings={"kind": "none", "key": "none"})
    none = replace(none, rows=tuple(replace(row, compactions=0) for row in none.rows))
    fifo = at_context("fifo", 1, 1_000, HALF)
    fifo = replace(fifo, rows=tuple(replace(row, compactions=2, steps=row.steps + 3) for row in fifo.rows))
    shown = evaluation("e", [none, fifo])
    side = strategies_of(records_of(shown, ONCE), shown)
    assert side is not None
    first, second = side.figures
    assert (first.verdicts, first.accuracy, first.steps) == (None, None, None)
    assert second.accuracy is not None
    assert second.steps is not None
    assert second.steps.delta == 3
    assert (second.accuracy.delta, second.before, second.after) == (-0.5, 30, 30)
    assert [(pair.first, pair.second) for pair in side.pairs] == [("fifo", "none")]
    table, pairs, *_ = side.tables(8)
    assert [row[0] for row in table.rows] == ["none", "fifo"]
    assert any(cell == "30 → 30" for cell in table.rows[1])
    assert [str(row[1]).rstrip("*") for row in pairs.rows] == ["", "-50.0"]


def test_what_summaries_cost_is_shared_among_the_compactions_to_the_last_token() -> None:
    row = TaskRun("t", 0, True, 9, usage={"agent": Usage(900, 9), "compressor": Usage(100, 1, 40)})
    bills = (CompactionBill(5, 10, 20), CompactionBill(6, 11, 21))
    shared = list(_full_bills(row, Compactions(2, 0, 0, 0.5, bills, (3, 4))))
    each = (60 + READ * 40 + OUTPUT) / 2
    assert shared == [(CompactionBill(5, 10, 20, each), 3), (CompactionBill(6, 11, 21, each), 4)]
    assert list(_full_bills(row, Compactions(0, 0, 0, 0.5))) == []
    free = replace(row, usage={"agent": Usage(900, 9)})
    assert [bill.summary for bill, _ in _full_bills(free, Compactions(1, 0, 0, 0.5, bills[:1], (3,)))] == [0.0]
