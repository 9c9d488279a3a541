"""`recompact reproduce` on the embedded world: all tables, from nothing to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import recompact
from evaluation_support import arm

from recompact.compressors.protocol import SCOPES
from recompact.engine.config_parser import load_config
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.reproduction import tables as tables_module
from recompact.evaluation.reproduction.experiments import Adaptations, Setting, UnseenTasks, Windows, join_experiments
from recompact.evaluation.reproduction.results import paired_table
from recompact.evaluation.reproduction.tables import TABLES, chosen_tables
from recompact.evaluation.summary import evaluation
from recompact.values.tables import Number

CONFIG = '[suite]\nuse = "pocket"\n[compressor]\nbudget = 2048\n[adapt]\ncandidates = 2\nfit_tasks = 2\n'
SIZE = ("--train", "3", "--test", "2", "--runs", "1", "--scope", "history")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(CONFIG)
    return file


@pytest.mark.slow
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
        assert any("AppWorld" in note for note in tables[name][-1]["notes"]), name
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
    assert "Money: about" in result.stdout
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


def test_boundaries_and_windows_are_of_the_scope_that_was_asked_for(config: Path, tmp_path: Path) -> None:
    both, prefix = Setting(load_config(config), tmp_path), Setting(load_config(config), tmp_path, ("prefix",))
    for name in ("boundaries", "draws", "thresholds", "windows"):
        (first,), (other,) = (TABLES[name].experiments(setting) for setting in (both, prefix))
        assert other.name == f"{first.name}-prefix"
    assert {arm.scope for arm in Windows("prefix").arms(prefix) if arm.template or arm.budget} == {"prefix"}


def test_one_arm_under_two_names_has_no_test(config: Path, tmp_path: Path) -> None:
    """PAIR and ACON may both keep the original: then there is nothing to test."""
    rows = arm("pair", ["111", "110"], "history").rows
    twins = [ArmRuns(name, "history", rows, settings={"key": "k", "kind": "prompted"}) for name in ("pair", "acon-ut")]
    table = paired_table(evaluation("e", twins), Setting(load_config(config), tmp_path, ("history",)))
    assert table is not None
    assert any("one arm" in note for note in table.notes)
    assert not any(isinstance(cell, Number) and not cell.signed for cell in table.rows[0])  # no p
    ours = [cell for column, cell in zip(table.columns, table.rows[0], strict=True) if column.key in ("acc", "pass^3")]
    assert all(cell is None for cell in ours)


def test_the_papers_transfer_is_about_its_own_models(config: Path, tmp_path: Path) -> None:
    evaluations = [evaluation(n, [arm("prompting", ["1"], "history"), arm("pair", ["1"], "history")]) for n in "ab"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables_module, "load_evaluation", lambda *_: evaluations.pop())
        setting = Setting(load_config(config), tmp_path, ("history",), others=(load_config(config),))
        _, papers = TABLES["transfer"].tables(setting)
    assert any("MiniMax-M3" in note for note in papers.notes)
    assert not any("Luna as agent" in note for note in papers.notes)


def test_tables_share_their_runs(config: Path, tmp_path: Path) -> None:
    setting = Setting(load_config(config), tmp_path)
    every = [e for name in ("main", "locked", "cost") for e in TABLES[name].experiments(setting)]
    methods = ("acon-ut", "acon-utco", "pair", "acon-ut-locked")
    assert join_experiments(every) == (*(Adaptations(scope, methods) for scope in SCOPES), UnseenTasks(methods))


def test_templates_that_others_released_stand_beside_the_papers_pair(config: Path, tmp_path: Path) -> None:
    """With the placeholders that the paper's prompts have, and without any adaptation."""
    place = tmp_path / "released"
    place.mkdir()
    (place / "system.md").write_text("You write checkpoints.\n")
    (place / "first.md").write_text("{{ history }}\n\n## Goal\nThe aim.\n")
    (place / "update.md").write_text("{{ history }}\n\n{{ prev_summary }}\n\n## Goal\nThe aim.\n")
    words = ("reproduce", "released", "--config", str(config), "--scope", "history", "--out", str(tmp_path / "out"))
    missing = recompact(*words, "--dry-run")
    assert (missing.returncode, "--template history=" in missing.stderr) == (2, True)
    wrong = recompact(*words, "--template", f"past={place}", "--dry-run")
    assert (wrong.returncode, "SCOPE=DIRECTORY" in wrong.stderr) == (2, True)
    sizes = ("--template", f"history={place}", "--test", "2", "--runs", "1")
    forecast = recompact(*words, *sizes, "--dry-run", "--json")
    assert [work["name"] for work in json.loads(forecast.stdout)["works"]] == ["released"]
    done = recompact(*words, *sizes, "--json")
    assert done.returncode == 0, done.stderr
    ((table,),) = json.loads(done.stdout).values()
    (pair,) = [row for row in table["rows"] if row["arm"] == "pair"]
    assert pair["paper_acc"] == 84.7  # AppWorld's, which pocket stands beside
    assert [run.name for run in (tmp_path / "out").glob("*.db")] == ["released.db"]
