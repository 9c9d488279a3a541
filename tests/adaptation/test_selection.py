"""Selection: what an environment breaks is no failure, winners meet on fresh runs, and a race has power."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from acon_support import CONFIG, adapted, study_run
from hypothesis import given, strategies as st
from sentences import numbers_in
from shared_runs import verified_run

from recompact.adaptation.adapt import adapt
from recompact.adaptation.pruning import prune, without_clause
from recompact.adaptation.race import behind, race
from recompact.adaptation.selection import Cell, fit_tasks, select
from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Episode, Episodes, Task
from recompact.values.candidate import ORIGINAL, Candidate, Clause, Fit, Selection
from recompact.values.template import default_template

ORIGINAL_TEMPLATE = default_template()
BETTER = replace(
    ORIGINAL_TEMPLATE,
    first=ORIGINAL_TEMPLATE.first.replace("## Goal\n", "## Goal\n- Keep every condition exactly.\n"),
    update=ORIGINAL_TEMPLATE.update.replace("## Goal\n", "## Goal\n- Keep every condition exactly.\n"),
)
CANDIDATE = Candidate("c", BETTER, (Clause("Keep every condition exactly.", "Goal", ()),))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


class Breaking:
    """Episodes of another suite, some of which fail to start: `breaks` is asked with the task and the attempt."""

    def __init__(self, inner: Episodes, breaks: Callable[[str, int], bool]) -> None:
        self._inner, self._breaks = inner, breaks
        self.attempts: dict[str, int] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def episode(self, task: Task, ask: object = None) -> Episode:
        self.attempts[task.id] = self.attempts.get(task.id, 0) + 1
        episode = self._inner.episode(task)
        if self._breaks(task.id, self.attempts[task.id]):

            async def start() -> None:
                raise EnvironmentFailed("the disk is full")

            episode.start = start  # type: ignore[method-assign,assignment]
        return episode


def selected(collected: Path, tmp_path: Path, breaks: Callable[[str, int], bool]) -> tuple[Selection, Path]:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)

    async def work(study: Study) -> Selection:
        broken = Breaking(study.episodes, breaks)
        return await select(replace(study, episodes=broken), [CANDIDATE])  # type: ignore[arg-type]

    return study_run(path, work, "pair"), path


def test_a_run_that_its_environment_broke_once_is_retried(collected: Path, tmp_path: Path) -> None:
    whole, _ = selected(collected, tmp_path, lambda task, attempt: False)
    again = tmp_path / "again"
    again.mkdir()
    retried, path = selected(collected, again, lambda task, attempt: attempt == 1)
    assert retried == whole
    with Store.read(path) as store:
        assert all(row.ending != "environment error" for row in trajectories(store, phase="select"))


def test_a_run_that_stays_broken_is_left_out_for_all_and_reported(collected: Path, tmp_path: Path) -> None:
    with Store.read(collected) as store:
        first, second = fit_tasks(store, 2, seed=0)
    selection, path = selected(collected, tmp_path, lambda task, attempt: task == first)
    assert [fit.runs for fit in selection.fits] == [1, 1]
    assert all(fit.steps > 1 for fit in selection.fits)  # not the zero steps of a broken run
    assert [fit.broken for fit in selection.fits] == [1, 1]
    assert selection.excluded == (f"{first}, run 0",)
    assert numbers_in(selection.statement)[-1] == "1"
    assert Selection.from_json(selection.to_json()) == selection
    assert second in selection.tasks
    mended, _ = _again(path)
    assert mended.excluded == ()  # the next command tries them again


def _again(path: Path) -> tuple[Selection, Path]:
    async def work(study: Study) -> Selection:
        return await select(study, [CANDIDATE])

    return study_run(path, work, "pair"), path


def test_where_everything_breaks_the_original_stays(collected: Path, tmp_path: Path) -> None:
    selection, _ = selected(collected, tmp_path, lambda task, attempt: True)
    assert selection.winner == ORIGINAL
    assert numbers_in(selection.statement) == ["2"]  # runs that were left out, and no pass rate


def test_the_winner_of_ut_meets_the_candidates_of_utco_on_fresh_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    utco = adapted(path, "acon-utco")
    assert utco.selection is not None
    winner = utco.candidates[0].template
    assert winner is not None
    with Store.read(path) as store:
        units = {row.unit for row in trajectories(store, phase="select")}
    for template in (winner, ORIGINAL_TEMPLATE):
        for under in ("", "acon-utco/"):
            for task in utco.selection.tasks:
                assert f"select/{under}{template.hash[:16]}/{task}/0" in units
    for candidate in utco.candidates[1:]:
        assert candidate.template is not None
        assert not any(unit.startswith(f"select/{candidate.template.hash[:16]}") for unit in units)


# --- the race

RACING = CONFIG.replace("[adapt]", '[adapt]\nselection = "racing"')


def test_a_race_prunes_and_reports_fresh_runs(collected: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)
    result = study_run(path, adapt, "pair", text=RACING)
    selection = result.selection
    assert selection is not None
    assert selection.rule == "racing"
    with Store.read(path) as store:
        units = {row.unit for row in trajectories(store, phase="select")}
        replays = trajectories(store, phase="select-replay")
        (record,) = read_adaptations(store)
    assert replays
    assert record.selection == selection
    assert {row.unit.split("/")[2] for row in replays} <= {hash[:16] for hash in record.proposed}
    assert all("/race/" in unit or "/confirm/" in unit for unit in units)
    # no more runs than the paper's rule would have made
    assert sum("/race/" in unit for unit in units) <= 4 * len(selection.tasks)
    if selection.winner != ORIGINAL:
        assert {fit.name for fit in selection.confirmed} == {ORIGINAL, selection.winner}
        assert "fresh runs" in selection.statement
        assert result.template != ORIGINAL_TEMPLATE
    calls = study_run(path, adapt, "pair", text=RACING)
    assert calls.selection == selection  # read back


def test_clauses_that_close_nothing_are_dropped(collected: Path, tmp_path: Path) -> None:
    """A clause whose boundary stays harmful under the candidate goes; without clauses there is no candidate."""
    path = tmp_path / "run.db"
    shutil.copy(collected, path)
    clause = "Leave out tokens, retrieved records, pages and errors. Be short, be brief, be concise, in a few words."
    forgetful = replace(
        ORIGINAL_TEMPLATE,
        first=ORIGINAL_TEMPLATE.first.replace("## Goal\n", f"## Goal\n- {clause}\n"),
        update=ORIGINAL_TEMPLATE.update.replace("## Goal\n", f"## Goal\n- {clause}\n"),
    )

    async def work(study: Study) -> tuple[Candidate, tuple[str, ...]]:
        worst = next(finding for finding in read_verdicts(study.store).verdicts if finding.retained)
        useless = Candidate("w", forgetful, (Clause(clause, "Goal", (str(worst.id),)),))
        unanswered = Candidate("u", BETTER, CANDIDATE.clauses)
        pruned = await prune(study, [useless, unanswered])
        assert pruned.candidates[1] == unanswered  # nothing to judge it by
        return pruned.candidates[0], pruned.notes

    candidate, notes = study_run(path, work, "pair")
    assert candidate.template is None
    assert any(clause in note for note in notes)
    assert any("does not race" in note for note in notes)


def test_a_replay_sees_as_much_of_an_observation_as_the_draws_that_it_is_compared_with(
    collected: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)

    async def work(study: Study) -> None:
        answers = tuple(str(finding.id) for finding in read_verdicts(study.store).verdicts if finding.retained)
        clause = replace(CANDIDATE.clauses[0], answers=answers)
        short = replace(study.config, run=replace(study.config.run, observation_tokens=40))
        await prune(replace(study, config=short), [replace(CANDIDATE, clauses=(clause,))])

    study_run(path, work, "pair")
    with Store.read(path) as store:
        replays = [read_trajectory(store, row.unit) for row in trajectories(store, phase="select-replay")]
    assert replays
    assert "observation cut" in {incident.kind for replay in replays for incident in replay.incidents}


def test_a_clause_is_taken_out_of_every_part_and_nothing_else() -> None:
    clause = CANDIDATE.clauses[0]
    assert without_clause(BETTER, clause) == ORIGINAL_TEMPLATE
    assert without_clause(BETTER, Clause("Not there.", "Goal", ())) is None
    inline = replace(BETTER, first=BETTER.first.replace(clause.text, f"{clause.text} And more."))
    without = without_clause(inline, clause)
    assert without is not None
    assert "And more." in without.first
    assert clause.text not in without.first


def row(task: str, value: float, ending: str = "finished") -> TrajectoryRow:
    return TrajectoryRow("u", task, 0, {}, value >= 1, value, ending, 5, 1, 0, 0, {}, 0)  # type: ignore[arg-type]


def rows(values: Sequence[float], ending: str = "finished") -> dict[Cell, TrajectoryRow]:
    return {Cell(f"t{n}", 0): row(f"t{n}", value, ending) for n, value in enumerate(values)}


def test_who_is_clearly_behind_leaves_the_race() -> None:
    assert behind(rows([1] * 6), rows([0] * 6))
    assert behind(rows([1] * 8), rows([0] * 6 + [1] * 2))
    assert not behind(rows([1] * 6), rows([1] * 5 + [0]))
    assert not behind(rows([1]), rows([0]))
    assert not behind(rows([1] * 6), rows([0] * 6, "environment error"))  # a broken run says nothing


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=2, max_size=20))
def test_nobody_leaves_who_is_not_behind(pairs: list[tuple[float, float]]) -> None:
    one, other = rows([a for a, _ in pairs]), rows([b for _, b in pairs])
    assert not (behind(one, other) and behind(other, one))
    if sum(a for a, _ in pairs) <= sum(b for _, b in pairs):
        assert not behind(one, other)


def test_a_race_among_equals_ends_within_its_budget(collected: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)

    async def work(study: Study) -> Selection:
        return (await race(study, [CANDIDATE]))[1]

    selection = study_run(path, work, "pair", text=RACING)
    assert {fit.name for fit in selection.fits} == {ORIGINAL, CANDIDATE.name}
    assert all(0 < fit.runs <= 2 for fit in selection.fits)


def test_a_race_that_nobody_is_left_to_run_keeps_the_original(collected: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(collected, path)

    async def work(study: Study) -> Selection:
        return (await race(study, [Candidate("gone", None)]))[1]

    selection = study_run(path, work, "pair", text=RACING)
    assert selection.winner == ORIGINAL
    assert not numbers_in(selection.statement)


def test_fresh_runs_that_all_broke_are_no_estimate() -> None:
    """Nought of nought runs is no pass rate to report."""
    fits = (Fit(ORIGINAL, 12, 8, 20.0), Fit("c", 12, 9, 20.0))
    broken = (Fit(ORIGINAL, 0, 0, 0.0, 12), Fit("c", 0, 0, 0.0, 12))
    selection = Selection(fits, "c", ("t",), "racing", ("t, run 0",), broken)
    assert numbers_in(selection.statement) == ["1"]  # run that was left out, and no pass rate
    assert "0 of 0" not in selection.statement
    fresh = replace(selection, confirmed=(replace(broken[0], runs=12, passed=7), replace(broken[1], runs=12, passed=9)))
    assert numbers_in(fresh.statement)[:2] == ["9", "12"]
    assert [number for number in numbers_in(fresh.statement) if number in ("7", "9")] == ["9", "7"]


def test_a_rate_is_a_share_so_that_unequal_numbers_of_runs_compare() -> None:
    assert Fit("a", 4, 3, 10.0).rate == 0.75
    assert Fit("a", 4, 3, 10.0).rate > Fit("b", 10, 5, 10.0).rate
    assert Fit("c", 0, 0, 0.0).rate == 0.0
