"""`recompact report` as a person meets it, and what it costs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import recompact
from report_support import Page, adapted_template, arm, claim, make_evaluation, make_verified

from recompact.adaptation.adapt import Adaptation
from recompact.adaptation.pair import PAIR
from recompact.cli.demo import _print_story
from recompact.engine.store.store import Store
from recompact.evaluation.arms import Arm, note_arms
from recompact.evaluation.summary import evaluation
from recompact.values.candidate import Candidate, Clause
from recompact.values.template import default_template

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report")
    make_evaluation(home / "runs" / "arms.db")
    make_verified(home / "runs" / "mine.db", ["red", "blue"])
    adapted_template().save(home / "adapted")
    return home


def test_a_page_is_written_and_said_where(home: Path) -> None:
    done = recompact(
        "report", "arms", "mine", "--title", "Ours <now>", "--top", 1, "--prompt", "default", "adapted", cwd=home
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The report: report.html (")
    page = Page((home / "report.html").read_text(encoding="utf-8"))
    assert "Ours <now>" in page.text
    assert "default → adapted" in page.text
    assert len([a for a in page.of("article") if a.get("class") == "case"]) == 1
    assert not list(home.glob(".*partial"))


def test_json_tells_what_was_made(home: Path) -> None:
    done = recompact("report", "mine", "--out", "deep/down/mine.html", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["report"] == "deep/down/mine.html"
    assert told["bytes"] == (home / told["report"]).stat().st_size
    assert (told["evaluations"], told["boundaries"], told["harmful"]) == (0, 2, 2)
    assert told["answer"][0].startswith("2 of 2 compactions look harmful")
    page = Page((home / told["report"]).read_text(encoding="utf-8"))
    sections = [a["aria-labelledby"] for a in page.of("section")]
    assert sections == ["answer", "figures", "boundaries", "made"]  # it is about boundaries alone


def test_released_records_make_a_page_too(home: Path) -> None:
    with (home / "released.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task_id", "seed", "scope", "success", "num_steps"])
        for task in range(10):
            for seed in (1, 2):
                writer.writerow([f"t{task}", seed, "history", int(task < 8), 10])
                writer.writerow([f"t{task}", seed, "prefix", int(task < 3), 10])
    done = recompact("report", "released.csv", "--out", "released.html", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answer"] == ["Accuracy: released/history 80.0 %, released/prefix 30.0 %."]
    text = Page((home / "released.html").read_text(encoding="utf-8")).text
    assert "How the arms compare" in text
    assert "Simulated" not in text


def test_the_demo_speaks_in_the_words_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    """A cost of minus two points, or a gain that is within noise, is not told as a fact."""
    candidate = Candidate("a", None, (Clause("Keep it.", "Goal", ("t#1",)),))
    adapted = Adaptation(PAIR, default_template(), "a", (candidate,), None)
    page = {
        "answer": ["There is no evidence.", "1 of 9 boundaries was retained."],
        "numbers": [["a against b: −2.0 points"], ["11.1 %."]],
    }
    _print_story(adapted, evaluation("office", [arm("none", ["11"])]), page, "1 of 9 compactions did harm.")
    told = capsys.readouterr().out
    assert told.startswith("A simulation: ")
    assert "There is no evidence.\n    a against b: −2.0 points\n1 of 9 compactions did harm.\n" in told
    assert told.index("There is no evidence.") < told.index("  + Keep it.  [1 compaction]\n") < told.index("none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument"),
        (("nobody",), "there is no run 'nobody' (runs/nobody.db); there are arms, mine"),
        (
            ("arms", "--out", "runs/arms.db"),
            "runs/arms.db is not the name of a page: give --out a name that ends with .html",
        ),
        (("arms", "--out", "runs/arms.db/x.html"), "cannot be written"),
        (("arms", "--prompt", "default", "nowhere"), "nowhere is not a template directory"),
        (("arms", "--prompt", "default"), "requires 2 arguments"),
        (("arms", "--top", "0"), "0 is not in the range"),
        (("red & blue",), "is not a name for a run"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(home: Path, arguments: tuple[str, ...], said: str) -> None:
    done = recompact("report", *arguments, cwd=home)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (home / "runs" / "arms.db").stat().st_size > 10_000


def test_an_evaluation_without_a_common_task_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "begun.db") as store:
        claim(store, "evaluate")
        note_arms(store, [Arm("none", "none")])
    done = recompact("report", tmp_path / "begun.db", cwd=tmp_path)
    assert done.returncode == 2
    assert "no task yet that every arm has finished" in done.stderr


@pytest.mark.slow
def test_a_large_report_stays_small() -> None:
    """168 tasks, 3 runs, 7 arms and 402 boundaries: at most 5 MB."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "report.py"), "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["boundaries"] == 402
    assert told["bytes"] < 5_000_000
