"""Evaluations with different models side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from evaluation_support import arm

from recompact.engine.config import CompressorConfig
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.transfer import Setting, describe_models, models_of, read_setting, transfer, transfer_table
from recompact.values.chat import Message, Reply, Usage
from recompact.values.stats import sign_test
from recompact.values.tables import FORMATS, Number, render, render_all
from recompact.values.template import default_template, save


def prompted(name: str, outcomes: list[str], scope: str = "history", **settings: Any) -> ArmRuns:
    known = {"kind": "prompted", "budget": 2048, "template": name, **settings}
    return replace(arm(name, outcomes, scope), settings=known)


NONE = replace(arm("none", ["111", "111", "110", "000"]), settings={"kind": "none"})
BEFORE = prompted("prompting", ["111", "100", "110", "000"])
AFTER = prompted("pair", ["111", "111", "110", "100"], adapted_with={"agent": "a", "compressor": "a", "optimizer": "o"})
ONE = Setting("one", (NONE, BEFORE, AFTER), "pocket", {"agent": "a", "compressor": "a"})
TWO = Setting("two", (BEFORE, prompted("pair", ["100", "101", "000", "000"])), "pocket", {"agent": "b", "user": "c"})


def test_each_evaluation_is_a_row() -> None:
    found = transfer([ONE, TWO])
    first, second = found.rows
    assert (first.setting, first.scope, first.arm, first.against) == ("one", "history", "pair", "prompting")
    assert first.none is not None
    assert first.none.means["acc"] == pytest.approx(8 / 12)
    assert first.reference.means["acc"] == pytest.approx(6 / 12)
    assert first.moved.means["acc"] == pytest.approx(9 / 12)
    assert first.moved.spread["acc"] == pytest.approx(stdev([1.0, 0.75, 0.5]))
    assert first.comparison.of("pass^3").delta == pytest.approx(1 / 4)
    assert (first.comparison.wins, first.comparison.losses) == (1, 0)
    assert first.comparison.p == sign_test(1, 0)
    assert second.none is None
    assert second.comparison.of("acc").delta == pytest.approx(3 / 12 - 6 / 12)
    assert (first.adapted_with or {})["optimizer"] == "o"
    data = json.loads(json.dumps(found.to_json()))
    assert data["rows"][0]["figures"]["arm"]["pass^3"] == 0.5
    assert data["rows"][1]["models"] == {"agent": "b", "user": "c"}


def test_the_table_in_every_format() -> None:
    table = transfer_table(transfer([ONE, TWO]))
    shown = {form: render_all([table], form) for form in FORMATS}
    for text in shown.values():
        assert "pair" in text
        assert "prompting" in text
    assert "adapted with" in shown["terminal"]
    assert "75.0 ± 25.0" in shown["terminal"]
    assert "acc_delta_low" in shown["csv"]
    assert r"\toprule" in shown["latex"]
    bare = transfer_table(transfer([replace(TWO, name="x"), TWO]))
    assert "adapted with" not in render(bare, "terminal")  # nothing is known of it
    assert "Acc none" not in render(bare, "terminal")


def test_what_a_reader_should_know() -> None:
    assert any("same models" in note for note in transfer([ONE, replace(ONE, name="again")]).notes)
    assert not any("same models" in note for note in transfer([ONE, TWO]).notes)
    changed = replace(TWO, arms=(BEFORE, prompted("pair", ["111"] * 4, template="another")))
    assert any("Not the same template" in note for note in transfer([ONE, changed]).notes)
    fewer = replace(TWO, arms=(BEFORE, prompted("pair", ["111"] * 3)))
    assert any("not of the same tasks" in note for note in transfer([ONE, fewer]).notes)
    assert any("4 tasks: one task is 25 points" in note for note in transfer([ONE, TWO]).notes)
    simulated = replace(TWO, arms=tuple(replace(a, simulated=True) for a in TWO.arms))
    assert transfer([ONE, simulated]).notes[-1].startswith("Simulated models")


def test_notes_name_what_else_differs() -> None:
    def notes(*arms: ArmRuns) -> str:
        return "\n".join(transfer([ONE, replace(TWO, arms=arms)]).notes)

    before, after = TWO.arms
    changed = prompted("prompting", ["111"] * 4, template="another")
    assert "Not the same template in all of them: prompting/history." in notes(changed, after)
    swept = [replace(made, settings={**made.settings, "budget": 512}) for made in TWO.arms]
    assert "Not the same budgets in all of them: pair/history, prompting/history." in notes(*swept)
    # Released records do not say, and what they do not say does not differ.
    assert "Not the same" not in notes(*(replace(made, settings={}) for made in TWO.arms))
    assert "two: 1 task is left out" in notes(replace(before, rows=before.rows[1:]), after)
    assert "Not the same" not in notes(before, after)


def test_arms_and_references_are_chosen_by_scope_and_budget() -> None:
    both = replace(
        ONE, arms=(*ONE.arms, prompted("prompting", ["000"] * 4, "prefix"), prompted("pair", ["111"] * 4, "prefix"))
    )
    found = transfer([both, TWO])
    assert [(r.setting, r.scope) for r in found.rows] == [("one", "history"), ("one", "prefix"), ("two", "history")]
    assert found.rows[1].comparison.of("acc").delta == 1
    small = [prompted(f"{n}@512", ["110"] * 4, budget=512) for n in ("prompting", "pair")]
    swept = replace(ONE, arms=(*ONE.arms, *small))
    row = transfer([swept, TWO]).rows[1]
    assert (row.budget, row.arm, row.against) == (512, "pair", "prompting")
    assert row.comparison.of("acc").delta == 0
    lone = replace(TWO, arms=(BEFORE, prompted("pair@512", ["110"] * 4, budget=512)))
    found = transfer([ONE, lone])
    assert (found.rows[1].budget, found.rows[1].against) == (512, "prompting@2048")
    assert any("another budget, so two things differ: pair@512/history" in note for note in found.notes)
    assert {row.against for row in transfer([ONE, ONE], ["pair"], "none").rows} == {"none"}
    assert [row.setting for row in transfer([ONE, ONE, ONE]).rows] == ["one", "one (2)", "one (3)"]
    fewest = replace(TWO, arms=tuple(replace(a, rows=tuple(r for r in a.rows if r.run < 2)) for a in TWO.arms))
    assert transfer([ONE, fewest]).keys == ("acc", "pass^2")
    assert [r.comparison.runs for r in transfer([ONE, fewest]).rows] == [2, 2]
    assert [r.arm for r in transfer([ONE, ONE], ["none"], "prompting").rows] == ["none", "none"]


@pytest.mark.parametrize(
    ("settings", "arms", "against", "words"),
    [
        ([ONE], (), "prompting", "two evaluations or more"),
        ([ONE, replace(TWO, suite="tau2")], (), "prompting", "different suites \\(pocket, tau2\\)"),
        ([ONE, replace(TWO, arms=(BEFORE,))], (), "prompting", "no template arm is in all of these"),
        ([ONE, TWO], ("nobody",), "prompting", "one has no arm 'nobody': it has none, prompting/history"),
        ([ONE, TWO], (), "fifo", "one has no arm 'fifo' of scope history"),
    ],
)
def test_refusals(settings: list[Setting], arms: tuple[str, ...], against: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        transfer(settings, arms, against)


def test_models_are_those_that_answered(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.db") as store:
        store.set_metadata(
            replace(
                store.metadata, command="evaluate", suite="s", identity={"models": {"mine": {"id": "vendor/model-7"}}}
            )
        )
        reply = Reply(Message("assistant", "x"), Usage(1, 1), "stop", "m")
        for n, (role, name) in enumerate([("agent", "mine"), ("compressor", "sim-compressor"), ("compressor", "mine")]):
            store.journal("u", n, role, name, "00", reply, 0.1)
        assert models_of(store) == {"agent": "vendor/model-7", "compressor": "vendor/model-7 + sim-compressor"}
    setting = read_setting(str(tmp_path / "r.db"), tmp_path)
    assert (setting.name, setting.suite, setting.arms) == ("r", "s", ())
    assert describe_models(setting.models) == "vendor/model-7, compressor vendor/model-7 + sim-compressor"


def test_released_records_take_part(tmp_path: Path) -> None:
    for arm_name, wins in (("prompting", (1, 0)), ("pair", (1, 1))):
        home = tmp_path / "records" / arm_name / "s1"
        home.mkdir(parents=True)
        lines = [json.dumps({"task_id": str(n), "success": won, "num_steps": 3}) for n, won in enumerate(wins)]
        (home / "run_records.jsonl").write_text("\n".join(lines))
    setting = read_setting(str(tmp_path / "records"), tmp_path)
    assert setting.models is None
    found = transfer([setting, replace(setting, name="other")])
    assert [row.comparison.of("acc").delta for row in found.rows] == [0.5, 0.5]
    assert "?" in render(transfer_table(found), "terminal")


def test_an_arm_knows_with_which_models_its_template_was_adapted(tmp_path: Path) -> None:
    template = default_template()
    save(template, tmp_path / "t")
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


def test_arms_that_come_with_recompact_are_not_meant_unless_they_are_named() -> None:
    fifo = replace(arm("fifo", ["111"] * 4), settings={"kind": "fifo", "budget": 2048})
    one, two = replace(ONE, arms=(*ONE.arms, fifo)), replace(TWO, arms=(*TWO.arms, fifo))
    assert [row.arm for row in transfer([one, two]).rows] == ["pair", "pair"]
    assert [row.arm for row in transfer([one, two], ["fifo", "pair", "fifo"]).rows] == ["fifo", "pair"] * 2
    waiting = replace(TWO, arms=(BEFORE, replace(TWO.arms[1], rows=())))
    with pytest.raises(InputError) as caught:
        transfer([ONE, waiting])
    listed = "one: none, prompting/history, pair/history; two: prompting/history, pair/history"
    assert str(caught.value).startswith(f"no template arm is in all of these evaluations ({listed}): run each with")
    with pytest.raises(InputError, match=r"\(one: none; one \(2\): none\)"):
        transfer([replace(ONE, arms=())] * 2)


def test_an_arm_is_not_measured_against_itself() -> None:
    with pytest.raises(InputError, match=r"^one has no arm 'pair' of scope history to measure pair/history against"):
        transfer([ONE, TWO], ["pair"], "pair")
    with pytest.raises(InputError, match=r"^one has no arm 'none' to measure none against: --against NAME$"):
        transfer([ONE, TWO], ["none"], "none")


def test_a_reference_of_the_same_budget_is_taken_where_there_is_one() -> None:
    other = prompted("prompting@512", ["000"] * 4, budget=512)
    here = replace(ONE, arms=(other, *ONE.arms))
    row, *_ = transfer([here, TWO]).rows
    assert row.comparison.second == "prompting/history"
    unscoped = replace(arm("fifo", ["000"] * 4), settings={"kind": "fifo", "budget": 2048})
    prefix = prompted("fifo", ["111"] * 4, "prefix")
    here = replace(ONE, arms=(*ONE.arms, prefix, unscoped))
    there = replace(TWO, arms=(*TWO.arms, unscoped))
    row, *_ = transfer([here, there], ["pair"], "fifo").rows
    assert row.comparison.second == "fifo"  # an arm without a scope serves for every one


def test_an_arm_without_finished_runs_is_told() -> None:
    late = replace(AFTER, rows=tuple(replace(row, task=f"x{row.task}") for row in AFTER.rows))
    with pytest.raises(InputError, match=r"^two has no task yet that all arms have done"):
        transfer([ONE, replace(TWO, arms=(BEFORE, late))])


def test_none_stands_beside_the_others_where_it_has_enough_runs() -> None:
    fewer = replace(NONE, rows=tuple(row for row in NONE.rows if row.run < 2))
    first, _ = transfer([replace(ONE, arms=(fewer, BEFORE, AFTER)), TWO]).rows
    assert first.none is None
    first, _ = transfer([ONE, TWO]).rows
    assert first.none is not None
    assert (first.models, first.budget) == ({"agent": "a", "compressor": "a"}, 2048)


@pytest.mark.parametrize(("runs", "solved"), [(1, "the run"), (3, "all runs")])
def test_the_columns_of_the_table(runs: int, solved: str) -> None:
    def first(setting: Setting) -> Setting:
        arms = tuple(replace(made, rows=tuple(r for r in made.rows if r.run < runs)) for made in setting.arms)
        return replace(setting, arms=arms)

    table = transfer_table(transfer([first(ONE), first(TWO)]))
    names = [column.key for column in table.columns]
    figures = [
        f"{key}{of}" for key in ("acc", *(["pass^3"] if runs > 1 else [])) for of in ("_none", "_against", "", "_delta")
    ]
    heads = ["run", "models", "adapted_with", "scope", "budget", "arm", "against", "tasks"]
    assert names == [*heads, *figures, "wins", "losses", "p"]
    assert table.notes[1].startswith(f"win, lose, p: exact sign test on tasks solved in {solved}.")
    assert table.rows[0][:8] == ("one", "a", "a", "history", 2048, "pair", "prompting", 4)
    assert table.rows[1][:8] == ("two", "b", None, "history", 2048, "pair", "prompting", 4)
    titles = dict(zip(names, (column.title for column in table.columns), strict=True))
    assert titles["acc_none"] == "Acc none"
    assert (titles["acc_against"], titles["acc"], titles["acc_delta"]) == ("Acc reference", "Acc arm", "Δ Acc")
    cell = table.rows[0][names.index("acc_delta")]
    assert isinstance(cell, Number)
    assert cell.signed
    assert cell.unmarked  # four tasks


def test_evaluations_without_a_suite_may_stand_beside_one_with() -> None:
    assert len(transfer([ONE, replace(TWO, suite="")]).rows) == 2


def test_a_transfer_of_real_models_is_not_called_simulated() -> None:
    found = transfer([ONE, TWO])
    assert not found.simulated
    assert not any("Simulated" in note for note in found.notes)
    assert not any("another budget" in note or "not of the same tasks" in note for note in found.notes)
    assert found.to_json()["runs"] == 3
    simulated = replace(TWO, arms=tuple(replace(a, simulated=True) for a in TWO.arms))
    assert transfer([ONE, simulated]).to_json()["simulated"] is True


def test_models_that_nobody_names_do_not_count_as_the_same() -> None:
    unknown = [replace(ONE, models=None), replace(TWO, models=None)]
    assert not any("same models" in note for note in transfer(unknown).notes)
