"""A race: heats, who leaves, what it spends, and fresh runs of the winner; without an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sentences import numbers_in

from recompact.adaptation import race as racing
from recompact.adaptation.method import Method
from recompact.adaptation.pruning import Pruned
from recompact.adaptation.race import HEAT, behind, race
from recompact.adaptation.selection import Cell, best, contestants, fit_of, fit_tasks, runs_of, select, whole_cells
from recompact.engine.config import AdaptConfig
from recompact.engine.store.runs import TrajectoryRow
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Fit, Selection
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


Value = Callable[[str, Cell], float]
"""What a template scores in a cell; below 0 where its environment breaks."""


def raced(
    monkeypatch: pytest.MonkeyPatch,
    value: Value,
    candidates: Sequence[Candidate],
    tasks: int = 4,
    fit_runs: int = 1,
    pruned: Sequence[Candidate] | None = None,
) -> tuple[tuple[Candidate, ...], Selection, list[tuple[str, list[str], list[Cell]]]]:
    """A race with these scores, and the heats: under which name, who ran, and on what."""
    heats: list[tuple[str, list[str], list[Cell]]] = []

    async def runs(study: Study, templates: Mapping[str, Template], cells: Sequence[Cell], under: str) -> Any:
        heats.append((under, list(templates), list(cells)))
        made = {}
        for name in templates:
            scores = {cell: value(name, cell) for cell in cells}
            made[name] = {
                cell: row(cell.task, max(0, score), BROKEN if score < 0 else "finished")
                for cell, score in scores.items()
            }
        return made

    async def prune(study: Study, candidates: Sequence[Candidate]) -> Pruned:
        return Pruned(tuple(candidates) if pruned is None else tuple(pruned), ("pruned",))

    monkeypatch.setattr(racing, "fit_runs", runs)
    monkeypatch.setattr(racing, "prune", prune)
    monkeypatch.setattr(racing, "fit_tasks", lambda store, count, seed: tuple(f"t{n}" for n in range(tasks)))
    config = SimpleNamespace(adapt=AdaptConfig(fit_tasks=tasks, fit_runs=fit_runs), run=SimpleNamespace(seed=0))
    study = SimpleNamespace(config=config, store=None, template=default_template())
    return *asyncio.run(race(cast(Study, study), candidates, "under/")), heats


def test_a_race_goes_on_until_its_runs_are_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two templates on six tasks, twice each: four heats of four and of two tasks."""
    _, selection, heats = raced(monkeypatch, lambda name, cell: 1, [candidate("a")], tasks=6, fit_runs=2)
    assert [under for under, _, _ in heats] == ["under/race/"] * 4
    assert [[str(cell) for cell in cells] for _, _, cells in heats] == [
        [f"t{n}, run {turn}" for n in part] for turn in (0, 1) for part in (range(4), range(4, 6))
    ]
    assert all(names == [ORIGINAL, "a"] for _, names, _ in heats)
    assert selection.winner == ORIGINAL
    assert [(fit.name, fit.runs) for fit in selection.fits] == [(ORIGINAL, 12), ("a", 12)]
    assert (selection.rule, selection.tasks) == ("racing", tuple(f"t{n}" for n in range(6)))
    assert (selection.confirmed, selection.excluded) == ((), ())
    assert selection.notes == ("pruned",)
    assert HEAT == 4


def test_the_winner_is_run_again_beside_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(name: str, cell: Cell) -> float:
        return float(name == "good" or cell.task == "t0")

    _, selection, heats = raced(monkeypatch, value, [candidate("good"), candidate("poor")], tasks=4, fit_runs=2)
    assert selection.winner == "good"
    under, names, cells = heats[-1]
    assert (under, names) == ("under/confirm/", [ORIGINAL, "good"])
    assert cells == [Cell(f"t{n}", turn) for n in range(4) for turn in (0, 1)]
    assert [(fit.name, fit.runs, fit.passed) for fit in selection.confirmed] == [(ORIGINAL, 8, 2), ("good", 8, 8)]


def test_who_is_clearly_behind_leaves_and_others_get_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The original never leaves, however far behind."""

    def value(name: str, cell: Cell) -> float:
        return float(name in ("good", "better"))

    _, selection, heats = raced(
        monkeypatch, value, [candidate(name) for name in ("good", "poor", "better")], tasks=4, fit_runs=2
    )
    race_heats = [names for under, names, _ in heats if "race" in under]
    assert race_heats == [[ORIGINAL, "good", "poor", "better"], *[[ORIGINAL, "good", "better"]] * 1]
    assert selection.notes[0] == "pruned"
    (left,) = selection.notes[1:]
    assert left.startswith("poor ")
    assert numbers_in(left) == ["0", "4", "5.0"]
    assert [(fit.name, fit.runs) for fit in selection.fits] == [
        (ORIGINAL, 8),
        ("good", 8),
        ("poor", 4),
        ("better", 8),
    ]


def test_saved_runs_are_spent_as_long_as_a_whole_heat_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(name: str, cell: Cell) -> float:
        return float(name == "good")

    names = ("good", "p1", "p2", "p3")
    _, _, heats = raced(monkeypatch, value, [candidate(name) for name in names], tasks=4, fit_runs=1)
    # 20 runs are allowed: one heat of five templates takes all of them.
    assert [len(cells) * len(names) for under, names, cells in heats if "race" in under] == [20]
    _, _, heats = raced(monkeypatch, value, [candidate(name) for name in names], tasks=4, fit_runs=2)
    assert [len(cells) * len(names) for under, names, cells in heats if "race" in under] == [20, 8, 8]


def test_what_was_pruned_away_leaves_its_runs_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [candidate("a"), candidate("b")]
    gone = [both[0], Candidate("b", None)]
    candidates, selection, heats = raced(monkeypatch, lambda name, cell: 1, both, tasks=4, pruned=gone)
    assert candidates == tuple(gone)
    assert [len(cells) * len(names) for _, names, cells in heats] == [8]  # of the twelve, no second heat fits
    assert [fit.name for fit in selection.fits] == [ORIGINAL, "a"]


def test_alone_the_original_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    _, selection, heats = raced(monkeypatch, lambda name, cell: 1, [Candidate("a", None)])
    assert heats == []
    assert selection.winner == ORIGINAL
    assert raced(monkeypatch, lambda name, cell: 1, [candidate("a")], tasks=0)[2] == []


def test_a_cell_that_broke_for_one_counts_for_none_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(name: str, cell: Cell) -> float:
        return -1 if (name, cell.task) in {("a", "t2"), (ORIGINAL, "t1")} else float(name == "a")

    _, selection, _ = raced(monkeypatch, value, [candidate("a")])
    assert [(fit.name, fit.runs, fit.passed, fit.broken) for fit in selection.fits] == [
        (ORIGINAL, 2, 0, 1),
        ("a", 2, 2, 1),
    ]
    assert selection.winner == "a"
    assert selection.excluded == selection.excluded_fresh == ("t1, run 0", "t2, run 0")  # in the race, and afresh


def test_where_every_run_broke_the_original_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    _, selection, _ = raced(monkeypatch, lambda name, cell: -1, [candidate("a")])
    assert selection.winner == ORIGINAL
    assert selection.confirmed == ()
    assert selection.excluded == tuple(f"t{n}, run 0" for n in range(4))


# --- clearly behind


def rows(values: Sequence[float], turn: int = 0, ending: str = "finished") -> dict[Cell, TrajectoryRow]:
    return {Cell(f"t{n}", turn): row(f"t{n}", value, ending) for n, value in enumerate(values)}


def test_two_tasks_are_enough_where_all_differences_agree() -> None:
    assert behind(rows([1, 1]), rows([0, 0]))
    assert not behind(rows([1]), rows([0]))
    assert not behind(rows([1, 1]), rows([1, 1]))
    assert not behind(rows([0, 0]), rows([1, 1]))
    assert behind(rows([0.5, 0.5]), rows([0.25, 0.25]))


def test_differences_that_vary_must_be_beyond_chance() -> None:
    assert not behind(rows([1, 1]), rows([0, 1]))
    assert not behind(rows([1] * 4), rows([0, 0, 1, 1]))
    assert behind(rows([1] * 4), rows([0, 0, 0, 0.5]))
    # Three of five: the mean is 0.6, its error 0.245, and the 95% quantile of four degrees of freedom 2.13.
    assert behind(rows([1] * 5), rows([0, 0, 0, 1, 1]))
    assert not behind(rows([1] * 5), rows([0, 0, 1, 1, 1]))


def test_the_more_rivals_there_are_the_clearer_a_difference_has_to_be() -> None:
    assert behind(rows([1] * 5), rows([0, 0, 0, 1, 1]), rivals=1)
    assert not behind(rows([1] * 5), rows([0, 0, 0, 1, 1]), rivals=5)
    assert behind(rows([1] * 12), rows([0] * 10 + [1] * 2), rivals=5)


def test_among_equals_at_most_one_in_twenty_is_sent_away_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six equal templates in one heat: the leader is the luckiest of them, which is what misleads."""
    names, away, races = "abcde", 0, 150
    for number in range(races):
        luck = Random(f"equal/{number}")
        scores = {(name, n): float(luck.random() < 0.5) for name in (ORIGINAL, *names) for n in range(8)}

        def value(name: str, cell: Cell, scores: Mapping[tuple[str, int], float] = scores) -> float:
            return scores[name, int(cell.task[1:])]

        monkeypatch.setattr(racing, "HEAT", 8)
        _, selection, _ = raced(monkeypatch, value, [candidate(name) for name in names], tasks=8)
        away += sum("left the race" in note for note in selection.notes)
    assert away / (races * len(names)) < 0.05


def test_runs_of_one_task_are_one_difference() -> None:
    one = {**rows([1], 0), **rows([1], 1), **rows([1], 2)}
    other = {**rows([0], 0), **rows([0], 1), **rows([0], 2)}
    assert not behind(one, other)
    assert behind({**rows([1, 1], 0), **rows([0, 0], 1)}, {**rows([0, 0], 0), **rows([0, 0], 1)})


def test_only_cells_that_both_ran_count() -> None:
    assert not behind(rows([1, 1, 1]), rows([0]))
    assert behind(rows([1, 1, 1]), rows([0, 0]))
    assert not behind(rows([1, 1], ending=BROKEN), rows([0, 0]))
    assert not behind(rows([1, 1]), rows([0, 0], ending=BROKEN))


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
    assert fit_of("x", own, cells[:2], cells) == Fit("x", 2, 1, 5.5, 1)
    assert fit_of("x", own, [], cells) == Fit("x", 0, 0, 0.0, 1)
    assert fit_of("x", own, cells[:2], cells[:2]).broken == 0


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


@pytest.mark.parametrize("rule", ["paper", "racing"])
@pytest.mark.parametrize("reselects", [False, True, None])
def test_the_config_names_the_rule_and_a_method_that_selected_before_gets_fresh_runs(
    monkeypatch: pytest.MonkeyPatch, rule: Any, reselects: bool | None
) -> None:
    seen: list[tuple[str, str]] = []

    async def by_race(study: Any, candidates: Any, under: str) -> Any:
        seen.append(("racing", under))
        return ("raced",), "selection"

    async def by_paper(study: Any, candidates: Any, under: str) -> Any:
        seen.append(("paper", under))
        return "selection"

    monkeypatch.setattr(racing, "race", by_race)
    monkeypatch.setattr(racing, "select", by_paper)
    study = cast(Study, SimpleNamespace(config=SimpleNamespace(adapt=AdaptConfig(selection=rule))))
    method = None if reselects is None else Method("mine", cast(Any, None), reselects=reselects)
    given = [candidate("a")]
    chosen: Any = asyncio.run(racing.choose(study, given, method))
    assert seen == [(rule, "mine/" if reselects else "")]
    assert chosen == ((("raced",) if rule == "racing" else tuple(given)), "selection")


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
