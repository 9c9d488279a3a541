"""What a reproduction takes, before it begins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from commands import recompact
from sentences import numbers_in

from recompact.attribution.halving import rollouts
from recompact.engine.config import CeilingConfig, Config
from recompact.engine.config_parser import parse_config
from recompact.engine.forecast import Amount, Forecast, Work, forecast_table
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.reproduction.experiments import (
    Adaptations,
    Diagnostics,
    Experiment,
    Setting,
    UnseenTasks,
    Windows,
)
from recompact.evaluation.reproduction.forecast import assumed_habits, forecast_reproduction, habits_of, number_of_tasks
from recompact.evaluation.reproduction.paper import benchmark
from recompact.models.endpoint import Price
from recompact.models.journal import JournaledReply
from recompact.values.chat import Reply, Usage, assistant
from recompact.values.context import Context
from recompact.values.trajectory import Score, Trajectory


def forecast(setting: Setting, experiments: Sequence[Experiment], train: int, test: int) -> Forecast:
    return asyncio.run(forecast_reproduction(setting, experiments, train, test))


def config_of(suite: str, scope: str = "history", price: str = "") -> Config:
    models = f'[models.m]\nbase_url = "http://127.0.0.1:1/v1"\nid = "m"\n{price}[agent]\nmodel = "m"\n'
    text = f'[suite]\nuse = "{suite}"\n{models}[compressor]\nbudget = 2048\nscope = "{scope}"\n'
    return parse_config(text, Path("mine.toml"))


@pytest.mark.parametrize("name", ["appworld", "officebench", "tau2-retail"])
@pytest.mark.parametrize("scope", ["history", "prefix"])
def test_an_adaptation_is_forecast_within_a_factor_of_two(name: str, scope: str, tmp_path: Path) -> None:
    known = benchmark(name)
    assert known is not None
    cost = known.of("cost", scope)
    setting = Setting(config_of(name, scope), tmp_path)
    expected = forecast(setting, [Adaptations("history", ("pair",))], known.train, known.test)
    assert expected.works[1].expected.units == pytest.approx(cost["continuations"], rel=0.01)
    assert 0.5 < expected.total.tokens / 1e6 / cost["tokens"] < 2


def test_every_run_is_counted(tmp_path: Path) -> None:
    setting = Setting(config_of("pocket"), tmp_path)
    experiments: list[Experiment] = [
        Adaptations("history", ("acon-ut", "acon-utco", "pair")),
        UnseenTasks(("pair",)),
        Windows(),
        Diagnostics(),
    ]
    works = {work.name: work for work in forecast(setting, experiments, train=40, test=10).works}
    units = {name: work.expected.units for name, work in works.items()}
    # collected, without compaction, under UT's winner; three selections and UTCO's first
    assert units == {
        "adapt-history": 3 * 40 + 4 * 6 * 12,
        "adapt-history, draws": rollouts(100),
        "evaluate": (2 + 2 * 2) * 10 * 3,
        "windows": 4 * 40 * 3,
        "boundaries": 40,
        "boundaries, draws": 18 * 100,
    }
    assert all(work.done == 0 for work in works.values())


def test_money_needs_a_price(tmp_path: Path) -> None:
    setting = Setting(config_of("tau2-retail"), tmp_path)
    unpriced = forecast(setting, [Windows()], 10, 10)
    assert unpriced.money is None
    priced = replace(setting, config=config_of("tau2-retail", price="price = { input = 1.0, output = 1.0 }\n"))
    shown = forecast(priced, [Windows()], 10, 10)
    assert shown.money == pytest.approx(shown.total.tokens / 1e6)


def test_where_nothing_is_known_that_is_said(tmp_path: Path) -> None:
    shown = forecast(Setting(config_of("mine.py:suite"), tmp_path), [Windows()], 10, 10)
    assert "assumptions" in shown.basis


async def test_a_benchmark_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(config: Config) -> None:
        raise InputError("it is not installed")

    monkeypatch.setattr("recompact.evaluation.reproduction.forecast.open_suite", missing)
    known = benchmark("appworld")
    assert known is not None
    read = parse_config('[suite]\nuse = "appworld"\nsplit = "train"\n', Path("mine.toml"))
    assert await number_of_tasks(read, read.suite.split) == known.train
    assert await number_of_tasks(config_of("appworld"), "train") == known.train
    assert await number_of_tasks(config_of("appworld"), "test_normal") == known.test
    with pytest.raises(InputError):
        await number_of_tasks(config_of("mine.py:suite"), "train")


@pytest.mark.parametrize(
    ("ceiling", "spent", "said"),
    [
        (CeilingConfig(tokens=3_000), 0, "is enough"),
        (CeilingConfig(tokens=3_000), 2_500, "after about 25% of it"),
        (CeilingConfig(), 0, None),
    ],
)
def test_whether_the_ceiling_suffices_is_told(ceiling: CeilingConfig, spent: int, said: str | None) -> None:
    work = Work("collect", "trajectory", 0, Amount(2, {"agent": Usage(1_500, 500, calls=4)}))
    notes = forecast_table(Forecast((work,), "a guess"), ceiling, Amount(0, {"agent": Usage(spent)})).notes
    about = [note for note in notes if "[ceiling]" in note]
    assert [bool(said and said in note) for note in about] == ([True] if said else [])


def test_money_that_is_spent_is_not_rounded_away() -> None:
    work = Work("collect", "trajectory", 0, Amount(2, {"agent": Usage(1_500, 500, calls=4)}))
    priced = Forecast((work,), "a guess", prices={"agent": Price(1.0, 1.0)})
    (about,) = [note for note in forecast_table(priced, CeilingConfig(money=20.0), paid=0.26).notes if "[ceil" in note]
    assert numbers_in(about) == ["20", "0.26"]


async def test_a_few_trajectories_tell_the_speed_though_not_the_habits(tmp_path: Path) -> None:
    config, path = config_of("mine.py:suite"), tmp_path / "few.db"
    with Store.open(path) as store:
        trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
        store.journal(
            JournaledReply("collect/t", 0, "agent", config.agent.model, "00" * 32, Reply(assistant("yes")), 0.5)
        )
        write_trajectory(store, "collect/t", trajectory, phase="collect", run=0, groups={}, seconds=2.0)
    habits = await habits_of(config, [path])
    assert (habits.seconds, habits.steps) == (2.0, assumed_habits(config).steps)
    assert (await habits_of(config)).seconds is None


def test_time_follows_from_the_speed_and_the_places() -> None:
    work = Work("collect", "trajectory", 0, Amount(2, {"agent": Usage(calls=40), "compressor": Usage(calls=10)}))
    assert Forecast((work,), "runs", seconds=3.0, concurrency=5).duration == 30.0
    assert Forecast((work,), "runs").duration is None


@pytest.mark.slow
def test_what_simulated_models_will_use_is_forecast_within_half(tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text('[suite]\nuse = "pocket"\nlimit = 12\n[compressor]\nbudget = 2048\n')
    expected = {
        step: json.loads(recompact(step, config, "--dry-run", "--json", *more).stdout)["tokens"]
        for step, more in (("collect", ()), ("evaluate", ("--arm", "prompting", "--runs", 1)))
    }
    assert not (tmp_path / "runs").exists()
    for step, more in (("collect", ()), ("evaluate", ("--arm", "prompting", "--runs", 1))):
        assert recompact(step, config, *more, "--json").returncode == 0
    for step, name in (("collect", "small"), ("evaluate", "small-evaluate")):
        with Store.read(tmp_path / "runs" / f"{name}.db") as store:
            used = sum(usage.total for usage in store.spent().values())
        assert 1 / 1.5 < expected[step] / used < 1.5, (step, expected[step], used)
    left = json.loads(recompact("collect", config, "--dry-run", "--json").stdout)
    assert (left["tokens"], left["works"][0]["done"]) == (0, 12)


def test_an_adaptation_counts_what_is_left_of_each_step(tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text('[suite]\nuse = "pocket"\nlimit = 6\n[compressor]\nbudget = 2048\n[ceiling]\ntokens = 1000\n')
    works = json.loads(recompact("adapt", config, "--dry-run", "--json").stdout)["works"]
    assert [work["name"] for work in works] == ["collect", "verify", "bisect", "select"]
    assert all(work["expected"]["units"] for work in works)
    _, verification, searches, _ = works
    assert searches["expected"]["units"] <= searches["at_most"]["units"] == verification["expected"]["units"] // 2
    pair = json.loads(recompact("adapt", config, "--method", "pair", "--dry-run", "--json").stdout)["works"]
    assert [work["name"] for work in pair] == ["collect", "verify", "revise", "select"]
    facts = json.loads(recompact("adapt", config, "--method", "facts", "--dry-run", "--json").stdout)["works"]
    assert "revise" not in [work["name"] for work in facts]
    assert "[ceiling]" in recompact("adapt", config, "--dry-run").stdout


def test_a_currency_is_named_and_a_time_can_be_worked_out(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    price = "price = { input = 1.0, output = 4.0, currency = 'EUR' }"
    config.write_text(
        f'[suite]\nuse = "pocket"\n[models.m]\nid = "m"\nbase_url = "http://127.0.0.1:9/v1"\n{price}\n'
        '[agent]\nmodel = "m"\n[compressor]\nmodel = "m"\n[ceiling]\nmoney = 0.01\n[run]\nconcurrency = 4\n'
    )
    told = json.loads(recompact("collect", config, "--dry-run", "--json").stdout)
    said = recompact("collect", config, "--dry-run", columns=200).stdout
    calls = sum(usage["calls"] for usage in told["usage"].values())
    assert (told["currency"], told["seconds"]) == ("EUR", None)
    assert f"{told['money']:,.2f} EUR" in said
    assert f"at 5 s a call, about {5 * calls / 4 / 60:.0f} min" in said
    assert "less than 1%" in said
