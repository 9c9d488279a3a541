"""A run as a dataset: the rows are those of the run, and nothing secret is in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_up_runs
import pytest
from click.testing import CliRunner
from needs import needs
from shared_runs import verified_run

from recompact.attribution.judgement import read_verdicts
from recompact.cli.main import cli
from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.presentation.exchange.dataset import TABLES, publish
from recompact.values.template import resolve

pytestmark = needs("pyarrow")
KEY = "sk-proj-" + "a1B2c3D4" * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.read(verified_run(tmp_path_factory)) as store:
        yield store


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    listed: list[dict[str, Any]] = parquet.read_table(directory / f"{table}.parquet").to_pylist()
    return listed


def test_rows_are_the_boundaries_and_draws_of_the_run(run: Store, tmp_path: Path) -> None:
    counts = publish(run, tmp_path / "out", "cc-by-4.0")
    tables = {name: rows(tmp_path / "out", name) for name in TABLES}
    assert {name: len(listed) for name, listed in tables.items()} == counts
    told = {row["boundary"]: (row["H"], row["B"], row["verdict"]) for row in tables["boundaries"]}
    for verdict in read_verdicts(run).verdicts:
        effect = verdict.reported_effect
        figures = (effect.hazard, effect.burden) if effect else (None, None)
        assert told.pop(str(verdict.id)) == (*figures, verdict.kind)
    assert not told
    drawn = sorted((row["boundary"], row["arm"], row["draw"], row["value"], row["steps"]) for row in tables["draws"])
    assert drawn == sorted(
        (f"{row.unit.removeprefix('collect/')}#{row.index}", row.arm, row.draw + 1, row.value, row.steps)
        for row in continuation_rows(run)
    )
    assert {row["template"] for row in tables["boundaries"]} <= {row["template"] for row in tables["templates"]}
    for row in tables["boundaries"]:
        pre, post, prompt = (json.loads(row[name]) for name in ("pre", "post", "prompt"))
        assert pre[0] == post[0]
        assert prompt
        assert any(row["summary"] in message["content"] for message in post)


def test_secrets_are_masked_and_the_licence_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        made_up_runs.begin(store)
        made = [made_up_runs.turn(n, thought=f"key {KEY} \ud83d") for n in range(1, 9)]
        made_up_runs.collect(store, "a", made=made)
        made_up_runs.draw(store, "a", 1, "PRE", 0, made=made[:2])
        publish(store, tmp_path / "out", "cc0-1.0")
    everything = json.dumps([rows(tmp_path / "out", name) for name in TABLES])
    assert KEY not in everything
    assert "[masked]" in everything
    assert 'license: "cc0-1.0"' in (tmp_path / "out" / "README.md").read_text()


def test_the_command_asks_for_a_licence(run: Store, tmp_path: Path) -> None:
    arguments = ["publish", str(run.path), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(cli, arguments).exit_code == 2
    done = CliRunner().invoke(cli, [*arguments, "--license", "mit", "--json"], catch_exceptions=False)
    assert json.loads(done.output)["rows"]["draws"] == len(continuation_rows(run))


def test_every_arm_has_its_own_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('[suite]\nuse = "pocket"\nlimit = 2\n[compressor]\nbudget = 1024\n')
    arms = ("--arm", "prompting", "--arm", "mine=structured", "--arm", "fifo", "--runs", "1", "--run", "compared")
    CliRunner().invoke(cli, ["evaluate", "mine.toml", *arms], catch_exceptions=False)
    with Store.read(Path("runs/compared.db")) as store:
        publish(store, tmp_path / "out", "cc0-1.0")
    named = {row["template"] for row in rows(tmp_path / "out", "boundaries")}
    assert named == {resolve(name, tmp_path).hash for name in ("default", "structured")} | {""}  # fifo has none
    assert named - {""} <= {row["template"] for row in rows(tmp_path / "out", "templates")}
