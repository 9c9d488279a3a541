"""`recompact evaluate` and `recompact compare` as a person meets them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from commands import Done, recompact
from evaluation_support import reference_runs
from report_support import make_evaluation

from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.evaluation.evaluate import unit_of
from recompact.values.context import Context
from recompact.values.template import default_template
from recompact.values.trajectory import Ending, Score, Trajectory


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    home = tmp_path_factory.mktemp("evaluate")
    path = home / "small.toml"
    path.write_text("[suite]\nlimit = 3\n[compressor]\nbudget = 2048\n")
    default_template().save(home / "mine")
    done = recompact(
        "evaluate", path, "--arm", "none", "--arm", "prompting", "--arm", f"pair={home / 'mine'}", "--runs", 2
    )
    return path, done


def test_evaluate_prints_a_table_and_goes_on_for_nothing(
    evaluated: tuple[Path, Done],
) -> None:
    path, done = evaluated
    assert done.returncode == 0, done.stderr
    for said in ("none", "prompting", "pair", "Acc", "Pass^2", "Pass@2", "Paired differences", "Simulated models"):
        assert said in done.stdout
    assert "3 tasks: one task is 33 points of Pass^2" in done.stdout
    assert "provider's count" in done.stdout
    digest = done.stdout.strip().splitlines()[-1]
    assert digest.startswith("digest: ")
    assert (path.parent / "runs" / "small-evaluate.db").is_file()
    arms = ("--arm", "none", "--arm", "prompting", "--arm", f"pair={path.parent / 'mine'}", "--runs", 2)
    again = recompact("evaluate", path, *arms, "--json")
    data = json.loads(again.stdout)
    assert data["digest"] == digest.split()[1]
    assert again.stderr.strip() == digest
    assert [arm["arm"] for arm in data["arms"]] == ["none", "prompting/history", "pair/history"]
    assert set(data["arms"][0]["groups"]) == {"apps", "difficulty", "family"}
    assert data["arms"][1]["compactions"] > 0
    assert data["simulated"]
    same = next(c for c in data["comparisons"] if c["first"] == "pair/history")
    assert (same["wins"], same["losses"], same["p"]) == (0, 0, 1.0)  # the same template, so the same trajectories


def test_evaluate_in_other_formats(evaluated: tuple[Path, Done]) -> None:
    path, _ = evaluated
    arms = ("--arm", "none", "--arm", "prompting", "--runs", 2)
    table = recompact("evaluate", path, *arms, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [row["arm"] for row in rows] == ["none", "prompting"]
    assert float(rows[0]["steps"]) > 0
    latex = recompact("evaluate", path, *arms, "--format", "latex", "--details", "--by", "difficulty").stdout
    assert latex.count(r"\begin{tabular}") == 7
    refused = recompact("evaluate", path, *arms, "--by", "colour")
    assert refused.returncode == 2
    assert "apps, difficulty, family" in refused.stderr


def test_a_task_whose_environment_broke_is_left_out_and_told_by_every_command(tmp_path: Path) -> None:
    runs = [make_evaluation(tmp_path / f"{name}.db", model=f"model-{name}") for name in ("one", "two")]
    for path in runs:
        with Store.open(path) as store:
            for label, arm in store.metadata.arms.items():
                broken = label == "PAIR/history"
                ending: Ending = "environment error" if broken else "finished"
                made = Trajectory("spoilt", (), (), ending, Score.of(not broken), Context(()))
                for run in range(2):
                    unit = unit_of(arm["key"], "spoilt", run)
                    write_trajectory(store, unit, made, phase="evaluate", run=run, groups={}, seconds=0.0)
    said = "1 task is left out for every arm: in a run of it the environment broke."
    pair = ("compare", runs[0], "PAIR", "prompting")
    for command in (pair, ("compare", runs[0]), ("compare", *runs, "--by", "model")):
        for form in ("terminal", "markdown"):
            done = recompact(*command, "--format", form)
            assert said in " ".join(done.stdout.split()), done.stderr
    assert said in recompact(*pair, "--format", "csv").stderr
    told = json.loads(recompact(*pair, "--json").stdout)
    assert (told["tasks"], told["left_out"], told["broken"]) == (8, 0, ["spoilt"])
    assert json.loads(recompact("compare", runs[0], "--json").stdout)["broken"] == ["spoilt"]
    sound = json.loads(recompact("compare", runs[0], "prompting", "none", "--json").stdout)
    assert (sound["tasks"], sound["broken"]) == (9, [])


def test_tasks_that_an_arm_was_adapted_on_are_told(tmp_path: Path) -> None:
    path = tmp_path / "seen.toml"
    path.write_text("[suite]\nlimit = 2\n[compressor]\nbudget = 2048\n")
    default_template().save(tmp_path / "mine")
    manifest = {"hash": default_template().hash, "models": {}, "training_tasks": ["pocket-train-000", "x"]}
    config = {"suite": {"use": "pocket"}}
    words = (
        "evaluate",
        path,
        "--split",
        "train",
        "--arm",
        "prompting",
        "--arm",
        f"pair={tmp_path / 'mine'}",
        "--runs",
        1,
    )
    for use, seen in (("pocket", 1), ("another", 0)):
        config["suite"]["use"] = use
        (tmp_path / "mine" / "manifest.json").write_text(json.dumps({**manifest, "config": config}))
        done = recompact(*words)
        said = "pair/history was adapted on 1 of these 2 tasks"
        assert (said in " ".join(done.stdout.split())) is bool(seen), done.stderr
        two = ("compare", tmp_path / "runs" / "seen-evaluate.db", "pair", "prompting")
        assert (said in " ".join(recompact(*two).stdout.split())) is bool(seen)
        told = json.loads(recompact(*two, "--json").stdout)["seen_tasks"]
        assert told == {"pair/history": seen, "prompting/history": 0}


def test_compare_two_arms(evaluated: tuple[Path, Done]) -> None:
    path, _ = evaluated
    runs = path.parent / "runs"
    done = recompact("compare", "small-evaluate", "prompting", "none", "--dir", runs, "--by", "difficulty")
    assert done.returncode == 0, done.stderr
    for said in ("prompting/history minus none: 3 tasks, 2 runs", "Steps", "Peak", "sign test: p", "by difficulty"):
        assert said in done.stdout
    there = json.loads(recompact("compare", runs / "small-evaluate.db", "prompting", "none", "--json").stdout)
    other = f"{runs / 'small-evaluate.db'}:"
    across = json.loads(recompact("compare", f"{other}prompting", f"{other}none", "--json").stdout)
    assert there == across
    assert {d["metric"] for d in there["differences"]} >= {"acc", "pass^2", "pass@2", "steps", "peak", "tokens"}
    twins = recompact("compare", f"{other}none", f"{other}none", "--format", "markdown").stdout
    assert "small-evaluate:none minus small-evaluate:none" in twins
    listed = recompact("compare", "small-evaluate", "--dir", runs, "--runs", 1).stdout
    assert "One run each" in listed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("small-evaluate", "nobody", "none"), "choose one of none, prompting/history, pair/history"),
        (("nothing", "a", "b"), "there is no run 'nothing'"),
        (("small-evaluate", "none"), "RUN_A:ARM RUN_B:ARM"),
        (("small-evaluate", "--against", "nobody"), "the arms are none, prompting/history, pair/history"),
        (("small-evaluate", "--by", "colour"), "grouped by apps, difficulty, family"),
        (("small-evaluate", "pair", "none", "--by", "colour"), "grouped by apps, difficulty, family"),
        (("small-evaluate", "pair", "none", "--details"), "--against and --details are for RUN alone"),
    ],
)
def test_compare_refuses_in_words(evaluated: tuple[Path, Done], arguments: tuple[str, ...], said: str) -> None:
    done = recompact("compare", *arguments, "--dir", evaluated[0].parent / "runs")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_evaluate_refuses_in_words_and_stops_at_a_ceiling(tmp_path: Path, evaluated: tuple[Path, Done]) -> None:
    path = tmp_path / "low.toml"
    path.write_text("[suite]\nlimit = 2\n[run]\nconcurrency = 1\n[ceiling]\ntokens = 5000\n")
    for arguments, said in (
        (("--arm", "none", "--split", "tset"), "tset"),
        (("--arm", "none", "--scope", "all"), "history, prefix, observation"),
        (
            (
                "--arm",
                "none@512",
            ),
            "so it has no budget",
        ),
        (("--arm", "none", "--against", "fifo"), "--against fifo: unknown arm; the arms are none"),
        (("--arm", "none", "--by", "colour"), "grouped by apps, difficulty, family"),
    ):
        done = recompact("evaluate", path, *arguments)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    # All of this is found out before anything is run or paid for.
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").glob("*.db"))
    done = recompact("evaluate", path, "--arm", "none", "--runs", 2)
    assert done.returncode == 3
    assert "raise [ceiling] tokens" in done.stderr
    path.write_text(path.read_text().replace("5000", "5000000"))
    assert recompact("evaluate", path, "--arm", "none", "--runs", 2).returncode == 0
    collected = recompact("collect", path)
    assert collected.returncode == 0
    wrong = recompact("evaluate", path, "--arm", "none", "--split", "train", "--run", "low")
    assert wrong.returncode == 2
    assert "`recompact collect`" in wrong.stderr


def test_every_figure_of_the_table_comes_from_the_rows(evaluated: tuple[Path, Done]) -> None:
    """Recomputed with numpy from what `show` lists, row by row."""
    run = evaluated[0].parent / "runs" / "small-evaluate.db"
    rows = json.loads(recompact("show", run, "--json").stdout)["rows"]
    figures: dict[str, Callable[[Any], float]] = {
        "acc": lambda row: row["success"],
        "steps": lambda row: row["steps"],
        "peak": lambda row: row["peak_reported"],
        "compactions": lambda row: row["compactions"],
        "tokens": lambda row: sum(used[0] + used[1] for used in row["usage"].values()),
        "tokens.compressor": lambda row: sum(row["usage"].get("compressor", (0, 0))[:2]),
    }
    shown = json.loads(recompact("compare", run, "--json").stdout)
    by_arm = {}
    for found in shown["arms"]:
        mine = sorted((r for r in rows if found["arm"] in r["arms"]), key=lambda r: (r["task"], r["run"]))
        by_arm[found["arm"]] = table = {
            k: numpy.reshape([float(f(r)) for r in mine], (3, 2)) for k, f in figures.items()
        }
        for key, values in table.items():
            if key in found:
                assert found[key] == pytest.approx(values.mean())
                assert found["spread"][key] == pytest.approx(values.mean(0).std(ddof=1))
        assert found["pass^2"] == pytest.approx(table["acc"].all(1).mean())
        assert found["pass@2"] == pytest.approx(table["acc"].any(1).mean())
    assert "tokens.compressor" in shown["arms"][1]
    two = json.loads(recompact("compare", run, "prompting", "none", "--by", "difficulty", "--json").stdout)
    for within in (part["comparisons"][0] for part in two["by"][0]["parts"]):  # in the same units as the whole
        assert all(abs(d["delta"]) <= 1 for d in within["differences"] if d["metric"] != "steps")
    for difference in two["differences"]:
        if difference["metric"] in figures:
            a, b = (by_arm[arm][difference["metric"]] for arm in ("prompting/history", "none"))
            assert difference["delta"] == pytest.approx((a - b).mean())
            if b.sum() and difference["metric"] != "acc":
                assert difference["relative"]["value"] == pytest.approx(a.sum() / b.sum() - 1)


def test_arms_that_share_no_task_are_told(tmp_path: Path) -> None:
    path = tmp_path / "apart.csv"
    path.write_text("scope,task_id,success,num_steps\nhistory,a,1,3\nprefix,b,0,5\n")
    for arguments, said in (
        ((), "has no task that every arm has finished yet: continue with recompact evaluate"),
        (("history", "prefix"), "there is no task that apart/history, apart/prefix have all done in 1 run,"),
    ):
        done = recompact("compare", path, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "records.csv").write_text("task_id,success,num_steps\na,1,3\n")
    sides = [f"{tmp_path / place / 'records.csv'}:records" for place in ("one", "two")]
    assert (
        f"{tmp_path}/one/records.csv:records minus {tmp_path}/two/records.csv:records"
        in recompact("compare", *sides).stdout
    )


def test_released_runs_on_the_command_line() -> None:
    path = reference_runs()
    table = recompact("compare", path).stdout
    assert "80.8 ± 7.6" in table
    data = json.loads(recompact("compare", path, "history", "prefix", "--json").stdout)
    assert (data["tasks"], data["runs"]) == (40, 3)
    assert any("one task is 2.5 points" in said for said in data["warnings"])
