"""Several arms, budgets, models and runs in one report: what is alike is said once, and each claim of the right one."""

from __future__ import annotations

import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import Page, arm, claim, make_evaluation, make_verified, note_adaptation, render_undrawn, selected
from run_files import change_rows

from recompact.attribution.statement import headline
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.breakdown import Breakdown
from recompact.presentation.report.content.overview import boundary_table
from recompact.presentation.report.content.report import Report, read_report
from recompact.presentation.report.content.runs import legend
from recompact.presentation.report.html.page import render
from recompact.values.candidate import Candidate
from recompact.values.context import Context
from recompact.values.tables import cell_text
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Score, Trajectory


def named_sections(html: str) -> list[str]:
    return [a["aria-labelledby"] for a in Page(html).of("section")]


# --- models


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The same evaluation with two models, in files of the same name."""
    home = tmp_path_factory.mktemp("models")
    runs = [make_evaluation(home / model / "x.db", model=model) for model in ("small-model", "large-model")]
    return read_report([str(run) for run in runs], home)


def test_evaluations_with_different_models_are_set_side_by_side(two: Report) -> None:
    assert isinstance(two.models, Breakdown)
    assert [part.value for part in two.models.parts] == ["small-model", "large-model"]
    html = render(two)
    titles = re.findall(r"<h3 id=\"figure-\d+\">([^<]+)</h3>", html)
    assert len(titles) == len(set(titles)) == 5  # also where the runs have the same name
    assert named_sections(html) == ["answer", "arms", "models", "figures", "prompt", "made"]
    text = Page(html).text
    for said in ("With other models", "small-model", "large-model", "The arms by model", "Δ Pass^2"):
        assert said in text
    assert "by-model:" not in text  # as a figure that is missing


def test_runs_of_the_same_name_are_told_apart(two: Report) -> None:
    paths = [made.provenance.name for made in two.evaluations]
    assert [made.name for made in two.evaluations] == paths  # the stem alone would be the same
    assert [made.arms.title for made in two.evaluations] == [f"office, 8 tasks, 2 runs ({path})" for path in paths]


def test_what_is_alike_is_said_once(two: Report) -> None:
    assert len(two.lead) == 2  # one of costs and one of gains, for both
    assert [len(claim.numbers) for claim in two.lead] == [2, 2]
    assert [len(row) for row in two.figures] == [3, 3]
    text = Page(render_undrawn(two)).text
    assert text.count("An arm is a way to compact the history") == 1
    assert text.count("one task is 12 points of Pass^2") == 1


def test_without_different_models_the_page_says_why_there_is_no_table_by_model(tmp_path: Path) -> None:
    runs = [str(make_evaluation(tmp_path / f"e{n}.db")) for n in (1, 2)]
    report = read_report(runs, tmp_path)
    assert report.models == "they were made with the same models (sim-agent)"
    html = render_undrawn(report)
    assert "models" not in named_sections(html)
    assert "they were made with the same models" in html


def test_however_a_run_is_named_it_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_evaluation(tmp_path / "runs" / "e.db")
    monkeypatch.chdir(tmp_path)
    report = read_report(["e", "runs/e.db", str(run)], Path("runs"))
    assert [made.name for made in report.provenance] == ["runs/e.db"]


# --- budgets


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Report:
    home = tmp_path_factory.mktemp("budgets")
    tasks = [f"more-{n}" for n in range(12)]
    return read_report([str(make_evaluation(home / "e.db", tasks=tasks, budgets=(100, 7000)))], home)


def test_a_claim_names_its_arms_where_not_all_are_alike(swept: Report) -> None:
    costs = [claim for claim in swept.lead if "ompaction" in claim.text]
    worse = next(claim for claim in costs if claim.text.startswith("Compaction makes this agent fail more often"))
    assert worse.text.endswith("(prompting@100/history).")
    unclear = next(claim for claim in costs if claim.text.startswith("There is no evidence"))
    assert "prompting/history" in unclear.text
    assert "prompting@7000/history" in unclear.text
    assert len(unclear.numbers) == 2
    assert all("against none: Accuracy" in line for line in (*worse.numbers, *unclear.numbers))


def test_the_key_figure_of_several_arms_is_a_range(swept: Report) -> None:
    whole, some, _ = swept.figures[0]
    assert whole.note == "arm none"
    assert re.fullmatch(r"[\d.]+ to [\d.]+ %", some.value)
    assert some.note.startswith("3 arms, prompting@100/history to ")


def test_a_sweep_has_its_table_and_figure(swept: Report) -> None:
    html = render(swept)
    text = Page(html).text
    for said in ("By budget", "What a smaller budget costs", "2 more comparisons"):
        assert said in text
    assert "by-budget" not in text  # nothing is missing


def test_many_intervals_are_a_warning(swept: Report, tmp_path: Path) -> None:
    warning = "differences are shown: one in twenty excludes zero by chance, even where nothing differs."
    one = read_report([str(make_evaluation(tmp_path / "e.db"))], tmp_path)
    assert not any(warning in text for text in one.warnings)
    many = read_report([str(make_evaluation(tmp_path / "m.db", names=["a", "b", "c", "d"]))], tmp_path)
    assert any(text == f"24 {warning}" for text in many.warnings)


# --- arms


def test_arms_scopes_and_columns_are_explained_as_far_as_they_are_there() -> None:
    def said(*arms: ArmRuns) -> str:
        from recompact.evaluation.summary import evaluation

        return " ".join(legend([evaluation("made", arms)]))

    whole = said(
        arm("none", ["11"]), arm("fifo", ["11"]), arm("prompting", ["11"], "history"), arm("x", ["11"], "prefix")
    )
    for words in (
        "none, which never compacts; fifo",
        "the original prompt asks for; any other",
        "prefix, those messages too",
        "Pass@k",
    ):
        assert words in whole
    alone = said(arm("theirs", ["1"]))
    assert alone.startswith("Acc is the share of runs that succeed. Steps")


def test_notes_that_stand_on_top_are_not_repeated_below_tables(tmp_path: Path) -> None:
    report = read_report([str(make_evaluation(tmp_path / "e.db"))], tmp_path)
    text = Page(render_undrawn(report)).text
    assert text.count("one task is 12 points of Pass^2") == 1
    assert text.count("not how any real model behaves") == 1


def test_a_table_with_nothing_in_it_is_left_out(tmp_path: Path) -> None:
    lines = ["task_id,seed,success,num_steps,scope", *(f"{t},{s},1,5,history" for t in range(7) for s in (1, 2))]
    (tmp_path / "released.csv").write_text("\n".join(lines))
    (made,) = read_report([str(tmp_path / "released.csv")], tmp_path).evaluations
    assert "Thousand tokens per task by role" not in [table.title for table in made.details]
    assert all(table.rows for table in made.details)


@pytest.mark.parametrize("arms", [1, 2])
def test_few_arms_make_a_page_too(tmp_path: Path, arms: int) -> None:
    lines = ["task_id,seed,success,num_steps"] + [f"{task},1,{task % 2},5" for task in range(7)]
    paths = []
    for n in range(arms):
        path = tmp_path / f"r{n}" / "run_records.csv"
        path.parent.mkdir()
        path.write_text("\n".join(lines))
        paths.append(str(path))
    report = read_report(paths, tmp_path)
    assert "Accuracy" in report.lead[0].text
    assert report.models == ("released records do not say which models made them" if arms > 1 else "")
    assert "svg" in render(report)


# --- boundaries


def test_the_list_has_the_numbers_of_recompact_boundaries(tmp_path: Path) -> None:
    report = read_report([str(make_verified(tmp_path / "v.db", ["red", "blue"]))], tmp_path)
    table = boundary_table(report.verified[0].verification)
    row = [cell_text(cell) for cell in table.rows[0]]
    assert row[:6] == ["task blue#1", "6", "+1.00", "+0.07 to +1.00", "+8.0", "+5.2 to +10.8"]
    assert row[6:] == ["2+2", "both", "0.94", "harmful"]
    assert any("P(harmful) is" in note for note in table.notes)


def test_what_is_harmful_though_success_rose_says_so(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "v.db", ["red"])
    change_rows(
        run, "UPDATE continuations SET success = (arm = 'POST' AND draw = 0), value = (arm = 'POST' AND draw = 0)"
    )
    (case,) = read_report([str(run)], tmp_path).verified[0].cases
    assert case.verdict.kind == "harmful"
    assert case.notes[-1] == "Only steps were lost: with the summary the agent succeeded more often."


def test_a_case_says_what_the_agent_was_asked(tmp_path: Path) -> None:
    report = read_report([str(make_verified(tmp_path / "v.db"))], tmp_path)
    (case,) = report.verified[0].cases
    assert [piece.text for piece in case.task] == ["Do the task."]
    assert "Task:</span> <q>Do the task.</q>" in render_undrawn(report)


def test_figures_that_are_missing_are_named_with_what_they_need(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "my run.db")
    text = Page(render(read_report([str(run)], tmp_path))).text
    assert "sensitivity-draws and sensitivity-thresholds" in text
    assert f"recompact verify '{run}' --allocation uniform:9" in text


def test_what_the_page_does_not_say_has_its_command(tmp_path: Path) -> None:
    report = read_report([str(make_evaluation(tmp_path / "e.db")), str(make_verified(tmp_path / "v.db"))], tmp_path)
    by_group = "--details --by difficulty --by family"  # all tables of the page
    assert report.provenance[0].commands == (f"recompact compare {tmp_path / 'e.db'} {by_group}",)
    asked = [step.command for made in report.provenance for step in made.more]
    assert f"recompact show {tmp_path / 'e.db'} --behaviour" in asked
    assert f"recompact replay {tmp_path / 'v.db'} 'task all is well#1' --template NAME=DIRECTORY" in asked
    html = render_undrawn(report)
    assert all(command.replace("'", "&#39;") in html for command in asked)


# --- runs that are not finished


def test_a_selection_that_is_under_way_has_no_winner_yet(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "v.db")
    own = default_template()
    other = Template(own.system, own.first + "Keep it.\n", own.update + "Keep it.\n")
    candidate = Candidate("pair-1", other)
    with Store.open(run) as store:
        note_adaptation(store, candidate)
    report = read_report([str(run)], tmp_path)
    assert [made.outcome for made in report.selections] == [
        "The candidates have not all been run on the fit tasks yet."
    ]
    assert report.prompts == ()
    assert "There are no two templates to compare" in render_undrawn(report)
    with Store.open(run) as store:
        note_adaptation(store, candidate, selected(candidate))
    done = read_report([str(run)], tmp_path)
    assert done.selections[0].selection
    assert "has not seen" in done.next[0].text
    assert (done.prompts[0].parts[0].like, done.prompts[0].parts[1].like) == ("", "first")
    assert "The same changes as in first.md." in render_undrawn(done)
    assert done.provenance[0].kind == "a verified and adapted run"


def test_a_run_in_which_nothing_was_compacted_says_so(tmp_path: Path) -> None:
    with Store.open(tmp_path / "whole run.db") as store:
        claim(store, "collect")
        made = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
        write_trajectory(store, "collect/t", made, phase="collect", run=0, groups={}, seconds=0.0)
    with pytest.raises(InputError, match="nothing was compacted in it"):
        read_report([str(tmp_path / "whole run.db")], tmp_path)


def test_a_run_whose_config_is_gone_is_reported_all_the_same(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "here" / "v.db")
    with Store.open(run) as store:
        store.set_metadata(replace(store.metadata, config_file="../nowhere.toml"))
        note_adaptation(store, Candidate("pair-1", Template("a", "b", "c")))
    shutil.move(tmp_path / "here", tmp_path / "there")
    report = read_report([str(tmp_path / "there" / "v.db")], tmp_path)
    assert report.lead[0].text == headline({"harmful": 1})


def test_an_unfinished_evaluation_warns_with_its_name(tmp_path: Path) -> None:
    whole, half = (make_evaluation(tmp_path / f"{name}.db") for name in ("whole", "half"))
    with sqlite3.connect(half) as db:
        db.execute("DELETE FROM trajectories WHERE task = 'office-0' AND run = 1")
    report = read_report([str(whole), str(half)], tmp_path)
    assert any(text.startswith("half: 1 task is left out") for text in report.warnings)
