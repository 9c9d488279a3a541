"""Strategies side by side: costs with a cache, sizes, H and B per compaction, and accuracy at equal mean context."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from evaluation_support import arm

from recompact.attribution.judgement import read_verdicts
from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, TaskRun, read_arms
from recompact.evaluation.arm_verdicts import plan_verifications, read_arm_verdicts, verify_arm
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.costs import (
    Compactions,
    _cached_share,
    arm_costs,
    common_size,
    compactions_of,
    cost_table,
    costs_of,
)
from recompact.evaluation.evaluate import evaluate, open_evaluation, unit_of
from recompact.evaluation.reproduction.forecast import forecast_evaluation
from recompact.evaluation.strategies import (
    EVERY,
    equal_context,
    strategies,
    strategies_of,
)
from recompact.evaluation.summary import evaluation
from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.prices import OUTPUT, READ, WRITE, cost
from recompact.values.tables import render
from recompact.values.template import default_template

CONFIG = parse_config("[suite]\nlimit = 6\n[compressor]\nbudget = 2048\n", Path("c.toml"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("strategies") / "r.db"

    async def play() -> None:
        async with open_evaluation(CONFIG, path) as study:
            names = ("none", "prompting", "masking", "fifo@1500")
            await evaluate(study, parse_arms(names, CONFIG.compressor, default_template()), 1)

    asyncio.run(play())
    return Store.open(path)


def same_beginning(one: Context, other: Context) -> int:
    """How much of two contexts is the same from the beginning on, by the values themselves."""
    if one.summary != other.summary:
        return 0
    size = one.summary.tokens if one.summary else 0
    for old, new in zip(one.turns, other.turns, strict=False):
        if old != new:
            break
        size += old.tokens
    return size


def test_what_a_cache_has_is_counted_from_the_contexts_of_the_calls(store: Store) -> None:
    rows = [row for row in trajectories(store, phase="evaluate") if row.compactions]
    assert rows
    for row in rows:
        played = read_trajectory(store, row.unit)
        context, contexts = Context(played.context.prefix), []
        boundaries = {each.step: each for each in played.boundaries}
        for step, turn in enumerate(played.turns):
            context = boundaries[step].post if step in boundaries else context
            contexts.append(context)
            context = context.extended(turn)
        fixed = played.peak - max(each.size for each in contexts)
        read = sum(fixed + same_beginning(one, other) for one, other in pairwise(contexts))
        made = compactions_of(store, row.unit)
        assert made.number == len(boundaries)
        assert made.before == sum(each.pre.size for each in boundaries.values())
        assert made.after == sum(each.post.size for each in boundaries.values())
        assert made.cached == pytest.approx(read / sum(fixed + each.size for each in contexts))


def test_a_summary_leaves_nothing_cached_and_masking_what_was_masked_before() -> None:
    turns = [["a", ["ra"], 10], ["b", ["rb"], 20], ["c", ["rc"], 30]]
    masked = [["a", ["ra"], 10], ["b", ["mask"], 5], ["c", ["rc"], 30]]
    pre = {"summary": None, "turns": turns}
    assert common_size(pre, {"summary": None, "turns": masked}) == 10
    assert common_size(pre, {"summary": ["s", 9], "turns": turns[-1:]}) == 0
    assert common_size(pre, pre) == 60
    summarized = {"summary": ["s", 9], "turns": turns, "pinned": [["p", 4]]}
    assert common_size(summarized, {**summarized, "turns": masked}) == 9 + 4 + 10


def test_costs_are_in_tokens_of_uncached_input() -> None:
    usage = {"agent": Usage(1000, 10), "compressor": Usage(200, 20), "user": Usage(999, 999)}
    assert cost(usage, 0.5) == 1000 * (READ + WRITE) / 2 + 200 + 30 * OUTPUT
    assert cost({}, 0.0) == 0


def test_every_strategy_stands_against_none_and_each_other(store: Store) -> None:
    shown = evaluation("pocket", read_arms(store))
    side = strategies_of(store, shown)
    assert side is not None
    by_arm = {each.arm: each for each in side.figures}
    none, prompting = by_arm["none"], by_arm["prompting/history"]
    assert (none.verdicts, none.accuracy, none.before) == (None, None, None)
    assert prompting.verdicts is None  # nobody asked for them
    assert prompting.accuracy is not None
    assert prompting.steps is not None
    assert len(side.pairs) == 6
    for form in ("terminal", "markdown", "csv", "latex"):
        assert all(render(table, form) for table in side.tables(6))


def test_the_compactions_of_an_arm_are_verified_in_a_run_of_its_own(store: Store, tmp_path: Path) -> None:
    few = replace(CONFIG, suite=replace(CONFIG.suite, limit=3))
    arms = parse_arms(("none", "prompting", "fifo@1500"), few.compressor, default_template())
    plans = plan_verifications(few, arms, tmp_path / "r.db")
    assert [plan.run.name for plan in plans] == ["r-prompting-history.db", "r-fifo@1500.db"]
    assert [plan.config.compressor.budget for plan in plans] == [2048, 1500]
    assert read_arm_verdicts(plans) == {}
    fifo = plans[1]
    expected = asyncio.run(forecast_evaluation(few, arms, 1, tmp_path / "r.db", [fifo]))
    asyncio.run(verify_arm(fifo, lambda study, _: nullcontext(study)))
    verdicts = read_arm_verdicts(plans)
    assert list(verdicts) == ["fifo@1500"]
    with Store.read(fifo.run) as run:
        every, draws = read_verdicts(run), len(continuation_rows(run))
    effects = verdicts["fifo@1500"].effects
    assert effects.boundaries == len(every.verdicts) > 0
    assert effects.retained == len(every.retained)
    assert [work.name for work in expected.works] == ["evaluate", "collect fifo@1500", "verify fifo@1500"]
    assert expected.works[2].expected.units == pytest.approx(draws, rel=0.3)
    done = asyncio.run(forecast_evaluation(few, arms, 1, tmp_path / "r.db", [fifo])).works[2]
    assert (done.done, done.expected.units) == (draws, 0)
    side = strategies_of(store, evaluation("pocket", read_arms(store)), verdicts)
    assert side is not None
    shown = {each.arm: each.verdicts for each in side.figures}
    assert shown["fifo@1500"] == verdicts["fifo@1500"]
    assert shown["masking"] is None
    keys = [column.key for column in side.tables(6)[0].columns]
    assert {"hazard", "burden", "harmful"} <= set(keys)
    assert "broken" not in keys  # pocket's ordinary tasks have no rules
    assert side.to_json()["strategies"][3]["verdicts"]["retained"] == effects.retained


def with_context(made: ArmRuns, name: str, budget: int, context: int) -> ArmRuns:
    rows = tuple(replace(row, usage={"agent": Usage(10 * context, 1, calls=10)}) for row in made.rows)
    return replace(made, name=name, rows=rows, settings={"budget": budget, "kind": "fifo"})


def test_at_equal_context_an_arm_that_merely_keeps_more_is_no_better() -> None:
    none, all_of_it = ["0"] * 20, ["1"] * 20
    arms = [
        with_context(arm("", none), "thrifty@100", 100, 1000),
        with_context(arm("", all_of_it), "thrifty@300", 300, 3000),
        with_context(arm("", ["1"] * 10 + ["0"] * 10), "lavish@200", 200, 2000),
        with_context(arm("", all_of_it), "alone@50", 50, 9000),
    ]
    found = equal_context(evaluation("e", arms))
    assert found is not None
    assert found.context == 2000
    assert {name: each.value for name, each in found.accuracies.items()} == {"thrifty": 0.5, "lavish": 0.5}
    assert [each.value for each in found.differences.values()] == [0]
    assert found.out_of_reach == ("alone",)


def test_strategies_are_named_like_arms() -> None:
    assert strategies("all") == EVERY
    assert strategies("none,prompting@phase") == ("none", "prompting@phase")
    parse_arms(EVERY, CONFIG.compressor, default_template())
    with pytest.raises(InputError, match="all"):
        strategies(" , ")


def test_what_an_arm_reads_writes_and_pays_adds_up(store: Store) -> None:
    shown = evaluation("pocket", read_arms(store))
    costs = costs_of(store, shown)
    assert [each.arm for each in costs] == [arm.label for arm in shown.arms]
    for each, own in zip(costs, shown.arms, strict=True):
        agent = [row.usage["agent"] for row in own.rows]
        assert each.read + each.written == pytest.approx(sum(usage.input for usage in agent) / len(agent))
        whole = READ * each.read + WRITE * each.written + OUTPUT * each.output + each.summaries
        assert each.cost.value == pytest.approx(whole)
        assert (each.bill is None) == (each.compactions == 0) == (each.paid is None)
    assert len(cost_table(costs).rows) == len(costs)


def test_a_compaction_has_paid_where_enough_calls_follow(store: Store) -> None:
    shown = evaluation("pocket", read_arms(store))
    prompting = next(each for each in shown.arms if each.label.startswith("prompting"))
    costs = arm_costs(store, shown, prompting)
    assert costs.bill is not None
    every = [compactions_of(store, unit_of(prompting.settings["key"], row.task, row.run)) for row in prompting.rows]
    assert sum(each.number for each in every) == costs.compactions
    for each in every:
        assert len(each.bills) == len(each.following) == each.number
        assert all(bill.read + bill.written + bill.saved > 0 for bill in each.bills)
    assert costs.bill.saved == round((costs.before - costs.after) / costs.compactions)


def test_what_a_server_reports_comes_before_what_we_assume() -> None:
    row = TaskRun("t", 0, True, 3, usage={"agent": Usage(1000, 10, cached=900, cache_reported=1000)})
    assumed = Compactions(0, 0, 0, 0.25)
    assert _cached_share(row, assumed) == 0.9
    assert _cached_share(replace(row, usage={"agent": Usage(1000, 10)}), assumed) == 0.25
