"""`recompact gate` as CI meets it: exit codes, files, and work that is not done twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import recompact

from recompact.engine.store.store import Store
from recompact.values.template import default_template

CONFIG = "[suite]\nlimit = 4\n[compressor]\nbudget = 2048\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("gate")
    (home / "ci.toml").write_text(CONFIG)
    own = default_template()
    replace(own, system=f"{own.system}\nKeep every id.").save(home / "mine")
    return home


def gate(home: Path, *arguments: object) -> tuple[int, dict[str, object]]:
    done = recompact("gate", *arguments, "--json", cwd=home)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def calls(home: Path) -> int:
    with Store.read(home / "runs" / "ci-gate.db") as store:
        return sum(usage.calls for usage in store.spent().values())


def test_tasks_give_an_exit_code_and_files(home: Path) -> None:
    files = ("--markdown", "gate.md", "--junit", "gate.xml")
    code, told = gate(home, "none", "masking", "--tasks", "ci.toml", "--margin", 5, "--pairs", 8, *files)
    assert code == told["exit_code"] == {"not worse": 0, "worse": 1, "cannot tell": 3}[str(told["verdict"])]
    assert (told["base"], told["new"], told["noun"], told["simulated"]) == ("none", "masking", "task", True)
    assert str(told["verdict"]) in (home / "gate.md").read_text()
    suite = ElementTree.parse(home / "gate.xml").getroot()[0]
    kinds = {"worse": "failure", "not worse": "system-out", "cannot tell": "error"}
    assert [child.tag for child in suite[0]] == [kinds[str(told["verdict"])]]
    before = calls(home)
    again = gate(home, "none", "masking", "--tasks", "ci.toml", "--margin", 5, "--pairs", 8, *files)
    assert again == (code, told)
    assert calls(home) == before
    assert not (home / "runs" / "ci-evaluate.db").exists()  # its half-played arms would shrink every comparison there


def test_a_second_change_meets_the_same_runs_of_base(home: Path) -> None:
    _, first = gate(home, "none", "default", "--tasks", "ci.toml", "--pairs", 3)
    _, second = gate(home, "none", "mine", "--tasks", "ci.toml", "--pairs", 3)
    bases = [[pair["base"] for pair in told["pairs"]] for told in (first, second)]  # type: ignore[attr-defined]
    assert bases[0] == bases[1]
    assert second["new"] != first["new"]


def test_two_configs_are_two_runs(home: Path) -> None:
    (home / "other.toml").write_text(CONFIG.replace("2048", "4096"))
    code, told = gate(home, "ci.toml", "other.toml", "--tasks", "ci.toml", "--pairs", 2)
    assert (code, told["base"], told["new"]) == (3, "ci", "other")
    assert (home / "runs" / "other-gate.db").is_file()
    (home / "third.toml").write_text(CONFIG.replace("[suite]", '[suite]\ntasks = ["pocket-test-003"]\nsplit = "test"'))
    assert recompact("gate", "ci.toml", "third.toml", "--tasks", "ci.toml", cwd=home).returncode == 2


def test_nothing_changed_passes_at_once(home: Path) -> None:
    code, told = gate(home, "default", "prompting", "--tasks", "ci.toml")
    assert (code, told["identical"], told["pairs"]) == (0, True, [])


def test_stored_compactions(home: Path) -> None:
    assert recompact("collect", "ci.toml", cwd=home).returncode == 0
    code, told = gate(home, "default", "mine", "--replay", "ci", "--pairs", 4)
    assert (code, told["noun"]) == (3, "compaction")
    assert told["more"]
    forecast = recompact("gate", "default", "mine", "--replay", "ci", "--dry-run", "--json", cwd=home)
    assert json.loads(forecast.stdout)["works"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("default", "mine"),
        ("default", "mine", "--tasks", "ci.toml", "--replay", "ci"),
        ("default", "nowhere", "--tasks", "ci.toml"),
        ("default", "mine", "--tasks", "nowhere.toml"),
        ("default", "mine", "--replay", "ci-gate"),
        ("default", "ci.toml", "--replay", "ci"),
        ("default", "mine", "--tasks", "ci.toml", "--margin", "0"),
        ("default", "mine", "--tasks", "ci.toml", "--margin", "nan"),
        ("default", "mine", "--tasks", "ci.toml", "--config", "ci.toml"),
        ("default", "mine", "--probes", "ci-gate"),
        ("", "mine", "--tasks", "ci.toml"),
        ("default", "mine", "--tasks", "ci.toml", "--split", "nowhere"),
        ("default", "mine", "--tasks", "ci.toml", "--markdown", "ci.toml"),
    ],
)
def test_mistakes_are_refused(home: Path, arguments: tuple[str, ...]) -> None:
    done = recompact("gate", *arguments, cwd=home)
    assert done.returncode == 2, done.stdout
    assert "recompact: " in done.stderr or "Error: " in done.stderr
    assert (home / "ci.toml").read_text() == CONFIG
