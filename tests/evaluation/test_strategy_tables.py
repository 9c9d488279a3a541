"""Strategies side by side: costs with a cache, sizes, H and B per compaction, and accuracy at equal mean context."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
from evaluation_support import arm
from made_up_runs import begin, collect, pair
from sentences import numbers_in

from recompact.attribution.judgement import read_verdicts
from recompact.attribution.means import MeanEffects, ViolationEffect
from recompact.engine.config import VerifyConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, TaskRun, read_arms
from recompact.evaluation.arm_verdicts import ArmVerdicts, plan_verifications, read_arm_verdicts, verify_arm
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
from recompact.evaluation.paired import Comparison, Difference
from recompact.evaluation.reproduction.forecast import forecast_evaluation
from recompact.evaluation.strategies import (
    EVERY,
    EqualContext,
    Strategies,
    StrategyFigures,
    equal_context,
    strategies,
    strategies_of,
)
from recompact.evaluation.summary import evaluation
from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.receipt import OUTPUT, READ, WRITE, cost
from recompact.values.stats import Estimate
from recompact.values.tables import Number, Table, render
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


# --- the tables, from made-up figures


def difference(key: str, delta: float, low: float, high: float, differ: int = 40) -> Difference:
    return Difference(key, 0.0, 0.0, delta, low, high, differ=differ)


def verdicts_of(*, draws: int, examined: int = 8, trajectories: int = 9, rules: bool = False) -> ArmVerdicts:
    effects = MeanEffects(9, examined, 3, draws, trajectories, Estimate(0.25, 0.125, 0.5), Estimate(1.5, -1.0, 4.0))
    broken = ViolationEffect(8, 0.5, 1.0, Estimate(0.5, 0.25, 0.75), trajectories)
    return ArmVerdicts(Path("r.db"), effects, broken if rules else None)


MEANS = {"acc": 0.5, "steps": 12.0, "compactions": 2.5, "context": 3_000.0, "peak": 5_000.0, "tokens": 60_000.0}
PLAIN = StrategyFigures("none", MEANS, Estimate(40_000.0, 30_000.0, 50_000.0), None, None)
LESS = StrategyFigures(
    "fifo",
    {**MEANS, "acc": 0.25},
    Estimate(20_500.0, 0.0, 0.0),
    4_400.4,
    1_200.6,
    difference("acc", -0.25, -0.5, -0.125),
    difference("steps", 2.0, -1.0, 5.0),
)


def table_of(*figures: StrategyFigures, tasks: int = 40, notes: tuple[str, ...] = ()) -> Table:
    return Strategies(figures, (), None, tuple(each.arm for each in figures), notes).tables(tasks)[0]


def column(table: Table, key: str) -> list[object]:
    at = [each.key for each in table.columns].index(key)
    return [cell.text if isinstance(cell := row[at], Number) else cell for row in table.rows]


def test_the_table_of_strategies_has_their_means_costs_and_differences() -> None:
    table = table_of(PLAIN, LESS, notes=("of the evaluation",))
    shown = {each.key: column(table, each.key) for each in table.columns}
    assert shown == {
        "arm": ["none", "fifo"],
        "acc": ["50.0", "25.0"],
        "accuracy": [None, "-25.0 [-50.0, -12.5]*"],
        "steps": ["12.0", "12.0"],
        "added": [None, "+2.0 [-1.0, +5.0]"],
        "compactions": ["2.50", "2.50"],
        "sizes": [None, "4,400 → 1,201"],
        "context": ["3.00", "3.00"],
        "peak": ["5.00", "5.00"],
        "tokens": ["60.0", "60.0"],
        "cost": ["40.0", "20.5"],
    }
    assert table.notes[0] == "of the evaluation"
    few = replace(LESS, accuracy=difference("acc", -0.25, -0.5, -0.125, 5))
    assert column(table_of(few), "accuracy") == ["-25.0 [-50.0, -12.5]"]  # no star: five tasks differ


def test_what_verification_says_stands_beside_each_strategy_that_was_verified() -> None:
    table = table_of(PLAIN, replace(LESS, verdicts=verdicts_of(draws=3, rules=True)))
    assert {key: column(table, key)[1] for key in ("hazard", "burden", "harmful", "broken")} == {
        "hazard": "0.250 [0.125, 0.500]",
        "burden": "1.50 [-1.00, 4.00]",
        "harmful": "3 of 8",
        "broken": "+0.50 [+0.25, +0.75]*",
    }
    few = table_of(replace(LESS, verdicts=verdicts_of(draws=3, trajectories=5)))
    assert (column(few, "hazard"), column(few, "burden")) == (["0.250"], ["1.50"])
    none = table_of(replace(LESS, verdicts=verdicts_of(draws=0, examined=0)))
    assert "harmful" not in [each.key for each in none.columns]


@pytest.mark.parametrize(
    ("draws", "said"),
    [((), "0 draws"), ((0,), "0 draws"), ((3,), "3 draws"), ((3, 3), "3 draws"), ((9, 0, 4, 3), "3 to 9 draws")],
)
def test_the_notes_say_from_how_many_draws_effects_come(draws: tuple[int, ...], said: str) -> None:
    arms = [replace(LESS, verdicts=verdicts_of(draws=each)) for each in draws]
    notes = " ".join(table_of(PLAIN, *arms).notes)
    assert (f"by {said} of each arm" in notes) is bool(draws)
    assert ("--verify; with --dry-run" in notes) is not bool(draws)
    assert "rules:" not in notes
    assert "rules:" in " ".join(table_of(replace(LESS, verdicts=verdicts_of(draws=1, rules=True))).notes)


def against(first: str, second: str, delta: float, low: float, high: float) -> Comparison:
    return Comparison(first, second, 40, 1, (difference("acc", delta, low, high),), 9, 9, 1.0)


@pytest.mark.parametrize(("count", "noted"), [(10, 1), (11, 2)])
def test_each_arm_stands_against_each_before_it(count: int, noted: int) -> None:
    pairs = (
        against("b", "a", 0.125, 0.1, 0.2),
        against("c", "a", -0.25, -0.4, 0.1),
        against("c", "b", -0.375, -0.5, -0.2),
    )
    table = Strategies((PLAIN,), pairs, None, ("a", "b", "c"), ()).tables(40)[1]
    assert table.rows == (("1 a", "", ""), ("2 b", "+12.5*", ""), ("3 c", "-25.0", "-37.5*"))
    assert [each.title for each in table.columns] == ["row minus column", "1", "2"]
    many = Strategies((PLAIN,), (pairs[0],) * count, None, ("a", "b"), ()).tables(40)[1]
    assert len(many.notes) == noted
    assert numbers_in(many.notes[-1])[:1] == (["11"] if noted > 1 else ["95"])


def test_at_one_mean_context_each_strategy_stands_against_one() -> None:
    accuracies = {"prompting": Estimate(0.5, 0.25, 0.75), "fifo": Estimate(0.75, 0.5, 1.0)}
    equal = EqualContext(2_350.0, accuracies, "prompting", {"fifo": Estimate(0.25, 0.125, 0.5)}, ())
    table = Strategies((PLAIN,), (), equal, ("none",), ()).tables(40)[2]
    assert numbers_in(table.title) == ["2.35"]
    assert [[c.text if isinstance(c, Number) else c for c in row] for row in table.rows] == [
        ["prompting", "50.0 [25.0, 75.0]", None],
        ["fifo", "75.0 [50.0, 100.0]", "+25.0 [+12.5, +50.0]*"],
    ]
    assert len(table.notes) == 2
    left_out = replace(equal, out_of_reach=("x", "y"))
    assert "x, y" in Strategies((PLAIN,), (), left_out, ("none",), ()).tables(40)[2].notes[-1]
    assert len(Strategies((PLAIN,), (), None, ("none",), ()).tables(40)) == 2


def curve(name: str, *points: tuple[int, str]) -> list[ArmRuns]:
    """Arms of a strategy: for each mean context, how its tasks went."""
    return [
        with_context(arm("", list(outcomes)), f"{name}@{budget}", budget, context)
        for budget, (context, outcomes) in enumerate(points, 100)
    ]


@pytest.mark.parametrize(
    ("context", "reached"), [(2_000, True), (1_960, True), (1_959, False), (2_040, True), (2_041, False)]
)
def test_a_strategy_of_one_budget_reaches_contexts_within_two_per_cent(context: int, reached: bool) -> None:
    arms = [*curve("ends", (1_000, "00"), (2_000, "11"), (3_000, "11")), *curve("alone", (context, "10"))]
    equal = equal_context(evaluation("e", arms))
    assert equal is not None
    assert set(equal.accuracies) == {"ends", "alone"}
    only = [*curve("ends", (2_000, "11")), *curve("alone", (context, "10"))]
    assert (equal_context(evaluation("e", only)) is not None) is reached


def test_between_two_budgets_a_strategy_is_their_weighted_mean() -> None:
    arms = [*curve("lavish", (1_000, "0000"), (3_000, "1100")), *curve("prompting", (1_500, "1000"), (9_000, "1111"))]
    equal = equal_context(evaluation("e", arms))
    assert equal is not None
    assert (equal.against, equal.out_of_reach) == ("prompting", ())
    assert equal.context == 3_000  # of the contexts that most reach, the one nearest to the middle
    assert {name: each.value for name, each in equal.accuracies.items()} == {
        "lavish": 0.5,
        "prompting": pytest.approx((1 + 0.2 * 3) / 4),
    }
    assert equal.differences["lavish"].value == pytest.approx(0.5 - 1.6 / 4)


# --- runs of their own


def test_only_arms_that_compress_are_verified_each_in_a_run_named_after_it(tmp_path: Path) -> None:
    arms = parse_arms(("none", "masking", "prompting@700"), CONFIG.compressor, default_template())
    plans = plan_verifications(CONFIG, arms, tmp_path / "e.db")
    assert [(plan.arm.name, plan.run.name) for plan in plans] == [
        ("masking", "e-masking.db"),
        ("prompting@700", "e-prompting@700-history.db"),
    ]
    assert [plan.config.compressor for plan in plans] == [arm.settings(CONFIG.compressor) for arm in arms[1:]]
    assert read_arm_verdicts(plans) == {}
    for plan, verified in zip(plans, (None, VerifyConfig(allocation="uniform:1")), strict=True):
        with Store.open(plan.run) as run:
            begin(run, verified=verified)
            collect(run, "t")
            pair(run, "t", 1, 0, (1.0, 5), (0.0, 9))
    verdicts = read_arm_verdicts(plans)
    assert list(verdicts) == ["prompting@700/history"]  # the other one was not verified yet
    (only,) = verdicts.values()
    assert (only.run, only.effects.boundaries, only.violations) == (plans[1].run, 1, None)
    data = only.to_json()
    assert (data["run"], data["boundaries"], data["violations"]) == (str(plans[1].run), 1, None)
    rules = verdicts_of(draws=3, rules=True)
    assert rules.violations is not None
    assert rules.to_json()["violations"] == asdict(rules.violations)


def test_strategies_as_a_record() -> None:
    verified = replace(LESS, verdicts=verdicts_of(draws=3))
    equal = EqualContext(2_350.0, {"fifo": Estimate(0.5, 0.25, 0.75)}, "fifo", {}, ("x",))
    data = Strategies((PLAIN, verified), (against("b", "a", 0.125, 0.1, 0.2),), equal, ("none", "fifo"), ()).to_json()
    assert [each["arm"] for each in data["strategies"]] == ["none", "fifo"]
    assert verified.verdicts is not None
    assert [each["verdicts"] for each in data["strategies"]] == [None, verified.verdicts.to_json()]
    assert [(each["first"], each["second"]) for each in data["pairs"]] == [("b", "a")]
    assert data["equal_context"] == asdict(equal)
    assert (data["equal_context"]["context"], data["equal_context"]["out_of_reach"]) == (2_350.0, ("x",))
    assert Strategies((PLAIN,), (), None, ("none",), ()).to_json()["equal_context"] is None
