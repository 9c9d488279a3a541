"""The comparison of methods: whole adaptations that go on from a cache, and intervals over adaptations and tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import adaptations
from adaptations import METHODS, Plan, Trial, all_clauses, trials
from methods import arms_table, distance_table, paired_difference, recovered_share, summary
from recompact.adaptation.facts import CLAUSES
from recompact.adaptation.lock import broken_rules, unusable
from recompact.adaptation.method import METHODS as REGISTERED
from recompact.values.candidate import ORIGINAL
from recompact.values.tables import render
from recompact.values.template import default_template

PLAN = Plan(train=4, test=2)


def test_every_registered_method_is_compared() -> None:
    assert set(REGISTERED.names()) <= set(METHODS)


def test_all_clauses_stand_in_a_usable_prompt() -> None:
    template = all_clauses(default_template())
    assert broken_rules(default_template(), template) == ()
    assert unusable(template) == ()
    assert all(clause in template.update for clause in (*CLAUSES.values(), *adaptations.MORE_CLAUSES))


def test_tasks_are_drawn_anew_for_each_adaptation_and_tested_on_the_same() -> None:
    plan = Plan(train=10, test=10)
    assert plan.train_tasks(1) == plan.train_tasks(1) != plan.train_tasks(2)
    assert len(set(plan.train_tasks(1))) == 10
    assert not set(plan.test_tasks()) & set(plan.train_tasks(1))


@pytest.mark.slow
def test_a_comparison_goes_on_from_its_cache(tmp_path: Path) -> None:
    methods = [ORIGINAL, "facts", "pair-swapped"]
    first, failures = trials(tmp_path, PLAN, methods, 1, 1)
    assert not failures
    assert [len(first[method][0].accuracy) for method in methods] == [2, 2, 2]
    assert first["facts"][0].continuations > 0
    again, _ = trials(tmp_path, PLAN, methods, 1, 1)
    assert again == first
    directory = PLAN.directory(tmp_path, 0)
    assert not list(directory.glob("test-*"))  # what has its figures needs no run
    (directory / "facts.json").unlink()  # as if it had been stopped
    repeated, _ = trials(tmp_path, PLAN, ["facts"], 1, 1)
    assert replace(repeated["facts"][0], seconds=0) == replace(first["facts"][0], seconds=0)


def test_what_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    done, failures = trials(tmp_path, Plan(train=2, test=2), [ORIGINAL, "acon-none"], 1, 1)
    assert len(done[ORIGINAL]) == 1
    assert [failure.what for failure in failures] == ["acon-none, adaptation 0"]


def trial(method: str, seed: int, *accuracy: float) -> Trial:
    return Trial(method, seed, accuracy, 5.0, 1.0, tokens={"collect": 1_000_000})


def test_differences_are_taken_within_an_adaptation(capsys: pytest.CaptureFixture[str]) -> None:
    by_method = {
        "none": [trial("none", 0, 1, 1, 1), trial("none", 1, 1, 1, 1)],
        ORIGINAL: [trial(ORIGINAL, 0, 1, 0, 0), trial(ORIGINAL, 1, 0, 0, 1)],
        "facts": [trial("facts", 0, 1, 0, 0), trial("facts", 1, 0, 0, 1)],
        "pair": [trial("pair", 0, 1, 1, 1), trial("pair", 1, 1, 1, 1)],
        "gepa": [],
    }
    matrices = {method: {each.seed: list(each.accuracy) for each in own} for method, own in by_method.items()}
    same = paired_difference(matrices, "facts", ORIGINAL)
    assert same is not None
    assert (same.value, same.low, same.high) == (0, 0, 0)
    gain = paired_difference(matrices, "pair", ORIGINAL)
    assert gain is not None
    assert gain.value == pytest.approx(2 / 3)
    assert paired_difference(matrices, "gepa", ORIGINAL) is None
    back = recovered_share(matrices, "pair")
    assert back is not None
    assert back.share == pytest.approx(1)
    data = summary(PLAN, by_method, quiet=False)
    shown = capsys.readouterr().out
    assert "Simulated models" in shown
    assert "| facts | 2 | 33.3" in shown
    assert data["against_minus"]["none"]["value"] == 0
    table = render(distance_table({"none": paired_difference(matrices, "pair", "none")}), "markdown")
    assert "| none | 0.0 \\[0.0, 0.0\\] | no |" in table
    assert "gepa" not in render(arms_table(PLAN, by_method, {}), "markdown")
