"""`recompact reproduce` on the embedded world: all tables, from nothing to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import recompact

from recompact.compressors.protocol import SCOPES
from recompact.engine.config_parser import load_config
from recompact.errors import InputError
from recompact.evaluation.reproduction.experiments import Adaptations, Evaluation, Setting, join_experiments
from recompact.evaluation.reproduction.tables import TABLES, chosen_tables

CONFIG = '[suite]\nuse = "pocket"\n[compressor]\nbudget = 2048\n[adapt]\ncandidates = 2\nfit_tasks = 2\n'
SIZE = ("--train", "3", "--test", "2", "--runs", "1", "--scope", "history")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(CONFIG)
    return file


def test_all_tables_from_nothing_to_the_end(config: Path) -> None:
    other = config.with_name("other.toml")
    other.write_text(CONFIG + "[run]\nseed = 1\n")
    words = ("reproduce", "all", "--config", str(config), "--other", str(other), *SIZE)
    first = recompact(*words, "--json")
    assert first.returncode == 0, first.stderr
    tables = json.loads(first.stdout)
    assert set(tables) == set(TABLES)
    assert all(tables[name] for name in TABLES)
    arms = [row["arm"] for row in tables["main"][0]["rows"]]
    assert arms[:3] == ["none", "fifo", "prompting"]
    assert arms[-1] == "pair"
    for name in set(TABLES) - {"windows"}:  # of that one the paper prints no figures
        assert any("pocket is not AppWorld" in note for note in tables[name][-1]["notes"]), name
    assert "adapt-history" in first.stderr  # what it takes is said first, whatever the format
    again = recompact(*words, "--json")  # nothing is done twice, and the same comes out
    assert json.loads(again.stdout) == tables
    runs = sorted(path.stem for path in config.with_name("mine-reproduce").glob("*.db"))
    assert runs == ["adapt-history", "boundaries", "evaluate", "transfer-1", "windows"]


def test_a_dry_run_makes_nothing_and_needs_no_key(config: Path) -> None:
    config.write_text(
        '[suite]\nuse = "pocket"\n[models.m]\nbase_url = "http://127.0.0.1:1/v1"\nid = "m"\nkey_env = "NO_SUCH_KEY"\n'
        'price = { input = 2.0, output = 8.0 }\n[agent]\nmodel = "m"\n'
    )
    result = recompact("reproduce", "main", "--config", str(config), "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "adapt-prefix" in result.stdout
    assert "by the prices of the config" in result.stdout
    assert not config.with_name("mine-reproduce").exists()
    dear = recompact("reproduce", "main", "--config", str(config))
    assert dear.returncode == 2
    assert "--yes" in dear.stderr
    assert not config.with_name("mine-reproduce").exists()


def test_what_is_missing_is_said() -> None:
    listed = recompact("reproduce")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in (*TABLES, "all"))
    assert "--config" in recompact("reproduce", "main").stderr


def test_names_and_needs(config: Path, tmp_path: Path) -> None:
    setting = Setting(load_config(config), tmp_path)
    with pytest.raises(InputError, match="choose main"):
        chosen_tables("table-1", setting)
    with pytest.raises(InputError, match="--other"):
        TABLES["transfer"].experiments(setting)
    assert "transfer" not in [table.name for table in chosen_tables("all", setting)]


def test_tables_share_their_runs(config: Path, tmp_path: Path) -> None:
    setting = Setting(load_config(config), tmp_path)
    every = [e for name in ("main", "locked", "cost") for e in TABLES[name].experiments(setting)]
    methods = ("acon-ut", "acon-utco", "pair", "acon-ut-locked")
    assert join_experiments(every) == (*(Adaptations(scope, methods) for scope in SCOPES), Evaluation(methods))
