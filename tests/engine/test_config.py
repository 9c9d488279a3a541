"""Configs: the paper's defaults, and messages that name the line, the key and what would be right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sentences import numbers_in

from recompact.engine.config import AgentConfig, ConfigError, config_hash, differences
from recompact.engine.config_parser import config_schema, load_config, parse_config, unknown_models
from recompact.errors import InputError

PATH = Path("c.toml")
ROOT = Path(__file__).parents[2]


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    return caught.value.problems


def test_the_defaults_are_the_papers() -> None:
    config = parse_config("", PATH)
    assert config.compressor.budget == 4096
    assert config.run.step_limit == 50
    assert config.agent.max_output_tokens == 2048
    assert config.compressor.max_output_tokens == 8192
    assert (config.compressor.kind, config.compressor.scope) == ("prompted", "history")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nbuget = 1", "line 2: [run] has no key 'buget'; known: step_limit"),
        ("[compressor]\n\nbuget = 1", "line 3: [compressor] has no key 'buget'; did you mean 'budget'?"),
        ("[agents]\nmodel = 1", "line 1: [top level] has no key 'agents'; did you mean 'agent'?"),
        ("[models.x]\nid = 'a'\nbaseurl = ''", "line 3: [models.x] has no key 'baseurl'; did you mean 'base_url'?"),
        (
            "[models.x]\nid='a'\n[models.x.price]\ninptu = 1",
            "line 4: [models.x.price] has no key 'inptu'; did you mean 'input'?",
        ),
        ("[run]\nstep_limit = '50'", 'line 2: [run] step_limit must be a valid integer, not "50"'),
        ("[run]\nstep_limit = 0", "line 2: [run] step_limit must be greater than 0, not 0"),
        ("[compressor]\nrendering = 'appended'", 'set scope = "prefix"'),
        ("[models.sim-agent]\nid = 'x'", "has the name of a built-in model: choose another"),
        ("[suite]\nmodels = {user = 'sim-agent'}", "set host = true"),
        ("[suite]\nhost = 3", 'line 2: [suite] host must be true, false or "ray", not 3'),
        ("[suite]\nhost = 'rey'", 'line 2: [suite] host must be true, false or "ray", not "rey"'),
        ("[cluster]\ncpus = 2", 'line 1: [cluster] is for hosts that live on one: set [suite] host = "ray"'),
        (
            "[suite]\nhost = 'ray'\n[cluster]\nplacement = 'pak'",
            "line 4: [cluster] placement must be 'spread' or 'pack'",
        ),
        ("[suite]\nhost = 'ray'\n[cluster]\ncpu = 2", "line 4: [cluster] has no key 'cpu'; did you mean 'cpus'?"),
        ("[adapt]\nsamples = 5", "line 2: [adapt] has no key 'samples'"),
        ("[run\n", "is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_fix(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text)), problems(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[agent]\nmodel = 'luna'",
            "line 2: [agent] model = 'luna' is not among the models (openai, anthropic",
        ),
        ("[models.luna]\nid='x'\n[agent]\nmodel = 'lunar'", "did you mean 'luna'?"),
        ("[suite]\nhost = true\n[suite.models]\nuser = 'luna'", "line 4: [suite.models] user = 'luna' is not among"),
        ("[optimizer]\nmodel = 'luna'", "line 2: [optimizer] model = 'luna' is not among"),
        ("[compressor]\nmodel = 'sim-compresor'", "did you mean 'sim-compressor'?"),
    ],
)
def test_a_role_whose_model_nobody_has_is_named(text: str, said: str) -> None:
    (problem,) = unknown_models(parse_config(text, PATH))
    assert said in problem


def test_ready_models_are_known_by_their_names() -> None:
    config = parse_config("[agent]\nmodel = 'mine'\n[compressor]\nmodel = 'other'", PATH)
    assert len(unknown_models(config)) == 2
    assert len(unknown_models(config, ["mine"])) == 1
    assert unknown_models(config, ["mine", "other"]) == ()


def test_all_mistakes_are_told_at_once_and_the_error_names_the_first() -> None:
    text = "[run]\nstep_limt = 1\n[agent]\nmodl = 'x'"
    assert len(problems(text)) == 2
    with pytest.raises(ConfigError, match=r"c\.toml: line 2: .*step_limit.* \(1 more: .*recompact check c\.toml"):
        parse_config(text, PATH)


@pytest.mark.parametrize(
    ("program", "meant"),
    [("codex", "codex"), ("{home}/agent", "{home}/agent"), ("/opt/agent", "/opt/agent"), ("./agent", "HERE/of/agent")],
)
def test_the_program_of_an_agent_is_relative_to_the_config(
    program: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = AgentConfig(command=(program, "./x")).settings(Path("of"))
    assert settings.command == (meant.replace("HERE", str(tmp_path)), "./x")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.toml"):
        load_config(tmp_path / "no.toml")


def test_what_decides_results_is_the_identity_and_nothing_else() -> None:
    base = "[models.m]\nid = 'x'\nbase_url = 'http://127.0.0.1:1/v1'\n[agent]\nmodel = 'm'\n"
    same = [
        base.replace(":1/", ":2/"),
        base + "[ceiling]\ntokens = 5",
        base + "[run]\nconcurrency = 1",
        base.replace("id = 'x'", "id = 'x'\ntimeout = 5\nprice = {input = 1}"),
        base + "[models.unused]\nid = 'y'",
    ]
    other = [
        base.replace("id = 'x'", "id = 'y'"),
        base + "temperature = 0.5",
        base + "[compressor]\nbudget = 10",
        base + "[run]\nseed = 1",
        base + "[suite]\nlimit = 3",
    ]
    reference = config_hash(parse_config(base, PATH))
    assert {config_hash(parse_config(text, PATH)) for text in same} == {reference}
    assert reference not in {config_hash(parse_config(text, PATH)) for text in other}
    a, b = (parse_config(text, PATH).identity() for text in (base, other[2]))
    assert differences(a, b) == ["compressor.budget: 4096 -> 10"]


def test_where_hosts_live_decides_no_result() -> None:
    near = parse_config("[suite]\nhost = true", PATH)
    far = parse_config("[suite]\nhost = 'ray'\n[cluster]\naddress = 'auto'\nresources = {office = 1}", PATH)
    assert far.cluster.resources == {"office": 1.0}
    assert config_hash(near) == config_hash(far) != config_hash(parse_config("", PATH))


def test_a_simulated_agent_has_a_simulated_compressor() -> None:
    assert parse_config("", PATH).compressor_model == "sim-compressor"
    assert parse_config("[models.m]\nid='x'\n[agent]\nmodel='m'", PATH).compressor_model == "m"


def keys_of(schema: dict[str, Any], at: dict[str, Any], table: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every key of a schema with its table."""
    at = schema["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at
    for name, key in at.get("properties", {}).items():
        yield table, name, key
        yield from keys_of(schema, key, f"{table}.{name}".strip("."))
    if isinstance(at.get("additionalProperties"), dict):
        yield from keys_of(schema, at["additionalProperties"], f"{table}.NAME")


def test_the_schema_says_of_every_key_what_it_means_and_the_documents_name_it() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    schema = config_schema()
    keys = [(table, name, key) for table, name, key in keys_of(schema, schema) if table]
    assert {table for table, _, _ in keys} >= {"suite", "suite.limits", "models.NAME", "models.NAME.price", "cluster"}
    assert [f"{table}.{name}" for table, name, key in keys if not key.get("description")] == []
    assert [f"{table}.{name}" for table, name, _ in keys if not re.search(rf"\b{name}\b", pages)] == []
    assert json.loads(json.dumps(schema)) == schema


def test_the_schema_refuses_what_the_parser_refuses() -> None:
    schema = config_schema()
    assert all(table["additionalProperties"] is False for table in (schema, *schema["$defs"].values()))
    for name in ("file", "text"):  # fields of a config that no file may set
        assert problems(f"{name} = 'x'")[0].startswith("line 1: [top level]")
        assert f"'{name}'" in problems(f"{name} = 'x'")[0]


def test_a_limit_that_makes_no_sense_is_named() -> None:
    (problem,) = problems("[suite.limits]\nmemory = 0")
    assert problem.startswith("line 1: [suite] limits: memory ")
    assert numbers_in(problem)[1:] == ["1", "0"]
