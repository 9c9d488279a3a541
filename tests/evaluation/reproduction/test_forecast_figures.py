"""The figures of forecasts, worked out by hand from what a usual trajectory takes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from made_up_runs import begin, collect
from sentences import numbers_in

from recompact.adaptation.method import load_method
from recompact.attribution.bisection.bisect import SHARE
from recompact.attribution.registry import allocation_named
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.forecast import Amount, Forecast, Work
from recompact.engine.store.calls import pace_of
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arms import Arm
from recompact.evaluation.probes import CompactionPoint
from recompact.evaluation.probing import PLANTED
from recompact.evaluation.reproduction.forecast import (
    UsualTrajectory,
    assumed_habits,
    forecast_adaptation,
    forecast_collection,
    forecast_evaluation,
    forecast_gate,
    forecast_pairs,
    forecast_probes,
    forecast_verification,
    habits_of,
    imagined_draws,
    measured_habits,
    number_of_tasks,
    published_habits,
)
from recompact.evaluation.reproduction.paper import arm_figures, benchmark
from recompact.models.journal import JournaledReply
from recompact.suites.pocket import PocketSuite
from recompact.values.chat import Message, Reply, ToolCall, Usage, assistant, system, user
from recompact.values.context import Context, Summary, Turn

TASKS = 16
BUDGET = 2_200
STEPS, COMPACTIONS = 25, 2.5  # half the limit, and what is assumed


def config_of(suite: str = "mine.py:suite", scope: str = "history", tasks: int = 20, limit: int = TASKS) -> Config:
    names = json.dumps([f"t{n}" for n in range(tasks)])
    return parse_config(
        f'[suite]\nuse = "{suite}"\ntasks = {names}\nlimit = {limit}\n[models.m]\nbase_url = "http://127.0.0.1:1/v1"\n'
        f'id = "m"\n[agent]\nmodel = "m"\n[compressor]\nmodel = "m"\nbudget = {BUDGET}\nscope = "{scope}"\n'
        '[optimizer]\nmodel = "m"\n',
        Path("mine.toml"),
    )


def works(forecast: Forecast) -> dict[str, Work]:
    return {work.name: work for work in forecast.works}


def test_where_nothing_is_known_half_the_steps_with_twice_the_budget_are_assumed() -> None:
    tokens = STEPS * 2 * BUDGET  # 110,000; of 27.5 calls 2.5 are the compressor's, and a twentieth is written
    habits = assumed_habits(config_of())
    assert (habits.steps, habits.compactions, habits.seconds) == (STEPS, COMPACTIONS, None)
    assert habits.usage == {"agent": Usage(95_000, 5_000, calls=25), "compressor": Usage(9_500, 500, calls=2)}
    assert habits.tokens == tokens


@pytest.mark.parametrize("name", ["appworld", "officebench", "tau2-retail"])
@pytest.mark.parametrize("scope", ["history", "prefix"])
def test_of_a_benchmark_the_papers_figures_are_known(name: str, scope: str) -> None:
    known, habits = benchmark(name), published_habits(config_of(name, scope))
    assert known is not None
    assert habits is not None
    figures = arm_figures(name, "prompting", scope)
    assert (habits.steps, habits.compactions) == (
        figures["steps"],
        known.of("cost", scope, "boundaries") / known.train,
    )
    tokens = figures.get("tokens", figures["steps"] * figures["peak"])
    assert habits.tokens == pytest.approx(1_000 * tokens, abs=2)
    share = habits.compactions / (habits.steps + habits.compactions)
    assert habits.usage["compressor"].total == pytest.approx(share * habits.tokens, abs=2)
    assert habits.usage["agent"].calls == round(habits.steps)
    assert published_habits(config_of("pocket", scope)) is None  # it only stands beside one


def test_five_trajectories_with_compactions_tell_the_habits_of_a_run(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.db") as store:
        begin(store)
        for n in range(5):
            usage = {"agent": Usage(1_000 * n, 10, calls=20), "compressor": Usage(100, 50, calls=n)}
            collect(store, f"t{n}", (5, 9) if n % 2 else (5,), steps=20 + n, usage=usage)
        collect(store, "plain", (), steps=400, usage={"agent": Usage(9_000_000, 1, calls=1)})
        rows = trajectories(store)
    assert measured_habits([row for row in rows if row.task != "t0"]) is None
    habits = measured_habits(rows)
    assert habits is not None
    assert (habits.steps, habits.compactions) == (22, 1.4)
    assert habits.usage == {"agent": Usage(2_000, 10, calls=20), "compressor": Usage(100, 50, calls=2)}
    assert numbers_in(habits.basis) == ["5"]
    shown = asyncio.run(forecast_collection(config_of(), tmp_path / "r.db"))
    assert shown.works == (
        Work(
            "collect",
            "trajectory",
            6,
            Amount(10, {"agent": Usage(20_000, 100, calls=200), "compressor": Usage(1_000, 500, calls=20)}),
        ),
    )
    assert numbers_in(shown.basis) == ["5", "22", "2", "1.4"]
    done = asyncio.run(forecast_collection(config_of(limit=3), tmp_path / "r.db")).works[0]
    assert (done.done, done.expected.units, done.expected.tokens) == (3, 0, 0)


@pytest.mark.parametrize(("tasks", "limit", "number"), [(20, 16, 16), (9, 16, 9), (16, 16, 16)])
async def test_no_more_tasks_are_played_than_there_are_or_than_may_be(tasks: int, limit: int, number: int) -> None:
    assert await number_of_tasks(config_of(tasks=tasks, limit=limit), "train") == number


def of(habits: UsualTrajectory, number: int) -> Amount:
    """So many whole trajectories."""
    return Amount(
        number,
        {
            role: Usage(own.input * number, own.output * number, calls=own.calls * number)
            for role, own in habits.usage.items()
        },
    )


def test_a_gate_plays_both_sides_of_each_pair(tmp_path: Path) -> None:
    config, habits = config_of(), assumed_habits(config_of())
    (whole,) = asyncio.run(forecast_gate(config, 30, tmp_path / "none.db", replay=False)).works
    assert (numbers_in(whole.name), whole.unit, whole.done, whole.expected) == (["30"], "trajectory", 0, of(habits, 60))
    (replayed,) = asyncio.run(forecast_gate(config, 30, tmp_path / "none.db", replay=True)).works
    assert (replayed.unit, replayed.done, replayed.expected.units) == ("continuation", 0, 60)
    assert set(replayed.expected.usage) == {"agent"}  # nothing is compacted in a continuation
    assert replayed.expected.tokens == pytest.approx(0.7 * 60 * habits.tokens, abs=2)


def test_an_evaluation_plays_each_arm_on_each_task_in_each_run(tmp_path: Path) -> None:
    shown = asyncio.run(forecast_evaluation(config_of(), [Arm("a"), Arm("b"), Arm("c")], 4, tmp_path / "none.db"))
    assert shown.works == (Work("evaluate", "trajectory", 0, of(assumed_habits(config_of()), 3 * TASKS * 4)),)


def test_an_adaptation_asks_about_harmful_compactions_and_for_each_candidate(tmp_path: Path) -> None:
    config, path = config_of(), tmp_path / "none.db"
    settings, habits = config.adapt, assumed_habits(config)
    assert (settings.candidates, settings.fit_tasks, settings.fit_runs) == (5, 12, 1)
    pair = works(asyncio.run(forecast_adaptation(config, load_method("pair"), path)))
    assert list(pair) == ["collect", "verify", "revise", "select"]
    draws = imagined_draws(allocation_named(config.verify), round(TASKS * COMPACTIONS))
    assert pair["collect"].expected == of(habits, TASKS)
    assert pair["verify"].expected.units == draws
    calls = 4 + 3 * 5  # one compaction in ten is harmful
    read = round(calls * settings.evidence_tokens / 4)
    usage = Usage(read, 1_000 * calls, calls=calls)
    assert pair["revise"] == Work("revise", "question", 0, Amount(calls, {"optimizer": usage}))
    assert pair["select"].expected == of(habits, 6 * 12)
    tested = works(asyncio.run(forecast_adaptation(config, load_method("causes"), path)))
    searches = tested["bisect"]
    assert searches.at_most is not None
    assert searches.at_most.units == int(SHARE * draws)
    assert searches.expected.units == min(int(SHARE * draws), 25 * 4)
    acon = works(asyncio.run(forecast_adaptation(config, load_method("acon-ut"), path)))
    assert "verify" not in acon
    assert acon["revise"].expected.units == TASKS // 2 + 3 * 5
    few = works(asyncio.run(forecast_adaptation(config_of(limit=4), load_method("pair"), path)))
    assert few["select"].expected.units == 6 * 4


def said(text: str, tokens: int, *results: Message, **call: object) -> Turn:
    calls = (ToolCall("c", "pay", json.dumps(call)),) if call else ()
    return Turn(Message("assistant", text, calls), results, tokens)


BILLS = said("", 300, Message("tool", "token tok-7f3a, invoice inv-42", call_id="c"), what="bills")
RULE = said("ok", 50, user("Never pay more than 50 without asking."))
NEXT = said("", 20, token="tok-7f3a", invoice="inv-42")
PREFIX = (system("Be good."), user("Pay."))


def point(name: str, *, probes: bool = True, budget: int | None = None) -> CompactionPoint:
    pre = Context(PREFIX, Summary("before", 30), (BILLS, RULE, said("?", 10)))
    later = (NEXT, NEXT) if probes else ()
    bare = Context(PREFIX, None, (said("?", 10),))
    return CompactionPoint(name, pre if probes else bare, None, later, later[:1], budget=budget)


ARMS = [Arm("prompting"), Arm("mixed", kind="masking+prompted"), Arm("fifo", kind="fifo")]


def test_probes_are_asked_in_every_arm_besides_the_whole_and_the_record() -> None:
    points = [point("a"), point("b", budget=500), point("c", probes=False)]
    each = len(points[0].probes)
    facts = len(points[0].facts)
    assert each > facts > 0
    assert points[2].probes == ()
    size = points[0].pre.size
    assert size == 390
    shown = works(forecast_probes(config_of(), points, ARMS, ask=True, judge=True))
    usage = Usage(2 * 2 * (size + 20), 2 * 2 * (BUDGET + 500), calls=2 * 4)
    assert shown["compact"] == Work("compact", "compaction", 0, Amount(2 * 2, {"compressor": usage}))
    asked = 2 * each * 5
    read = each * (size + 4 * BUDGET) + each * (size + 4 * 500)
    assert shown["ask"] == Work("ask", "question", 0, Amount(asked, {"agent": Usage(read, 20 * asked, calls=asked)}))
    judged = 5 * 2 * (each - facts) + 4 * PLANTED
    usage = Usage(300 * judged, 2 * judged, calls=judged)
    assert shown["judge"] == Work("judge", "verdict", 0, Amount(judged, {"optimizer": usage}))
    basis = forecast_probes(config_of(), points, ARMS, ask=True, judge=True).basis
    assert numbers_in(basis) == ["2", f"{2 * each}"]
    assert list(works(forecast_probes(config_of(), points, ARMS[2:], ask=False, judge=False))) == []


def test_pairs_by_probes_cost_the_mean_of_the_compactions() -> None:
    points = [point("a"), point("b", budget=500)]
    shown = forecast_pairs(config_of(), points, ARMS[1:], 7)
    usage = Usage(round(3.5 * 780), round(3.5 * (BUDGET + 500)), calls=7)
    assert shown.works == (Work(shown.works[0].name, "compaction", 0, Amount(14, {"compressor": usage})),)
    assert (numbers_in(shown.works[0].name), numbers_in(shown.basis)) == (["7"], ["2"])
    assert forecast_pairs(config_of(), points, ARMS[2:], 7).works[0].expected == Amount(14, {})


async def test_of_simulated_models_the_tasks_of_the_config_are_played(tmp_path: Path) -> None:
    names = [task.id for task in PocketSuite().tasks("train")[:4]]
    config = parse_config(f'[suite]\nuse = "pocket"\ntasks = {json.dumps(names)}\nlimit = 2\n', Path("mine.toml"))
    habits = await habits_of(config)
    assert numbers_in(habits.basis) == ["2"]
    assert habits.steps > 0


def test_what_was_collected_is_verified_by_its_own_boundaries(tmp_path: Path) -> None:
    config, path = config_of(), tmp_path / "r.db"
    with Store.open(path) as store:
        begin(store)
        for n in range(3):
            collect(store, f"t{n}", (5, 9))
            store.journal(JournaledReply(f"collect/t{n}", 0, "agent", "m", "00" * 32, Reply(assistant("yes")), 0.5))
        shown = forecast_verification(config, store)
        pace = pace_of(store, "m")
    expected = works(asyncio.run(forecast_adaptation(config, load_method("pair"), path)))["verify"]
    assert expected == shown.works[0]
    assert expected.expected.units == imagined_draws(allocation_named(config.verify), 6)
    assert shown.seconds == pytest.approx(pace.call + pace.pause)
    with Store.open(tmp_path / "plain.db") as store:
        begin(store)
        collect(store, "t0", ())
    none = works(asyncio.run(forecast_adaptation(config, load_method("pair"), tmp_path / "plain.db")))["verify"]
    assert none.expected.units == imagined_draws(allocation_named(config.verify), round(TASKS * COMPACTIONS))
