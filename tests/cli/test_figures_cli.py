"""`figures`, `evaluate --by` and `compare --by` as a person meets them, on simulated runs."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import recompact
from run_files import change_rows

from recompact.values.template import default_template
from recompact.version import install_command


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep, an evaluation of the same tasks with other models, and a verified run."""
    home = tmp_path_factory.mktemp("figures")
    (home / "c.toml").write_text("[suite]\nlimit = 3\n[compressor]\nbudget = 2048\n")
    default_template().save(home / "mine")
    arms = ("--arm", "none", "--arm", "prompting", "--arm", "mine=mine", "--runs", 2)
    for run, more in (("sweep", ("--budget", 1024, "--budget", "1536,2048")), ("here", ())):
        done = recompact("evaluate", "c.toml", *arms, *more, "--run", run, cwd=home)
        assert done.returncode == 0, done.stderr
    shutil.copy(home / "runs" / "here.db", home / "runs" / "there.db")
    change_rows(home / "runs" / "there.db", "UPDATE calls SET configured = 'another-model'")
    tasks = 'tasks = ["pocket-train-005", "pocket-train-019"]'
    (home / "v.toml").write_text(f"[suite]\n{tasks}\n[compressor]\nbudget = 2048\n")
    for command in (("collect", "v.toml"), ("verify", "v", "--draws", 4)):
        assert recompact(*command, cwd=home).returncode == 0
    return home


def test_budgets_are_arms_and_reuse_what_is_there(home: Path) -> None:
    """`prompting` of the config's budget is `prompting@2048`: nothing of it is run again."""
    arms = ("--arm", "none", "--arm", "prompting", "--arm", "fifo@700", "--runs", 2, "--run", "sweep", "--limit", 2)
    data = json.loads(recompact("evaluate", "c.toml", *arms, "--budget", "1024,2048", "--json", cwd=home).stdout)
    labels = ["none", "prompting@1024/history", "prompting@2048/history", "fifo@700"]
    assert [arm["arm"] for arm in data["arms"]] == labels
    assert [arm["budget"] for arm in data["arms"]] == [None, 1024, 2048, 700]
    (budgets,) = data["by"]
    assert [(part["value"], [arm["arm"] for arm in part["arms"]]) for part in budgets["parts"]] == [
        ("1,024", ["none", "prompting@1024/history"]),
        ("2,048", ["none", "prompting@2048/history"]),
    ]
    small, large = (part["arms"][1] for part in budgets["parts"])
    assert small["compactions"] > large["compactions"]
    with sqlite3.connect(home / "runs" / "sweep.db") as db:
        made = dict(db.execute("SELECT unit, count(*) FROM trajectories GROUP BY unit").fetchall())
    assert set(made.values()) == {1}
    before = len(made)
    one = recompact("evaluate", "c.toml", "--arm", "prompting", "--runs", 2, "--run", "sweep", "--limit", 2, cwd=home)
    assert one.returncode == 0, one.stderr
    with sqlite3.connect(home / "runs" / "sweep.db") as db:
        assert db.execute("SELECT count(*) FROM trajectories").fetchone()[0] == before
    table = recompact("compare", "sweep", cwd=home).stdout
    assert "By budget" in table
    assert "prompting@1536/history" in table
    assert "By budget" not in recompact("compare", "here", cwd=home).stdout
    against = recompact("compare", "sweep", "--against", "mine", cwd=home)
    assert "mine@1024/history" in against.stdout[against.stdout.index("Paired differences") :]


@pytest.mark.parametrize("text", ["0", "-1", "x", "1024,", "1e3", "²"])
def test_a_budget_is_a_number(home: Path, text: str) -> None:
    done = recompact("evaluate", "c.toml", "--arm", "none", "--limit", 1, "--run", "none", f"--budget={text}", cwd=home)
    if text == "1024,":  # a comma too many does no harm
        assert done.returncode == 0
    else:
        assert done.returncode == 2
        assert "is not a number of tokens" in done.stderr


def test_figures_of_a_sweep(home: Path) -> None:
    done = recompact("figures", "sweep", "--out", "out", cwd=home)
    assert done.returncode == 0, done.stderr
    names = ("by-budget", "arms", "reliability-tokens")
    assert {path.name for path in (home / "out").iterdir()} - {"manifest.json"} == {
        f"{n}.{e}" for n in names for e in ("svg", "png", "csv")
    }
    for name in names:
        ElementTree.parse(home / "out" / f"{name}.svg")
        assert (home / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        with (home / "out" / f"{name}.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) > 3
    assert "out/by-budget.svg, .png, .csv: What a smaller budget costs" in done.stdout
    assert "Simulated models." in done.stdout
    assert "no " not in done.stdout.split("\n    ")[-1].partition("Simulated models.")[2]


def test_figures_of_several_runs_and_what_is_missing(home: Path) -> None:
    done = recompact("figures", "here", "there", "v", "--out", "many", "--format", "svg", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [figure["name"] for figure in data["figures"]] == [
        *("here-arms", "here-reliability-tokens", "there-arms", "there-reliability-tokens"),
        *("v-boundary-effects", "v-sensitivity-draws", "v-sensitivity-thresholds", "by-model"),
    ]
    files = {Path(file).name for figure in data["figures"] for file in figure["files"]}
    assert files == {path.name for path in (home / "many").iterdir()} - {"manifest.json"}
    assert {path.rpartition(".")[2] for path in files} == {"svg", "csv"}
    assert [(gap["run"], gap["name"]) for gap in data["missing"]] == [
        ("here", "by-budget"),
        ("there", "by-budget"),
    ]
    assert "Simulated models." in data["figures"][4]["caption"]


def test_what_cannot_be_drawn_is_said(home: Path) -> None:
    (home / "f.toml").write_text("[suite]\nlimit = 1\n[compressor]\nbudget = 100000\n")
    recompact("collect", "f.toml", cwd=home)
    done = recompact("figures", "f", "--out", "nothing", cwd=home)
    assert done.returncode == 2
    assert "missing: boundary-effects of f: nothing was compacted" in done.stdout
    assert not (home / "nothing").exists()
    same = recompact("figures", "here", "sweep", "--out", "same", "--format", "svg", cwd=home).stdout
    assert "missing: by-model of here and sweep: they were made with the same models" in same
    for arguments, said in (
        (("nobody",), "there is no run 'nobody'"),
        (("here", "--format", "pdf"), "choose svg, png or both"),
        (("here", "--out", "c.toml"), "is a file"),
    ):
        refused = recompact("figures", *arguments, cwd=home)
        assert refused.returncode == 2
        assert said in refused.stderr


def test_released_records_can_be_drawn(home: Path) -> None:
    lines = ["task_id,seed,success,num_steps,scope"]
    lines += [f"{task},{seed},{int(task + seed < 4)},5,history" for task in range(4) for seed in (1, 2, 3)]
    (home / "released.csv").write_text("\n".join(lines))
    done = recompact("figures", "released.csv", "--out", "released", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "missing: reliability-tokens of released.csv: the records do not say" in done.stdout
    assert (home / "released" / "arms.svg").exists()


def test_evaluations_by_model(home: Path) -> None:
    done = recompact("compare", "here", "there", "--by", "model", cwd=home)
    assert done.returncode == 0, done.stderr
    for said in ("another-model", "sim-agent", "mine", "Pass^2", "recompact figures here there"):
        assert said in done.stdout
    data = json.loads(recompact("compare", "here", "there", "--by", "model", "--json", cwd=home).stdout)
    assert [part["value"] for part in data["parts"]] == ["sim-agent, compressor sim-compressor", "another-model"]
    both = [next(c for c in part["comparisons"] if c["first"] == "mine/history") for part in data["parts"]]
    assert [(c["second"], c["wins"]) for c in both] == [("prompting/history", 0)] * 2  # the same template
    against = recompact("compare", "here", "there", "--by", "model", "--against", "none", "--json", cwd=home)
    assert {c["second"] for part in json.loads(against.stdout)["parts"] for c in part["comparisons"]} == {"none"}
    for refused in (
        recompact("compare", "here", "--by", "model", cwd=home),
        recompact("evaluate", "c.toml", "--arm", "none", "--by", "model", cwd=home),
        recompact("compare", "here", "v", "--by", "model", cwd=home),
        recompact("compare", "here", "there", "--by", "model", "--against", "nobody", cwd=home),
        recompact("evaluate", "c.toml", "d.toml", "--arm", "none", "--run", "x", cwd=home),
    ):
        assert refused.returncode == 2


def test_several_configs_are_evaluated_and_set_side_by_side(home: Path) -> None:
    """Each has its own run file, and the table by model comes last."""
    for name, temperature in (("one", 0.5), ("two", 0.9)):
        text = f"[suite]\nlimit = 1\n[compressor]\nbudget = 2048\n[agent]\ntemperature = {temperature}\n"
        (home / f"{name}.toml").write_text(text)
    arms = ("--arm", "none", "--arm", "prompting", "--arm", "mine=mine", "--runs", 1)
    data = json.loads(recompact("evaluate", "one.toml", "two.toml", *arms, "--json", cwd=home).stdout)
    assert data["by"] == "model"
    assert [part["value"].partition(" (")[2] for part in data["parts"]] == ["one-evaluate)", "two-evaluate)"]
    shown = recompact("evaluate", "one.toml", "two.toml", *arms, cwd=home)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.index("Paired differences") < shown.stdout.index("By model")


def test_without_matplotlib_it_says_what_to_install(home: Path) -> None:
    """In a process that cannot import it."""
    code = "import sys; sys.modules['matplotlib'] = None; from recompact.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "figures", "here", "--out", "none"], capture_output=True, text=True, cwd=home
    )
    assert done.returncode == 2
    assert install_command("figures") in done.stderr
    assert "Traceback" not in done.stderr
    everything_else = subprocess.run(
        [sys.executable, "-c", code, "compare", "here", "there", "--by", "model"],
        capture_output=True,
        text=True,
        cwd=home,
    )
    assert everything_else.returncode == 0, everything_else.stderr
    hidden = "import sys; sys.modules['matplotlib'] = None"
    asked = f"{hidden}; from recompact.presentation.report.figures import drawing; print(drawing.available())"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout == "False\n"
