"""An experiment with a hosted model of the user's choice: forecast first, under a ceiling, with the same page."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import pytest
from sim_server import serve

import experiment
from experiment import load_experiment
from hosted import add_hosted_arguments, hosted_by
from recompact.errors import InputError
from recompact.simulation.agent import SimulatedAgent
from recompact.simulation.compressor import SimulatedCompressor
from recompact.values.chat import Reply, Request

NAME, KEY = "maker/one-model", "a-word-of-the-test"


class OneModel:
    """A model that can do both: it works where there are tools, and summarizes where there are none."""

    name = NAME

    def __init__(self) -> None:
        self._agent, self._compressor = SimulatedAgent(), SimulatedCompressor()

    async def reply(self, request: Request) -> Reply:
        return await (self._agent if request.tools else self._compressor).reply(request)


def given(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    add_hosted_arguments(parser)
    return parser.parse_args(arguments)


def run_hosted(place: Path, *arguments: str) -> tuple[int, str, str]:
    """The command that the README names, with a server on loopback behind it."""

    async def run() -> tuple[int, str, str]:
        async with serve({NAME: OneModel()}, require_key=KEY) as server:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(experiment.HERE / "run.py"), "fresh-tasks", "--config", "hosted"),
                *("--model", NAME, "--base-url", server.base_url, "--key-env", "MAKER_KEY", "--price", "1,0.1,4"),
                *("--out", str(place), *arguments),
                env={**os.environ, "MAKER_KEY": KEY},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
            return process.returncode or 0, out.decode(), err.decode()

    return asyncio.run(run())


@pytest.mark.slow  # two processes that play ten arms each
def test_one_command_forecasts_runs_under_a_ceiling_and_writes_the_page(tmp_path: Path) -> None:
    code, out, err = run_hosted(tmp_path, "--ceiling", "0.000001", "--limit", "1")
    assert code == 1
    assert "ceiling" in err
    assert "In all 5 arms: 0 of 60 tasks." in (tmp_path / "results.md").read_text()
    code, out, err = run_hosted(tmp_path, "--ceiling", "5", "--limit", "1")
    assert code == 0, err
    assert out.index("What fresh-tasks takes") < out.index("The results: ")
    assert "A run file stops when it has cost 5.00." in out
    text = (tmp_path / "results.md").read_text()
    assert "In all 5 arms: 1 of 60 tasks." in text
    assert "In all 5 later arms: 1 of 60 tasks." in text
    assert "causes/history better than prompting/history: *not shown* (1 task of at least 24" in text
    assert "by-hand" in text


def test_the_model_the_prices_and_the_ceiling_take_the_place_of_the_configs() -> None:
    plain = load_experiment("fresh-tasks", "hosted")
    other = hosted_by(plain, given("--model", NAME, "--price", "1,4", "--ceiling", "2.5", "--key-env", "MAKER_KEY"))
    (model,) = other.config.models.values()
    assert (model.id, model.key_env, model.price.input, model.price.output) == (NAME, "MAKER_KEY", 1.0, 4.0)
    assert model.price.cached is None
    assert other.config.ceiling.money == 2.5
    assert other.place.name == "fresh-tasks-hosted-maker_one-model"
    assert hosted_by(plain, given()) == plain


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", NAME], "needs its --price"),
        (["--model", NAME, "--price", "1"], "is not INPUT,OUTPUT"),
        (["--model", NAME, "--price", "1,2,3,4"], "is not INPUT,OUTPUT"),
        (["--model", NAME, "--price=-1,2"], "is not INPUT,OUTPUT"),
        (["--model", NAME, "--price", "1,free"], "is not INPUT,OUTPUT"),
    ],
)
def test_a_model_without_usable_prices_is_refused(arguments: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        hosted_by(load_experiment("fresh-tasks", "hosted"), given(*arguments))


def test_a_model_on_this_machine_takes_no_price() -> None:
    with pytest.raises(InputError, match="are for --config hosted"):
        hosted_by(load_experiment("fresh-tasks"), given("--ceiling", "3"))
