"""The embedded world as a run: the same whatever the concurrency, quick, and with a truth that can be read back."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from run_files import select_rows

import planted_truth
from planted_truth import read_truth
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config_parser import parse_config
from recompact.engine.store.store import Store


def collected(path: Path, config: str) -> str:
    async def run(store: Store) -> None:
        async with open_study(parse_config(config, Path("c.toml")), store) as study:
            await collect(study)

    with Store.open(path) as store:
        asyncio.run(run(store))
        return store.digest()


@pytest.mark.parametrize("scope", ['scope = "history"', 'scope = "prefix"\nrendering = "appended"'])
def test_the_digest_is_the_same_for_concurrency_1_and_32(tmp_path: Path, scope: str) -> None:
    config = f"[suite]\nlimit = 10\n[compressor]\nbudget = 2048\n{scope}\n[run]\nconcurrency = "
    digests = {collected(tmp_path / f"{n}.db", f"{config}{n}\n") for n in (1, 32)}
    assert len(digests) == 1
    other = collected(tmp_path / "seed.db", f"{config}8\nseed = 1\n")
    assert other not in digests


@pytest.mark.slow
def test_the_train_split_has_the_successes_and_compactions_that_it_was_fitted_to(tmp_path: Path) -> None:
    collected(tmp_path / "train.db", "[compressor]\nbudget = 2048\n")
    with Store.read(tmp_path / "train.db") as store:
        (row,) = select_rows(
            store, "SELECT count(*) AS n, sum(success) AS won, sum(compactions) AS b FROM trajectories"
        )
    assert row["n"] == 90
    assert 0.6 < row["won"] / 90 < 0.95
    assert 1.5 < row["b"] / 90 < 3.5


WORLD = """
[agent]
model = "other-agent"
[models.other-agent]
use = "sim-agent"
options = { world = 7 }
"""


@pytest.mark.parametrize("world", ["", WORLD])
def test_truth_is_written_and_read_back(tmp_path: Path, world: str) -> None:
    config = tmp_path / "few.toml"
    config.write_text(f'[suite]\nlimit = 6\n[compressor]\nmodel = "sim-compressor"\nbudget = 2048\n{world}')

    assert recompact("collect", config).returncode == 0
    written = _write_truth(tmp_path / "runs" / "few.db", tmp_path / "truth.json")
    truths = read_truth(tmp_path / "truth.json")
    assert len(truths) == written["boundaries"] > 3
    assert all(len(t.pre.success) == len(t.post.steps) == 6 for t in truths)
    assert any(t.lost for t in truths)
    for truth in truths:
        assert truth.hazard == pytest.approx(sum(truth.pre.success) / 6 - sum(truth.post.success) / 6)
    _write_truth(tmp_path / "runs" / "few.db", tmp_path / "again.json")
    assert read_truth(tmp_path / "again.json") == truths


def _write_truth(run: Path, out: Path) -> Any:
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr(sys, "argv", ["planted_truth.py", str(run), str(out), "--draws", "6"])
        planted_truth.main()
    return json.loads(printed.getvalue())


@pytest.mark.parametrize("sizes", [(6, 2, 1), pytest.param((12, 6, 2), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_demo_runs_the_whole_pipeline_and_is_labelled_as_simulated(
    sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    train, test, runs = sizes
    few = ["demo", "--dir", tmp_path / "demo", "--train", train, "--test", test, "--runs", runs]
    done = recompact(*few)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A simulation: ")
    assert "PAIR" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("digest: ")
    assert (tmp_path / "demo" / "adapted" / "CHANGES.md").exists()
    assert "Simulated models." in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    again = recompact(*few, "--json")
    report = json.loads(again.stdout)
    assert f"digest: {report['digest']}" == last
    assert set(report["arms"]) == {"none", "prompting/history", "PAIR/history"}
