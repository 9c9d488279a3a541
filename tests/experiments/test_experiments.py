"""The experiments: configs and plans hold together, a small simulated one runs, and its page says what it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from experiment_support import PLAN, small_experiment
from needs import OFFICEBENCH, needs, require
from run_files import change_rows

import experiment
from echoes import repeated_sentences, sentences
from experiment import Experiment, load_experiment, names, read_plan
from forecast import amounts, assumed_habits, forecast
from recompact.adaptation.gepa_search import MINIBATCH
from recompact.adaptation.method import METHODS
from recompact.errors import InputError
from recompact.evaluation.metrics import metric
from recompact.evaluation.paired import Comparison, Difference
from recompact.suites.pocket import PocketSuite
from recompact.values.tables import render
from recompact.values.template import default_template
from results import page, verdict
from run import run

CONFIGS = [(name, config) for name in names() for config in ("config", "hosted")]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    return small_experiment(tmp_path, monkeypatch)


def test_there_are_the_experiments_that_the_readme_lists() -> None:
    readme = (experiment.HERE / "README.md").read_text()
    assert names() == [
        *("all-real", "exact-values", "fresh-tasks", "mini-files"),
        *("officebench", "own-causes", "real-causes", "real-compressor"),
    ]
    assert all(f"({name}/protocol.md)" in readme for name in names())
    assert all((experiment.HERE / name / "protocol.md").is_file() for name in names())


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_a_plan_fits_its_config(name: str, config: str) -> None:
    loaded = load_experiment(name, config)
    plan = loaded.plan
    assert set(plan.methods) <= set(METHODS.names())
    if plan.tasks:
        assert set(plan.methods) <= {*plan.arms, *plan.later}
        assert {"none", "prompting"} <= set(plan.arms)
    assert plan.fresh.keys() <= {text.partition("=")[0] for text in plan.later}
    assert all(set(tasks) <= set(plan.tasks) for tasks in plan.fresh.values())
    assert plan.options.keys() <= {config for _, config in CONFIGS}
    assert loaded.options("gepa") == dict(plan.options.get(config, {}).get("gepa", {}))
    assert all(options.keys() <= set(plan.methods) for options in plan.options.values())
    if runs := loaded.options("gepa").get("metric_calls"):  # two rounds of its search at least
        assert runs >= 3 * loaded.config.adapt.fit_tasks + 4 * MINIBATCH
    assert metric(plan.outcome).better in ("more", "less")
    assert len(set(plan.tasks)) == len(plan.tasks)
    assert not set(plan.tasks) & set(loaded.config.suite.tasks)
    assert loaded.config.suite.split == "train"
    splits = {"mini-files": "unseen"} | dict.fromkeys(("exact-values", "fresh-tasks", "own-causes"), "fresh")
    assert plan.split == splits.get(name, "test")


@pytest.mark.parametrize("name", ["all-real", "real-compressor"])
def test_all_test_tasks_of_the_easy_families_are_there(name: str) -> None:
    families = {"contact_detail", "event_time", "bill_total"}
    easy = {task.id for task in PocketSuite().tasks("test") if task.groups["family"] in families}
    assert set(load_experiment(name).plan.tasks) == easy


def test_all_fresh_tasks_are_there_and_blocks_hold_one_of_each_family() -> None:
    fresh = load_experiment("fresh-tasks")
    families = {task.id: task.groups["family"] for task in PocketSuite().tasks("fresh")}
    assert fresh.plan.tasks == tuple(families)
    assert set(fresh.plan.judged) <= {arm.name for arm in fresh.arms(later=True)}
    for start in range(0, 60, fresh.plan.block):
        assert len({families[task] for task in fresh.plan.tasks[start : start + fresh.plan.block]}) == 3


def test_arms_are_paired_after_every_block_and_later_ones_catch_up(small: Experiment) -> None:
    def batches(limit: int | None = None, **changes: Any) -> list[tuple[int, bool]]:
        plan = replace(small.plan, tasks=tuple("abcdefg"), **changes)
        return list(replace(small, plan=plan).batches(limit))

    assert batches() == [(7, False), (7, True)]
    assert batches(3) == [(3, False), (3, True)]
    assert batches(later=()) == [(7, False)]
    assert batches(block=3) == [(3, False), (6, False), (7, False), (3, True), (6, True), (7, True)]
    first = [(2, False), (4, False), (2, True), (4, True)]
    assert batches(block=2, stages=(4, 7)) == [*first, (6, False), (7, False), (6, True), (7, True)]
    assert batches(4, block=2, stages=(4, 7)) == first


@needs("officebench")
def test_broken_tasks_of_officebench_are_left_out() -> None:
    plan, config = load_experiment("officebench").plan, load_experiment("officebench", "hosted").config
    text = (experiment.HERE.parent / "docs" / "officebench.md").read_text()
    broken = text.split("Some tasks are broken in the data")[1].split("Nothing is repaired here.")[0]
    assert not [task for task in (*plan.tasks, *config.suite.tasks) if f" {task}" in broken.replace("\n", " ")]
    assert all(task.startswith("1-") for task in (*plan.tasks, *config.suite.tasks))


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_check_needs_nothing_but_a_key(name: str, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "officebench":
        require("officebench")
    if name == "mini-files":
        require("mini", "bubblewrap")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("RECOMPACT_OFFICEBENCH", str(OFFICEBENCH))
    file = experiment.HERE / name / f"{config}.toml"
    done = recompact("check", str(file))
    if config == "config":
        assert done.returncode == 0, done.stderr
    else:
        (problem,) = done.stderr.strip().splitlines()
        assert "needs its key in the environment variable OPENAI_API_KEY" in problem
        monkeypatch.setenv("OPENAI_API_KEY", "a-word-of-the-test")
        with_key = recompact("check", str(file))
        assert with_key.returncode == 0, with_key.stderr


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_the_forecast_needs_no_key(name: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = render(forecast(load_experiment(name, config, tmp_path)), "terminal")
    assert "calls" in text
    assert ("by the prices of the config" in text) == (config == "hosted")


def test_a_forecast_counts_the_runs_of_a_search_set_or_by_default(small: Experiment) -> None:
    def whole(**options: int) -> int:
        plan = replace(small.plan, methods=(*small.plan.methods, "gepa"), options={"config": {"gepa": options}})
        return amounts(replace(small, plan=plan), assumed_habits(small), runs=1)[0]

    none, continuations, _ = amounts(small, assumed_habits(small), runs=1)
    assert whole(metric_calls=30) - whole(metric_calls=20) == 10
    assert whole() - whole(metric_calls=20) == continuations - 20
    assert whole(metric_calls=20) > none + 20  # and the candidates on the fit tasks


def test_a_forecast_counts_what_the_run_makes(small: Experiment) -> None:
    whole, continuations, _ = amounts(small, assumed_habits(small), runs=1)
    assert whole == 4 + 2 + 2 * 2 * 3 + 6 * 2  # collected, the original and candidates on fit tasks, arms
    assert continuations == 2 * 4 * 2
    before = render(forecast(small), "terminal")
    assert "assumptions" in before


@pytest.mark.slow
def test_an_experiment_runs_goes_on_and_is_written_up(small: Experiment) -> None:
    assert "Nothing has been collected yet." in page(small)
    assert run(small, ["facts"], "adapt", None, 1) in (0, 2)
    halfway = page(small)
    assert "Training tasks collected: 4 of 4." in halfway
    assert "### pair\n\nNot begun." in halfway
    assert run(small, small.plan.methods, "all", 1, 1) in (0, 2)
    assert "1 task" in page(small)
    assert run(small, small.plan.methods, "all", None, 1) in (0, 2)
    text = page(small)
    assert text == page(small)
    assert "boundaries were retained" in text
    assert "pocket-test-002 | " in text
    assert "Paired differences" in text
    assert "by-hand" in text
    first, later = text.split("With facts-entries, which was added later", 1)
    _, fresh = later.split("With facts-entries, on tasks of which no result was known when it was added", 1)
    fresh = fresh.split("With by-hand, which was added later")[0]
    assert "facts-entries/history better than prompting/history" not in first
    assert later.count("facts-entries/history better than prompting/history: *not shown*") == 2
    assert "pocket-test-001" not in fresh
    assert "pocket-test-002" in fresh
    assert "*not shown* (2 tasks of at least 12" in text or "facts better than" not in text
    assert "Simulated models" in text
    assert "| access tokens | " in text
    assert "Summaries that repeat the template in place of what it asks for" in text


@pytest.mark.slow
def test_where_nothing_can_be_lost_an_experiment_ends(small: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    hopeless = replace(small, plan=replace(small.plan, solvable=5))
    assert "not tried yet; 5 of 4 have to be solved" in page(hopeless)
    assert run(hopeless, hopeless.plan.methods, "all", None, 1) == 0
    assert "fewer than 5, so there is nothing that a compaction could cost: it ends here." in capsys.readouterr().out
    assert "**the experiment ends here, and this is its result.**" in page(hopeless)
    assert not hopeless.adaptations.exists()
    solvable = replace(small, plan=replace(small.plan, solvable=1))
    assert run(solvable, ["facts"], "adapt", None, 1) in (0, 2)
    assert "**the experiment ends here" not in page(solvable)
    assert "Training tasks collected: 4 of 4." in page(solvable)
    whole, _, _ = amounts(solvable, assumed_habits(solvable), runs=1)
    assert whole == amounts(small, assumed_habits(small), runs=1)[0] + 4


def test_a_trial_whose_environments_broke_decides_nothing(small: Experiment) -> None:
    hopeless = replace(small, plan=replace(small.plan, solvable=5))
    assert run(hopeless, hopeless.plan.methods, "all", None, 1) == 0
    change_rows(hopeless.trial, "UPDATE trajectories SET ending = 'environment error' WHERE task = 'pocket-train-002'")
    with pytest.raises(InputError, match="the environments of pocket-train-002 broke"):
        run(hopeless, hopeless.plan.methods, "all", None, 1)
    assert "In 1 of them the environment broke, so nothing follows from this yet." in page(hopeless)
    assert "ends here" not in page(hopeless)


def test_sentences_of_the_template_are_recognised_in_a_summary() -> None:
    asked = sentences(default_template())
    assert "What the agent has been asked to achieve." in asked
    assert repeated_sentences("## Goal\n- [x] What the agent was asked to achieve.", asked) == [
        "What the agent has been asked to achieve."
    ]
    assert repeated_sentences("## Goal\nFind the total of the bill of May.\n- token: fil-22", asked) == []
    assert repeated_sentences("", asked) == repeated_sentences("What the agent has been asked to achieve.", []) == []


def test_a_method_without_a_template_has_no_arm(small: Experiment) -> None:
    assert [arm.name for arm in small.arms()] == ["none", "prompting"]
    assert [arm.name for arm in small.arms(later=True)] == ["none", "prompting", "by-hand"]


@pytest.mark.parametrize(
    ("outcome", "delta", "tasks", "shown"),
    [
        ("acc", (0.3, 0.1, 0.5), 12, True),
        ("acc", (0.3, 0.1, 0.5), 11, False),
        ("acc", (0.3, 0.0, 0.5), 12, False),
        ("acc", (-0.3, -0.5, -0.1), 34, False),
        ("steps", (-2.0, -3.0, -1.0), 12, True),
        ("steps", (2.0, 1.0, 3.0), 12, False),
    ],
)
def test_only_what_meets_the_criterion_is_shown(
    small: Experiment, outcome: str, delta: tuple[float, float, float], tasks: int, shown: bool
) -> None:
    chosen = Difference(outcome, 0.0, 0.0, *delta)
    success = () if outcome == "acc" else (Difference("acc", 0.0, 0.0, 0.0, 0.0, 0.0),)
    wins, losses = (4, 0) if delta[0] > 0 else (0, 4)
    comparison = Comparison("facts/history", "prompting/history", tasks, 1, (chosen, *success), wins, losses, 0.1)
    judged = verdict(comparison, replace(small, plan=replace(small.plan, outcome=outcome)))
    assert ("**shown**" in judged) == shown
    assert ("*not shown*" in judged) != shown


def test_fewer_steps_at_lower_success_are_not_shown(small: Experiment) -> None:
    differences = (Difference("steps", 5.0, 9.0, -4.0, -5.0, -3.0), Difference("acc", 0.5, 0.6, -0.1, -0.2, 0.0))
    comparison = Comparison("facts/history", "prompting/history", 34, 1, differences, 0, 3, 0.25)
    judged = verdict(comparison, replace(small, plan=replace(small.plan, outcome="steps")))
    assert "its success is lower" in judged


def test_mistakes_are_named(small: Experiment) -> None:
    with pytest.raises(InputError, match="there is no experiment 'large': there are small"):
        load_experiment("large")
    with pytest.raises(InputError, match="small has no config 'hosted': it has config"):
        load_experiment("small", "hosted")
    (small.folder / "plan.toml").write_text("arm = []\n" + PLAN)
    with pytest.raises(InputError, match="arm is no part of a plan"):
        read_plan(small.folder / "plan.toml")
