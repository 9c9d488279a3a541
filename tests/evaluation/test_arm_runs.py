"""The rows of arms: which runs and tasks they have in common, and how an arm is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_support import arm

from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, Common, TaskRun, as_values, common, find_arm, read_arms
from recompact.evaluation.arms import Arm, note_arms
from recompact.evaluation.evaluate import unit_of
from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.trajectory import Ending, Score, Trajectory


def test_an_arm_without_rows_has_no_runs() -> None:
    assert ArmRuns("a", None, ()).runs == 0
    assert arm("a", ["1", "111", "11"]).runs == 3
    assert arm("a", ["1"]).runs == 1


@pytest.mark.parametrize(
    ("name", "budget", "base"),
    [("fifo@1024", 1024, "fifo"), ("fifo@1024", 512, "fifo@1024"), ("fifo", 1024, "fifo"), ("fifo", None, "fifo")],
)
def test_the_base_of_a_name_is_without_its_own_budget(name: str, budget: int | None, base: str) -> None:
    assert ArmRuns(name, None, (), settings={"budget": budget}).base == base


@pytest.mark.parametrize(
    ("name", "settings", "compresses"),
    [
        ("none", {}, False),
        ("whole", {"kind": "none"}, False),
        ("none", {"kind": "fifo"}, True),
        ("fifo", {}, True),
        ("a", {"kind": "prompted"}, True),
        ("z", {"kind": "zip"}, True),
    ],
)
def test_only_none_does_not_compress(name: str, settings: Mapping[str, Any], compresses: bool) -> None:
    assert ArmRuns(name, None, (), settings=settings).compresses is compresses


def test_tasks_are_complete_that_have_each_of_the_first_runs() -> None:
    made = arm("a", ["111", "11", "1"])
    gap = replace(made, rows=(*made.rows, TaskRun("gap", 0, True, 1), TaskRun("gap", 2, True, 1)))
    assert gap.complete(3) == {"t000"}
    assert gap.complete(2) == {"t000", "t001"}
    assert gap.complete(1) == {"t000", "t001", "t002", "gap"}
    assert gap.by_task()["gap"] == {0: TaskRun("gap", 0, True, 1), 2: TaskRun("gap", 2, True, 1)}


def test_what_arms_share() -> None:
    a, b = arm("a", ["111", "111", "11"]), arm("b", ["11", "11"])
    assert common([a, b]) == Common(("t000", "t001"), 2, 1)
    assert common([a]) == Common(("t000", "t001"), 3, 1)
    assert common([a], runs=2) == Common(("t000", "t001", "t002"), 2, 0)
    assert common([a], runs=9) == Common(("t000", "t001"), 3, 1)
    assert common([a, b], ["t001", "t009", "t001"]) == Common(("t001",), 2, 1)
    assert common([a, b], []) == Common((), 2, 0)
    assert (
        common([a, b], ["t001", "t000"]).tasks == common([a, b]).tasks
    )  # one order, and so one interval, for the same records
    assert common([]) == Common((), 0, 0)
    broken = replace(b, rows=tuple(replace(r, ending="environment error") if r.task == "t001" else r for r in b.rows))
    assert common([a, broken]) == Common(("t000",), 2, 1, ("t001",))
    assert common([broken]) == Common(("t000",), 2, 0, ("t001",))
    assert common([a, broken], ["t001"]).tasks == ()
    assert common([a, replace(b, rows=())]) == Common((), 0, 3)


ARMS = (
    ArmRuns("pair", "history", ()),
    ArmRuns("pair", "prefix", ()),
    ArmRuns("fifo", None, ()),
    ArmRuns("prefix", None, ()),
)


@pytest.mark.parametrize(
    ("wanted", "found"), [("pair/history", 0), ("pair/prefix", 1), ("fifo", 2), ("history", 0), ("prefix", 3)]
)
def test_an_arm_is_found_by_its_label_or_by_what_leaves_no_doubt(wanted: str, found: int) -> None:
    assert find_arm(ARMS, wanted, "e.db") is ARMS[found]


def test_an_arm_that_is_not_there_or_not_alone_is_told_with_all_labels() -> None:
    labels = "choose one of pair/history, pair/prefix, fifo, prefix"
    for wanted, problem in (("pair", "has several arms 'pair'"), ("acon", "has no arm 'acon'")):
        with pytest.raises(InputError) as caught:
            find_arm(ARMS, wanted, "e.db")
        assert str(caught.value) == f"e.db {problem}: {labels}"
    with pytest.raises(InputError, match=r"^e.db .*'pair'.* none yet$"):
        find_arm((), "pair", "e.db")


@pytest.mark.parametrize(
    ("value", "values"),
    [(1, (1.0,)), (0.25, (0.25,)), (True, (1.0,)), ([1, 0.5], (1.0, 0.5)), ((0,), (0.0,)), ([], ()), ("0.5", (0.5,))],
)
def test_answers_are_one_value_or_one_for_each_question(value: Any, values: tuple[float, ...]) -> None:
    assert as_values(value) == values


@pytest.mark.parametrize("value", [None, "right", [None], ["x"], {}])
def test_answers_that_are_no_numbers_are_told_with_their_place(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_values(value, "evaluate/none/t/0: em")
    said = f"evaluate/none/t/0: em must be a number or a list of numbers, not {value!r}: fix the suite"
    assert str(caught.value) == said


# --- from a run


def written(
    store: Store, made: Arm, task: str, run: int, ending: Ending = "finished", score: Score | None = None
) -> None:
    score = score or Score.of(ending == "finished")
    trajectory = Trajectory(
        task, (), (), ending, score, Context(()), usage={"agent": Usage(7, 3, 0, 0, 1)}, peak=11, peak_reported=13
    )
    unit = unit_of(made.key, task, run)
    write_trajectory(store, unit, trajectory, phase="evaluate", run=run, groups={"kind": "x"}, seconds=0.0)


FIFO, NONE = Arm("fifo", "fifo", 100), Arm("none", "none")


def evaluation_store(path: Path, *arms: Arm) -> Store:
    store = Store.open(path)
    note_arms(store, arms)
    store.set_metadata(replace(store.metadata, command="evaluate"))
    return store


def test_arms_are_read_in_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    with evaluation_store(tmp_path / "e.db", NONE, FIFO) as store:
        written(store, FIFO, "a/b", 0)
        written(store, NONE, "a/b", 0, "step limit")
        written(store, FIFO, "a/b", 1, "refused")
        none, fifo = read_arms(store)
    assert (none.label, fifo.label) == ("none", "fifo")
    assert fifo.rows == (
        TaskRun("a/b", 0, True, 0, 0, 11, 13, {"agent": Usage(7, 3, 0, 0, 1)}, "finished", {"kind": "x"}),
        TaskRun("a/b", 1, False, 0, 0, 11, 13, {"agent": Usage(7, 3, 0, 0, 1)}, "refused", {"kind": "x"}),
    )
    assert [(row.run, row.success, row.ending) for row in none.rows] == [(0, False, "step limit")]
    assert fifo.settings["budget"] == 100
    assert not fifo.simulated  # nothing was spent at all


def test_an_arm_of_which_nothing_is_finished_has_no_rows(tmp_path: Path) -> None:
    with evaluation_store(tmp_path / "e.db", NONE, FIFO) as store:
        written(store, NONE, "a", 0)
        assert [len(found.rows) for found in read_arms(store)] == [1, 0]


def test_answers_are_looked_for_only_where_there_are_some(tmp_path: Path) -> None:
    with evaluation_store(tmp_path / "plain.db", NONE) as store:
        written(store, NONE, "a", 0, "step limit")
        written(store, NONE, "b", 0, score=Score.of(True, checks=3))
        (plain,) = read_arms(store)
    assert [(row.em, row.f1) for row in plain.rows] == [(None, None)] * 2
    with evaluation_store(tmp_path / "qa.db", NONE) as store:
        written(store, NONE, "a", 0, score=Score(True, 1.0, {"f1": [0.5, 1]}))
        written(store, NONE, "b", 0, "step limit")
        (asked,) = read_arms(store)
    assert {row.task: (row.em, row.f1) for row in asked.rows} == {"a": (None, (0.5, 1.0)), "b": (None, (0.0,))}


@pytest.mark.parametrize("command", ["collect", "adapt", "verify", "replay"])
def test_another_run_is_no_evaluation(tmp_path: Path, command: str) -> None:
    with evaluation_store(tmp_path / "e.db", NONE) as store:
        store.set_metadata(replace(store.metadata, command=command))
        with pytest.raises(InputError, match="recompact evaluate CONFIG"):
            read_arms(store)
