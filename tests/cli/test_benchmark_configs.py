"""`recompact init` for the paper's benchmarks, and `recompact suites`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from commands import recompact
from needs import OFFICEBENCH, require
from qa_support import written

from recompact.cli.benchmark_configs import BENCHMARKS, benchmark_config, config_name
from recompact.compressors.protocol import SCOPES, Scope
from recompact.engine.config_parser import load_config
from recompact.environments.loading import SUITES
from recompact.suites.officebench import suite as officebench
from recompact.version import install_command

CONFIGS = [(name, scope) for name in BENCHMARKS for scope in SCOPES]
# The paper's appendix: budgets; limits of its harness, and for QA one that lets its arms take the 45 steps that it
# prints; splits; one model in all roles with medium effort.
PAPER = {"officebench": (2048, 50), "tau2-retail": (2048, 50), "appworld": (4096, 50), "qa": (4096, 50)}


@pytest.mark.parametrize(("name", "scope"), CONFIGS)
def test_a_config_has_the_settings_of_the_paper(name: str, scope: Scope, tmp_path: Path) -> None:
    done = recompact("init", name, "--scope", scope, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    assert file.name == (f"{name}.toml" if scope == "history" else f"{name}-prefix.toml")
    config = load_config(file)
    assert (config.compressor.budget, config.run.step_limit) == PAPER[name]
    assert (config.compressor.scope, config.suite.use, config.suite.split) == (scope, name, "train")
    assert {config.agent.model, config.compressor_model, config.optimizer_model} == {"luna"}
    assert (config.models["luna"].id, config.models["luna"].api) == ("gpt-5.6-luna", "responses")
    roles = (config.agent, config.compressor, config.optimizer)
    assert {role.reasoning_effort for role in roles} == {"medium"}
    assert (config.agent.max_output_tokens, config.compressor.max_output_tokens) == (2048, 8192)
    assert (config.adapt.candidates, config.adapt.fit_tasks, config.verify.hazard, config.verify.burden) == (
        5,
        12,
        0.5,
        5,
    )
    prices = [line for line in benchmark_config(name, scope).splitlines() if line.startswith("price")]
    assert prices
    assert all(line.endswith("# an example: fill in what yours costs") for line in prices)
    if name == "tau2-retail":
        assert config.models[config.suite.models["user"]].id == "gpt-4.1-2025-04-14"


@pytest.mark.parametrize(("name", "scope"), CONFIGS)
def test_check_accepts_it(name: str, scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything but the answer of a model: the key is a word of the test's, and no model is asked."""
    require(*{"officebench": ["officebench"], "tau2-retail": ["tau2-bench"], "appworld": ["appworld"]}.get(name, []))
    options = written(tmp_path)
    monkeypatch.setenv("RECOMPACT_QA", options["tasks"])
    monkeypatch.setenv("RECOMPACT_QA_CORPUS", options["corpus"])
    monkeypatch.setenv("RECOMPACT_OFFICEBENCH", str(OFFICEBENCH))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    (tmp_path / f"{config_name(name, scope)}.toml").write_text(benchmark_config(name, scope))
    done = recompact("check", f"{config_name(name, scope)}.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"suite {name}, split train:" in done.stdout


def test_a_benchmark_has_a_suite_and_scopes_and_others_have_not(tmp_path: Path) -> None:
    for words, message in (
        (("qa", "--suite"), "qa is a benchmark and has its own suite"),
        (("mine", "--scope", "prefix"), "--scope is for a benchmark (officebench, tau2-retail, appworld, qa)"),
        (("office-bench",), "is not a valid config name"),
    ):
        done = recompact("init", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
    assert not os.listdir(tmp_path)
    recompact("init", "qa", cwd=tmp_path)
    assert "qa.toml already exists" in recompact("init", "qa", cwd=tmp_path).stderr


def test_suites_says_what_is_ready_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["suite"]: row for row in json.loads(recompact("suites", "--json").stdout)["suites"]}
    assert {"pocket", "officebench", "qa"} <= rows.keys()
    assert rows["pocket"] == {"suite": "pocket", "missing": None, "config": None, "ready": True}
    assert rows["qa"]["config"] == "recompact init qa"
    monkeypatch.setattr(officebench, "_LIBRARIES", ("openpyxl", "no_such_library"))
    monkeypatch.setitem(SUITES.built_in, "broken", "recompact.no_such_module:Suite")
    out = recompact("suites").stdout
    assert "pocket       ready\n" in out
    assert f"officebench  missing  no_such_library cannot be imported here: {install_command('officebench')}" in out
    assert "broken       missing  suite 'broken': no module 'recompact.no_such_module' can be imported" in out
