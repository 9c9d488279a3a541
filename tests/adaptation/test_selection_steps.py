"""Selection, step by step and without an agent: fits, ties, fit tasks, retries, and which rule applies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sentences import numbers_in

from recompact.adaptation.method import Method
from recompact.adaptation.selection import (
    Cell,
    best,
    check,
    choose,
    contestants,
    difference,
    fit_of,
    fit_table,
    fit_tasks,
    runs_of,
    select,
    solvable_tasks,
    whole_cells,
)
from recompact.engine.config import AdaptConfig
from recompact.engine.store.runs import TrajectoryRow
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Fit, Selection
from recompact.values.stats import t_quantile
from recompact.values.tables import as_json
from recompact.values.template import Template, default_template

BROKEN = "environment error"


def template(name: str) -> Template:
    return replace(default_template(), first=f"{default_template().first}{name}\n")


def candidate(name: str) -> Candidate:
    return Candidate(name, template(name))


def row(
    task: str, value: float, ending: str = "finished", steps: int = 5, compactions: int = 1, unit: str = "u"
) -> TrajectoryRow:
    return TrajectoryRow(unit, task, 0, {}, value >= 1, value, ending, steps, compactions, 0, 0, {}, 0)  # type: ignore[arg-type]


# --- the paper's rule


def test_a_tie_goes_to_fewer_steps_and_then_to_the_original() -> None:
    original = Fit(ORIGINAL, 10, 5, 20.0)
    assert best([Fit("a", 10, 5, 20.0), original]) == ORIGINAL
    assert best([original, Fit("a", 10, 5, 19.0)]) == "a"
    assert best([original, Fit("a", 10, 4, 1.0)]) == ORIGINAL
    assert best([original, Fit("a", 5, 3, 90.0)]) == "a"
    assert best([original, Fit("b", 10, 6, 9.0), Fit("a", 10, 6, 9.0)]) == "b"  # the first of equals


def test_a_fit_counts_shared_cells_and_says_what_broke_in_all() -> None:
    own = {Cell("a", 0): row("a", 1, steps=4), Cell("b", 0): row("b", 0, steps=7), Cell("c", 0): row("c", 0, BROKEN)}
    cells = list(own)
    assert fit_of(cast(Any, None), "x", own, cells[:2], cells) == Fit("x", 2, 1, 5.5, 1)
    assert fit_of(cast(Any, None), "x", own, [], cells) == Fit("x", 0, 0, 0.0, 1)
    assert fit_of(cast(Any, None), "x", own, cells[:2], cells[:2]).broken == 0


def test_whole_cells_are_those_in_which_nothing_broke() -> None:
    cells = [Cell("b", 0), Cell("a", 1), Cell("a", 0)]
    mine = {cell: row(cell.task, 1, BROKEN if cell == cells[0] else "finished") for cell in cells}
    theirs = {cell: row(cell.task, 1, BROKEN if cell == cells[2] else "finished") for cell in cells}
    assert whole_cells({"x": mine, "y": theirs}, cells) == ([cells[1]], [cells[2], cells[0]])
    assert whole_cells({"x": mine}, cells) == (cells[1:], [cells[0]])


def test_the_original_comes_first_and_what_has_no_template_does_not_run() -> None:
    study = cast(Study, SimpleNamespace(template=default_template()))
    found = contestants(study, [candidate("a"), Candidate("b", None), candidate("c")])
    assert list(found.items()) == [(ORIGINAL, default_template()), ("a", template("a")), ("c", template("c"))]


def test_fit_tasks_compact_most_then_take_most_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        row("few", 1, compactions=1, steps=90),
        row("many", 1, compactions=3, steps=5),
        row("slow", 1, compactions=2, steps=9),
        row("quick", 1, compactions=2, steps=8),
        row("broken", 1, BROKEN, compactions=9),
    ]
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: made)
    assert fit_tasks(cast(Any, None), 3, 0) == ("many", "slow", "quick")
    assert fit_tasks(cast(Any, None), 9, 0) == ("many", "slow", "quick", "few")
    assert fit_tasks(cast(Any, None), 0, 0) == ()


@pytest.mark.parametrize("seed", range(3))
def test_steps_decide_among_as_many_compactions_whatever_the_seed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    by_steps = [row(f"t{n}", 1, steps=n) for n in (3, 9, 1, 7, 5)]
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: by_steps)
    assert fit_tasks(cast(Any, None), 5, seed) == ("t9", "t7", "t5", "t3", "t1")
    by_compactions = [row(f"t{n}", 1, compactions=n) for n in (3, 9, 1, 7, 5)]
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: by_compactions)
    assert fit_tasks(cast(Any, None), 5, seed) == ("t9", "t7", "t5", "t3", "t1")


def test_ties_of_fit_tasks_are_broken_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [row(f"t{n}", 1) for n in range(8)]
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: made)
    orders = {fit_tasks(cast(Any, None), 8, seed) for seed in range(4)}
    assert len(orders) == 4
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: made[::-1])
    assert fit_tasks(cast(Any, None), 8, 0) in orders


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (2, 3), (5, 3)])
def test_a_broken_run_is_tried_again_as_often_as_the_config_says(
    monkeypatch: pytest.MonkeyPatch, retries: int, attempts: int
) -> None:
    """One unit breaks twice, the other never."""
    made: list[int] = []
    reopened: list[str] = []

    async def complete(phase: str, kind: str, units: Any) -> None:
        made.append(len(made))

    def rows_now(store: Any, phase: str) -> list[TrajectoryRow]:
        return [row("a", 1, BROKEN if len(made) < 3 else "finished", unit="u/a"), row("b", 1, unit="u/b")]

    monkeypatch.setattr("recompact.adaptation.selection.trajectories", rows_now)
    study = SimpleNamespace(
        config=SimpleNamespace(adapt=AdaptConfig(fit_retries=retries)),
        complete=complete,
        store=SimpleNamespace(reopen=reopened.append),
    )
    units = [SimpleNamespace(name="u/a"), SimpleNamespace(name="u/b")]
    found = asyncio.run(runs_of(cast(Any, study), "select", cast(Any, units)))
    assert len(made) == attempts
    assert reopened == ["u/a"] * (attempts - 1)
    assert (found["u/a"].ending == BROKEN) == (attempts < 3)
    assert found["u/b"].ending == "finished"


def test_cells_are_told_by_task_and_run() -> None:
    assert str(Cell("a", 2)) == "a, run 2"
    assert sorted([Cell("b", 0), Cell("a", 1), Cell("a", 0)]) == [Cell("a", 0), Cell("a", 1), Cell("b", 0)]


# --- which rule


@pytest.mark.parametrize("tested", [False, True])
@pytest.mark.parametrize("reselects", [False, True, None])
def test_the_method_decides_the_rule_and_one_that_selected_before_gets_fresh_runs(
    monkeypatch: pytest.MonkeyPatch, tested: bool, reselects: bool | None
) -> None:
    seen: list[tuple[str, str]] = []

    def rule(name: str) -> Any:
        async def apply(study: Any, candidates: Any, under: str) -> Any:
            seen.append((name, under))
            return name

        return apply

    for name in ("check", "select"):
        monkeypatch.setattr(f"recompact.adaptation.selection.{name}", rule(name))
    method = None if reselects is None else Method("mine", cast(Any, None), reselects=reselects, tested=tested)
    wanted = "check" if method and tested else "select"
    assert asyncio.run(choose(cast(Any, None), [candidate("a")], method)) == cast(Any, wanted)
    assert seen == [(wanted, "mine/" if reselects else "")]


def test_the_papers_rule_runs_all_on_all_fit_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    async def runs(study: Any, templates: Mapping[str, Template], cells: Sequence[Cell], under: str) -> Any:
        seen.append((list(templates), list(cells), under))
        return {
            name: {
                cell: row(cell.task, float(name == "a"), BROKEN if cell == Cell("t1", 1) else "finished")
                for cell in cells
            }
            for name in templates
        }

    monkeypatch.setattr("recompact.adaptation.selection.fit_runs", runs)
    monkeypatch.setattr("recompact.adaptation.selection.fit_tasks", lambda store, count, seed: ("t1", "t2")[:count])
    config = SimpleNamespace(adapt=AdaptConfig(fit_tasks=2, fit_runs=2), run=SimpleNamespace(seed=0))
    study = cast(Study, SimpleNamespace(config=config, store=None, template=default_template()))
    selection = asyncio.run(select(study, [candidate("a")], "mine/"))
    cells = [Cell("t1", 0), Cell("t1", 1), Cell("t2", 0), Cell("t2", 1)]
    assert seen == [([ORIGINAL, "a"], cells, "mine/")]
    fits = (Fit(ORIGINAL, 3, 0, 5.0, 1), Fit("a", 3, 3, 5.0, 1))
    assert selection == Selection(fits, "a", ("t1", "t2"), excluded=("t1, run 1",))


# --- the rule for tested candidates


TASKS = ("t1", "t2", "t3", "t4")


def checked(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, Sequence[float]], tasks: int = 4) -> Selection:
    """What the rule chooses where each template has these values in the tasks; none is broken."""

    async def runs(study: Any, templates: Mapping[str, Template], cells: Sequence[Cell], under: str) -> Any:
        assert under == "mine/check/"
        return {
            name: {cell: row(cell.task, values[name][TASKS.index(cell.task)]) for cell in cells} for name in templates
        }

    monkeypatch.setattr("recompact.adaptation.selection.fit_runs", runs)
    monkeypatch.setattr("recompact.adaptation.selection.solvable_tasks", lambda store, count, seed: TASKS[:tasks])
    config = SimpleNamespace(adapt=AdaptConfig(candidates=2, fit_tasks=4, fit_runs=1), run=SimpleNamespace(seed=0))
    study = cast(Study, SimpleNamespace(config=config, store=None, template=default_template()))
    candidates = [candidate(name) for name in values if name != ORIGINAL]
    return asyncio.run(check(study, candidates, "mine/"))


LOW, HIGH, MIXED = (0.0,) * 4, (1.0,) * 4, (1.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("original", "first", "second", "winner"),
    [
        (LOW, LOW, LOW, "a"),  # as good as the others: tested causes speak for the first
        (HIGH, LOW, LOW, ORIGINAL),  # clearly worse than the original
        (LOW, LOW, HIGH, "b"),  # clearly better than the first
        (LOW, LOW, MIXED, "a"),  # better, but not clearly
        (MIXED, LOW, LOW, "a"),  # worse, but not clearly
        (HIGH, HIGH, LOW, "a"),
    ],
)
def test_the_first_candidate_stands_unless_something_is_clearly_against_it(
    monkeypatch: pytest.MonkeyPatch,
    original: Sequence[float],
    first: Sequence[float],
    second: Sequence[float],
    winner: str,
) -> None:
    selection = checked(monkeypatch, {ORIGINAL: original, "a": first, "b": second})
    assert (selection.winner, selection.tasks) == (winner, TASKS)
    assert sum(fit.runs for fit in selection.fits) == 3 * 4  # as many as the paper's rule would take
    assert selection.gain is not None


def test_where_nothing_can_be_run_or_compared_nobody_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {ORIGINAL: LOW, "a": LOW, "b": HIGH}
    nothing = checked(monkeypatch, values, tasks=0)
    assert (nothing.winner, nothing.gain) == (ORIGINAL, None)
    one = checked(monkeypatch, values, tasks=1)  # one task has no spread
    assert (one.winner, one.gain) == ("a", None)


def test_a_difference_is_over_tasks_and_not_over_runs() -> None:
    cells = [Cell(task, run) for task in ("t1", "t2") for run in range(3)]
    one = {cell: row(cell.task, float(cell.task == "t1" or cell.run == 0)) for cell in cells}
    other = {cell: row(cell.task, 0.0) for cell in cells}
    ahead = difference(one, other, cells)
    assert ahead is not None
    assert ahead.value == pytest.approx((1 + 1 / 3) / 2)
    assert ahead.low < 0 < 1 < ahead.high  # two tasks tell little
    same = difference(one, one, cells)
    assert same is not None
    assert (same.low, same.value, same.high) == (0, 0, 0)
    assert difference(one, other, cells[:3]) is None


@pytest.mark.parametrize(
    ("gain", "winner", "numbers"),
    [
        ((0.2, 0.1, 0.3), "a", ["20.0", "10.0", "30.0", "12"]),
        ((-0.2, -0.3, -0.1), ORIGINAL, ["20.0", "30.0", "10.0", "12"]),
        ((0.1, -0.1, 0.3), "a", ["10.0", "10.0", "30.0", "12"]),
    ],
)
def test_a_checked_candidate_is_told_with_its_interval(
    gain: tuple[float, float, float], winner: str, numbers: list[str]
) -> None:
    fits = (Fit(ORIGINAL, 12, 6, 20.0), Fit("a", 12, 7, 20.0))
    statement = Selection(fits, winner, ("t",), "tested causes", gain=gain).statement
    assert [each.lstrip("+-") for each in numbers_in(statement)] == numbers
    assert (("a was taken" in statement), "cannot tell" in statement) == (winner == "a", gain[1] < 0 < gain[2])


def test_the_table_of_fits_has_what_went_wrong_only_where_something_did() -> None:
    fits = (Fit(ORIGINAL, 12, 6, 20.25), Fit("a", 12, 7, 9.0))
    table = as_json(fit_table(Selection(fits, "a", ("t",))))
    assert table["rows"] == [
        {"template": ORIGINAL, "runs": 12, "passed": 6, "mean steps": 20.25},
        {"template": "a", "runs": 12, "passed": 7, "mean steps": 9.0},
    ]
    broken = as_json(fit_table(Selection((fits[0], Fit("a", 11, 7, 9.0, 1, 3)), "a", ("t",))))
    assert [(row["broken"], row["failed"]) for row in broken["rows"]] == [(0, 0), (1, 3)]


def test_solvable_tasks_were_compacted_and_solved_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        row("solved", 1, compactions=1),
        row("continued", 0, compactions=3),
        row("partly", 0, compactions=2),
        row("never", 0, compactions=9),
        row("plain", 1, compactions=0),
        row("broken", 1, BROKEN, compactions=4),
    ]
    rest = [
        SimpleNamespace(unit=f"collect/{task}", value=value) for task, value in (("continued", 1.0), ("partly", 0.1))
    ]
    rest += [SimpleNamespace(unit="collect/never", value=0.0)]
    monkeypatch.setattr("recompact.adaptation.selection.trajectories", lambda store: made)
    monkeypatch.setattr("recompact.adaptation.selection.continuation_rows", lambda store: rest)
    assert solvable_tasks(cast(Any, None), 9, 0) == ("continued", "partly", "solved")
    assert solvable_tasks(cast(Any, None), 2, 0) == ("continued", "partly")


@pytest.mark.parametrize(("candidates", "runs"), [(1, 6), (2, 4), (3, 3)])
def test_the_runs_of_the_papers_rule_are_shared_by_the_templates_there_are(
    monkeypatch: pytest.MonkeyPatch, candidates: int, runs: int
) -> None:
    names = [chr(ord("a") + n) for n in range(candidates)]
    selection = checked(monkeypatch, dict.fromkeys([ORIGINAL, *names], LOW))
    assert [fit.runs for fit in selection.fits] == [runs] * (candidates + 1)


def test_a_difference_has_students_interval_over_tasks() -> None:
    cells = [Cell(f"t{n}", 0) for n in range(4)]
    values = (1.0, 0.5, 0.0, 0.5)
    one = {cell: row(cell.task, value) for cell, value in zip(cells, values, strict=True)}
    ahead = difference(one, {cell: row(cell.task, 0.0) for cell in cells}, cells)
    assert ahead is not None
    half = t_quantile(0.975, 3) * stdev(values) / 2
    assert (ahead.value, ahead.low, ahead.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
