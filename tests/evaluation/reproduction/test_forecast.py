"""What a reproduction takes, before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.evaluation.reproduction.experiments import (
    Adaptations,
    Diagnostics,
    Evaluation,
    Experiment,
    Setting,
    Windows,
)
from recompact.evaluation.reproduction.forecast import forecast, forecast_table
from recompact.evaluation.reproduction.paper import benchmark
from recompact.values.tables import render


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
    (amount,) = forecast(setting, [Adaptations("history", ("pair",))], known.train, known.test).amounts
    assert amount.continuations == pytest.approx(cost["continuations"], rel=0.01)
    assert 0.5 < amount.tokens / 1e6 / cost["tokens"] < 2


def test_every_run_is_counted(tmp_path: Path) -> None:
    setting = Setting(config_of("pocket"), tmp_path)
    experiments: list[Experiment] = [
        Adaptations("history", ("acon-ut", "acon-utco", "pair")),
        Evaluation(("pair",)),
        Windows(),
        Diagnostics(),
    ]
    amounts = forecast(setting, experiments, train=40, test=10).amounts
    assert [amount.run for amount in amounts] == ["adapt-history", "evaluate", "windows", "boundaries"]
    # collected, without compaction, under UT's winner; three selections and UTCO's first
    assert amounts[0].trajectories == 3 * 40 + 4 * 5 * 12
    assert amounts[1].trajectories == (2 + 2 * 2) * 10 * 3
    assert amounts[2].trajectories == 4 * 40 * 3
    assert amounts[3].continuations == 18 * round(2.5 * 40)
    assert all(amount.done == 0 for amount in amounts)


def test_money_needs_a_price(tmp_path: Path) -> None:
    setting = Setting(config_of("tau2-retail"), tmp_path)
    unpriced = forecast(setting, [Windows()], 10, 10)
    assert unpriced.money is None
    assert "gives no price" in render(forecast_table(unpriced), "terminal")
    priced = replace(setting, config=config_of("tau2-retail", price="price = { input = 1.0, output = 1.0 }\n"))
    shown = forecast(priced, [Windows()], 10, 10)
    assert shown.money == pytest.approx(shown.tokens / 1e6)


def test_where_nothing_is_known_that_is_said(tmp_path: Path) -> None:
    shown = forecast(Setting(config_of("mine.py:suite"), tmp_path), [Windows()], 10, 10)
    assert "assumptions" in render(forecast_table(shown), "terminal")
