"""Arms broken down by groups of tasks, by budget and by the models of several evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_support import arm
from sentences import numbers_in

from recompact.engine.config import CompressorConfig
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.breakdown import (
    Breakdown,
    across_models,
    breakdown,
    breakdown_table,
    by_budget,
    by_group,
    by_model,
    check_by,
    describe_models,
)
from recompact.evaluation.released import load_arms, load_evaluation, models_of
from recompact.evaluation.summary import Evaluation, arm_table, difference_table, estimates, evaluation, references
from recompact.models.journal import JournaledReply
from recompact.values.chat import Message, Reply, Usage
from recompact.values.stats import sign_test
from recompact.values.tables import FORMATS, Number, Table, render, render_all
from recompact.values.template import default_template


def at(made: ArmRuns, budget: int | None, kind: str = "prompted", **settings: Any) -> ArmRuns:
    return replace(made, settings={"kind": kind, "budget": budget, **settings})


def with_steps(made: ArmRuns, steps: Mapping[str, int]) -> ArmRuns:
    return replace(made, rows=tuple(replace(row, steps=steps[row.task]) for row in made.rows))


def keys_of(table: Table) -> list[str]:
    return [column.key for column in table.columns]


def column(table: Table, key: str) -> list[Any]:
    return [row[keys_of(table).index(key)] for row in table.rows]


# --- by a group of the tasks

GOOD = arm("prompting", ["111"] * 6, "history")
BAD = arm("pair", ["000"] * 6, "history", steps=20)


def test_a_group_is_an_evaluation_of_its_tasks() -> None:
    found = by_group(evaluation("e", [GOOD, BAD]), "difficulty")
    assert found is not None
    assert [(part.value, len(part.evaluation.shared.tasks)) for part in found.parts] == [("easy", 3), ("hard", 3)]
    table = breakdown_table(found)
    assert table.title == "e, by difficulty"
    assert keys_of(table) == ["value", "tasks", "arm", "scope", "acc", "pass^3", "steps", "peak"]
    assert [row[:4] for row in table.rows] == [
        (value, 3, name, "history") for value in ("easy", "hard") for name in ("prompting", "pair")
    ]
    (note,) = table.notes
    assert numbers_in(note) == ["3"]
    many = by_group(evaluation("e", [arm("a", ["111"] * 40), arm("b", ["110"] * 40)]), "difficulty")
    assert many is not None
    assert many.notes == ()
    assert by_group(evaluation("e", [GOOD]), "nothing") is None


def test_with_a_reference_a_group_has_paired_differences() -> None:
    found = by_group(evaluation("e", [GOOD, BAD]), "difficulty", "pair")
    assert found is not None
    assert [[(c.first, c.second, c.wins, c.tasks) for c in part.comparisons] for part in found.parts] == [
        [("prompting/history", "pair/history", 3, 3)]
    ] * 2
    table = breakdown_table(found)
    assert [cell and cell.text for cell in column(table, "acc_delta")][:2] == ["+100.0 [-26.3, +100.0]", None]
    assert column(table, "minus") == ["pair/history", None] * 2
    assert "]*" not in render(table, "terminal")  # three tasks


@pytest.mark.parametrize(("by", "words"), [("size", "grouped by difficulty"), ("model", "two evaluations or more")])
def test_what_cannot_be_broken_down_by_is_refused(by: str, words: str) -> None:
    check_by(["difficulty", "budget"], ["difficulty"])
    with pytest.raises(InputError, match=words):
        check_by([by], ["difficulty"])


# --- by budget

NONE = at(arm("none", ["111", "110", "100", "111"]), None, "none")
SMALL = at(arm("prompting@1024", ["100", "000", "100", "111"], "history", steps=20), 1024)
LARGE = at(arm("prompting@4096", ["111", "010", "110", "111"], "history", steps=12), 4096)
MIDDLE = at(arm("prompting", ["110", "010", "110", "111"], "history", steps=15), 2048)  # the config's own budget
OTHER = at(arm("pair@1024", ["111", "110", "100", "111"], "history"), 1024)


def labels(found: Breakdown | None) -> dict[str, list[str]]:
    assert found is not None
    return {part.value: [arm.label for arm in part.evaluation.arms] for part in found.parts}


def test_arms_of_one_name_and_scope_are_set_side_by_side_by_budget() -> None:
    prefix = [replace(made, scope="prefix") for made in (LARGE, SMALL)]
    again = replace(MIDDLE, name="prompting@2048")  # the same under another name
    found = by_budget(evaluation("e", [NONE, LARGE, SMALL, MIDDLE, again, OTHER, *prefix]))
    assert labels(found) == {
        "1,024": ["none", "prompting@1024/history", "prompting@1024/prefix"],
        "2,048": ["none", "prompting/history"],
        "4,096": ["none", "prompting@4096/history", "prompting@4096/prefix"],
    }


def test_one_budget_is_nothing_to_break_down() -> None:
    assert by_budget(evaluation("e", [NONE, SMALL, OTHER])) is None
    assert by_budget(evaluation("e", [])) is None
    assert by_budget(evaluation("e", [SMALL, LARGE], [])) is None
    assert by_budget(evaluation("e", [replace(made, settings={}) for made in (SMALL, LARGE)])) is None


def test_steps_beside_none_are_resampled_together() -> None:
    tasks = {f"t{n:03d}": 5 + 7 * n for n in range(4)}
    whole = with_steps(NONE, tasks)
    twice = with_steps(SMALL, {task: 2 * steps for task, steps in tasks.items()})
    found = breakdown(evaluation("e", [whole, twice, LARGE]), "budget")
    assert found is not None
    (comparison,) = found.parts[0].comparisons
    relative = comparison.of("steps").relative
    assert relative is not None  # whatever tasks are drawn, it is twice as many
    assert (relative.value, relative.low, relative.high) == (1, 1, 1)
    cells = [cell for cell in column(breakdown_table(found), "steps_delta") if cell]
    assert cells[0].text == "+100.0 [+100.0, +100.0]"


def test_without_none_there_is_nothing_to_measure_by() -> None:
    found = by_budget(evaluation("e", [SMALL, LARGE], runs=1))
    assert found is not None
    assert not any(part.comparisons for part in found.parts)
    assert not any(key.endswith("_delta") for key in keys_of(breakdown_table(found)))


def test_an_arm_in_which_nothing_was_compacted_is_marked() -> None:
    idle = replace(LARGE, rows=tuple(replace(row, compactions=0) for row in LARGE.rows))
    found = by_budget(evaluation("e", [NONE, SMALL, idle]))
    assert found is not None
    (note,) = found.notes
    assert "prompting@4096/history" in note
    assert numbers_in(note)[-1:] == ["4,096"]


def test_each_arm_is_measured_against_the_reference_of_its_budget() -> None:
    shown = evaluation("e", [NONE, SMALL, LARGE, OTHER, at(arm("fifo@4096", ["000"] * 4), 4096, "fifo")])
    pairs = {a.label: b.label for a, b in references(shown)}
    assert pairs == {
        "none": "prompting@1024/history",
        "pair@1024/history": "prompting@1024/history",
        "fifo@4096": "prompting@4096/history",
    }
    exact = evaluation("e", [NONE, MIDDLE, SMALL])
    assert {a.label: b.label for a, b in references(exact)} == {
        "none": "prompting/history",
        "prompting@1024/history": "prompting/history",
    }
    assert difference_table(shown) is not None


def bold(table: Table) -> dict[str, set[str]]:
    return {
        f"{row[0]}/{row[1]}": {
            column.key
            for column, cell in zip(table.columns, row, strict=True)
            if isinstance(cell, Number) and cell.best
        }
        for row in table.rows
    }


def test_the_best_of_those_that_compress_are_bold() -> None:
    one = at(arm("prompting", ["110", "010", "110", "111"], "history", steps=15), 2048)
    two = at(arm("pair", ["111", "110", "000", "111"], "history", steps=12), 2048)
    fifo = at(arm("fifo", ["000", "000", "000", "111"], steps=9), 2048, "fifo")
    alone = at(arm("pair", ["111"] * 4, "prefix", steps=3), 2048)
    elsewhere = at(arm("pair@512", ["111"] * 4, "history", steps=1), 512)
    table = arm_table(evaluation("e", [NONE, one, two, fifo]))
    found = bold(table)
    assert found["none/None"] == set()  # it does not compete
    assert found["pair/history"] >= {"acc", "pass^3"}
    assert "acc" in found["prompting/history"]  # eight of twelve both
    assert "pass@3" in found["prompting/history"]
    assert found["fifo/None"] >= {"steps", "peak", "tokens"}
    assert "peak" in found["pair/history"]  # ties stand together
    assert not {"compactions", "cached"} & set().union(*found.values())
    other = bold(arm_table(evaluation("e", [NONE, one, two, alone, elsewhere])))
    assert other["pair/history"] >= {"steps", "pass^3"}  # another scope or budget takes nothing from it
    assert other["pair/prefix"] == other["pair@512/history"] == set()  # nobody to be better than
    markdown, latex = render(table, "markdown"), render(table, "latex")
    assert "**66.7 ± " in markdown
    assert r"$\mathbf{66.7}${\scriptsize" in latex
    for text in (markdown, latex):
        assert "Bold:" in text
    assert "Bold" not in render(table, "terminal")
    assert "Bold" not in render(arm_table(evaluation("e", [NONE, one])), "markdown")


def test_estimates_are_the_means_with_their_intervals() -> None:
    found = estimates(evaluation("e", [SMALL, LARGE]), ("acc", "tokens"), resamples=50)
    small = found["prompting@1024/history"]
    assert set(small) == {"acc", "tokens"}
    assert small["acc"].value == pytest.approx(5 / 12)
    assert small["acc"].low < small["acc"].value < small["acc"].high
    assert (small["tokens"].value, small["tokens"].low, small["tokens"].high) == (135, 135, 135)
    assert (small["acc"].low, small["acc"].high) == pytest.approx((0.1100, 0.8050), abs=1e-4)  # Wilson's, of four tasks
    assert estimates(evaluation("e", [SMALL], []), ("acc",)) == {"prompting@1024/history": {}}


# --- by model


def prompted(name: str, outcomes: list[str], scope: str = "history", **settings: Any) -> ArmRuns:
    known = {"kind": "prompted", "budget": 2048, "template": name, **settings}
    return replace(arm(name, outcomes, scope), settings=known)


WHOLE = replace(arm("none", ["111", "111", "110", "000"]), settings={"kind": "none"})
BEFORE = prompted("prompting", ["111", "100", "110", "000"])
AFTER = prompted("pair", ["111", "111", "110", "100"], adapted_with={"agent": "a", "compressor": "a", "optimizer": "o"})


def run_of(title: str, *arms: ArmRuns, suite: str = "pocket", models: Mapping[str, str] | None = None) -> Evaluation:
    return evaluation(title, arms, suite=suite, models=models)


ONE = run_of("one", WHOLE, BEFORE, AFTER, models={"agent": "a", "compressor": "a"})
TWO = run_of("two", BEFORE, prompted("pair", ["100", "101", "000", "000"]), models={"agent": "b", "user": "c"})


def test_each_evaluation_is_a_part() -> None:
    found = by_model([ONE, TWO])
    first, second = found.parts
    assert (first.value, second.value, found.runs) == ("a", "b", 3)
    assert labels(found) == {"a": ["prompting/history", "pair/history"], "b": ["prompting/history", "pair/history"]}
    (comparison,) = first.comparisons
    assert comparison.of("pass^3").delta == pytest.approx(1 / 4)
    assert (comparison.wins, comparison.losses, comparison.p) == (1, 0, sign_test(1, 0))
    assert second.comparisons[0].of("acc").delta == pytest.approx(3 / 12 - 6 / 12)
    data = json.loads(json.dumps(found.to_json()))
    assert data["parts"][0]["arms"][1]["pass^3"] == 0.5
    assert data["parts"][1]["models"] == {"agent": "b", "user": "c"}
    with_none = by_model([ONE, replace(TWO, arms=(WHOLE, *TWO.arms))])
    assert labels(with_none)["b"] == ["none", "prompting/history", "pair/history"]


def test_the_table_in_every_format() -> None:
    table = breakdown_table(by_model([ONE, TWO]))
    shown = {form: render_all([table], form) for form in FORMATS}
    for text in shown.values():
        assert "pair" in text
        assert "prompting" in text
    assert "adapted with" in shown["terminal"]
    assert "75.0 ± 25.0" in shown["terminal"]
    assert "acc_delta_low" in shown["csv"]
    bare = breakdown_table(by_model([replace(TWO, title="x"), TWO]))
    assert "adapted with" not in render(bare, "terminal")  # nothing is known of it
    assert column(bare, "value")[::2] == ["b (x)", "b (two)"]


def test_what_a_reader_should_know() -> None:
    def notes(*arms: ArmRuns) -> str:
        return "\n".join(by_model([ONE, run_of("two", *arms, models=TWO.models)]).notes)

    before, after = TWO.arms
    assert "same models" in "\n".join(by_model([ONE, replace(ONE, title="again")]).notes)
    assert "same models" not in notes(before, after)
    unknown = [replace(ONE, models=None), replace(TWO, models=None)]
    assert "same models" not in "\n".join(by_model(unknown).notes)
    changed = prompted("pair", ["111"] * 4, template="another")
    assert "same template in all of them: pair/history." in notes(before, changed)
    swept = [replace(made, settings={**made.settings, "budget": 512}) for made in TWO.arms]
    assert "budgets in all of them: pair/history, prompting/history." in notes(*swept)
    # Released records do not say, and what they do not say does not differ.
    assert "Not the same" not in notes(*(replace(made, settings={}) for made in TWO.arms))
    assert "Not the same" not in notes(before, after)
    assert "the same tasks" in notes(before, prompted("pair", ["111"] * 3))
    assert "two: 1 task" in notes(replace(before, rows=before.rows[1:]), after)
    assert "25 points" in notes(before, after)
    assert "Simulated models" not in notes(before, after)
    assert "Simulated models" in notes(*(replace(made, simulated=True) for made in TWO.arms)).splitlines()[-1]
    idle = replace(after, rows=tuple(replace(row, compactions=0) for row in after.rows))
    (note,) = (line for line in notes(before, idle).splitlines() if line.startswith("two: "))
    assert "pair/history" in note


def test_evaluations_are_told_apart_and_share_their_runs() -> None:
    assert list(labels(by_model([ONE, ONE, ONE]))) == ["a (one)", "a (one (2))", "a (one (3))"]
    fewer = run_of(
        "two", *(replace(a, rows=tuple(r for r in a.rows if r.run < 2)) for a in TWO.arms), models=TWO.models
    )
    found = by_model([ONE, fewer])
    assert [part.evaluation.shared.runs for part in found.parts] == [2, 2]
    assert "pass^2_delta" in keys_of(breakdown_table(found))
    assert len(by_model([ONE, replace(TWO, suite="")]).parts) == 2  # records without a suite may stand beside others


@pytest.mark.parametrize(
    ("evaluations", "against", "words"),
    [
        ([ONE], "prompting", "two evaluations or more"),
        ([ONE, replace(TWO, suite="tau2")], "prompting", "different suites \\(pocket, tau2\\)"),
        ([ONE, run_of("two", WHOLE)], "prompting", "no arm that compresses is in all of these"),
        ([ONE, TWO], "fifo", "one has no arm 'fifo' to measure against"),
        (
            [ONE, run_of("two", BEFORE, replace(AFTER, rows=tuple(replace(r, task=f"x{r.task}") for r in AFTER.rows)))],
            "prompting",
            "two has no task yet that all arms have done",
        ),
    ],
)
def test_refusals(evaluations: list[Evaluation], against: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        by_model(evaluations, against)


def test_why_there_is_no_table_by_model() -> None:
    assert isinstance(across_models([ONE, TWO]), Breakdown)
    assert not isinstance(across_models([ONE, replace(TWO, models=None)]), Breakdown)
    assert str(across_models([ONE, ONE])).endswith("(a)")
    assert "different suites" in str(across_models([ONE, replace(TWO, suite="tau2")]))


def test_models_are_those_that_answered(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.db") as store:
        store.set_metadata(
            replace(
                store.metadata, command="evaluate", suite="s", identity={"models": {"mine": {"id": "vendor/model-7"}}}
            )
        )
        reply = Reply(Message("assistant", "x"), Usage(1, 1), "stop", "m")
        for n, (role, name) in enumerate([("agent", "mine"), ("compressor", "sim-compressor"), ("compressor", "mine")]):
            store.journal(JournaledReply("u", n, role, name, "00", reply, 0.1))
        assert models_of(store) == {"agent": "vendor/model-7", "compressor": "vendor/model-7 + sim-compressor"}
    found = load_evaluation(str(tmp_path / "r.db"), tmp_path)
    assert (found.title, found.suite, found.arms) == ("r", "s", ())
    assert describe_models(found.models) == "vendor/model-7, compressor vendor/model-7 + sim-compressor"
    assert load_arms("r", tmp_path) == ()


def test_released_records_take_part(tmp_path: Path) -> None:
    for arm_name, wins in (("prompting", (1, 0)), ("pair", (1, 1))):
        home = tmp_path / "records" / arm_name / "s1"
        home.mkdir(parents=True)
        lines = [json.dumps({"task_id": str(n), "success": won, "num_steps": 3}) for n, won in enumerate(wins)]
        (home / "run_records.jsonl").write_text("\n".join(lines))
    found = load_evaluation(str(tmp_path / "records"), tmp_path)
    assert found.models is None
    parts = by_model([found, replace(found, title="other")]).parts
    assert [part.comparisons[0].of("acc").delta for part in parts] == [0.5, 0.5]
    assert [part.value for part in parts] == ["? (records)", "? (other)"]


def test_an_arm_knows_with_which_models_its_template_was_adapted(tmp_path: Path) -> None:
    template = default_template()
    template.save(tmp_path / "t")
    manifest: dict[str, Any] = {
        "hash": template.hash,
        "models": {"agent": "big", "compressor": "sim-compressor"},
        "config": {"models": {"big": {"id": "vendor/big-2"}}},
    }

    def parsed() -> dict[str, Any]:
        (made,) = parse_arms([f"pair={tmp_path / 't'}"], CompressorConfig(), template)
        return made.to_json()

    assert "adapted_with" not in parsed()
    (tmp_path / "t" / "manifest.json").write_text(json.dumps(manifest))
    assert parsed()["adapted_with"] == {"agent": "vendor/big-2", "compressor": "sim-compressor"}
    (tmp_path / "t" / "manifest.json").write_text(json.dumps({**manifest, "hash": "of another text"}))
    assert "adapted_with" not in parsed()
    for broken in ("{", "[]", '{"hash": 1}', json.dumps({**manifest, "models": 3})):
        (tmp_path / "t" / "manifest.json").write_text(broken)
        assert "adapted_with" not in parsed()


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (None, "?"),
        ({}, "?"),
        ({"agent": "a"}, "a"),
        ({"agent": "a", "compressor": "a"}, "a"),
        ({"agent": "a", "compressor": "b"}, "a, compressor b"),
        ({"compressor": "b"}, "?, compressor b"),
        ({"user": "c"}, "?"),
    ],
)
def test_models_in_words(models: dict[str, str] | None, words: str) -> None:
    assert describe_models(models) == words
