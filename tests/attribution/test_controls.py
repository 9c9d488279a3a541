"""The controls of a run: the tasks that the identity is checked on, and how many draws the others need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import begin, collect, draw, pair
from sentences import numbers_in

from recompact.attribution.controls import TasksLeftOut, controls_of
from recompact.engine.config import VerifyConfig
from recompact.engine.store.store import Store
from recompact.values.trajectory import Ending

BROKEN: Ending = "environment error"
PAIRS = VerifyConfig(allocation="uniform:1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "run.db") as opened:
        begin(opened, verified=PAIRS)
        yield opened


@pytest.fixture
def uncompacted(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "plain.db") as opened:
        begin(opened)
        yield opened


def test_the_identity_is_checked_on_tasks_of_both_runs_whose_boundaries_all_have_an_effect(
    store: Store, uncompacted: Store
) -> None:
    collect(store, "lost", (5, 9), value=0.0)
    pair(store, "lost", 1, 0, (1.0, 5), (0.0, 5))
    pair(store, "lost", 2, 0, (0.25, 5), (0.0, 5))
    collect(store, "open", (5, 9))  # one of its boundaries has no draws
    pair(store, "open", 1, 0, (1.0, 5), (0.0, 5))
    collect(store, "short", ())
    collect(store, "alone", ())
    for task in ("lost", "open", "short", "other"):
        collect(uncompacted, task, ())
    check = controls_of(store, uncompacted).identity
    assert check is not None
    assert (check.tasks, check.trajectories) == (2, 2)
    assert (check.compacted.value, check.uncompacted.value) == (0.5, 1.0)
    assert check.predicted.value == pytest.approx(-1.25 / 2)
    found = controls_of(store, uncompacted).to_json()
    assert found["identity"]["agrees"] is None
    assert found["identity"]["tasks"] == 2


def test_tasks_that_an_environment_broke_say_nothing_about_the_identity(store: Store, uncompacted: Store) -> None:
    for task in ("whole", "broken", "broken-without", "open"):
        collect(store, task, value=0.0 if task == "broken" else 1.0, ending=BROKEN if task == "broken" else "finished")
        without = task == "broken-without"
        collect(uncompacted, task, (), value=0.0 if without else 1.0, ending=BROKEN if without else "finished")
        if task != "open":
            pair(store, task, 1, 0, (1.0, 5), (1.0, 5))
    collect(uncompacted, "other", (), ending=BROKEN)  # not a task of both
    found = controls_of(store, uncompacted)
    assert found.identity is not None
    assert (found.identity.tasks, found.identity.gap.value) == (1, 0.0)
    assert found.left_out == TasksLeftOut(broken=2, without_verdict=1)
    assert found.to_json()["left_out_of_identity"] == {"broken": 2, "without_verdict": 1}
    assert numbers_in(found.left_out.statement) == ["2", "1"]
    assert numbers_in(TasksLeftOut(0, 2).statement) == ["2"]
    assert TasksLeftOut(0, 0).statement == ""
    assert controls_of(store).left_out is None


def test_without_another_run_or_a_task_in_common_there_is_no_identity_to_check(
    store: Store, uncompacted: Store
) -> None:
    collect(store, "mine", ())
    collect(uncompacted, "theirs", ())
    assert controls_of(store).identity is None
    assert controls_of(store, uncompacted).identity is None
    assert controls_of(store, uncompacted).to_json()["identity"] is None


def test_figures_about_all_boundaries_rest_on_as_many_draws_as_each_has(store: Store, uncompacted: Store) -> None:
    """What looked harmful by chance was drawn again, which corrected it; what looked helpful was not."""
    for n in range(8):
        collect(store, str(n), value=0.5)
        collect(uncompacted, str(n), (), value=0.5)
        pair(store, str(n), 1, 0, (n % 2, 5 + n), (1 - n % 2, 5))
    before = controls_of(store, uncompacted)
    for n in range(1, 8, 2):
        pair(store, str(n), 1, 1, (0.5, 5), (0.5, 30))
        pair(store, str(n), 1, 2, (0.5, 5), (0.5, 30))
    found = controls_of(store, uncompacted)
    assert (before.draws, found.draws, found.to_json()["draws"]) == (1, 1, 1)
    assert found.identity is not None
    assert (found.identity.predicted.value, found.identity.agrees) == (0.0, True)
    assert found.identity == before.identity
    for n in range(0, 8, 2):
        pair(store, str(n), 1, 1, (0.5, 5), (0.5, 5))
        pair(store, str(n), 1, 2, (0.5, 5), (0.5, 5))
    assert controls_of(store).draws == 3


@pytest.mark.parametrize(("draws", "compared"), [(3, False), (4, True)])
def test_more_than_three_pairs_are_a_reference_for_three(store: Store, draws: int, compared: bool) -> None:
    for task in ("a", "b", "c"):
        collect(store, task)
        for number in range(draws):
            pair(store, task, 1, number, (1.0, 5), (float(number % 2), 5 + number))
    draw(store, "a", 1, "PRE", draws)  # the fewest draws of an arm count
    found = controls_of(store)
    assert [row.allocation for row in found.allocations] == (["uniform 3", "halving"] if compared else [])
    assert [point.draws for point in found.sensitivity] == ([1, 3, 4] if compared else [])
    figures = found.to_json()
    assert len(figures["allocations"]) == len(found.allocations)
    assert [point["draws"] for point in figures["sensitivity"]] == [point.draws for point in found.sensitivity]


def test_a_run_without_boundaries_has_nothing_to_compare(store: Store) -> None:
    found = controls_of(store)
    assert (found.allocations, found.sensitivity, found.coupling) == ((), (), None)
    assert found.statement.boundaries == 0


@pytest.mark.parametrize(("hazard", "severe"), [(0.5, 3), (0.6, 0)])
def test_the_thresholds_are_those_of_the_verification(store: Store, hazard: float, severe: int) -> None:
    """Half a success lost is severe at 0.5 and not at 0.6, and so it is for the allocations that are compared."""
    begin(store, verified=VerifyConfig(allocation="uniform:1", hazard=hazard))
    for n in range(4):
        collect(store, str(n))
        for number in range(4):
            pair(store, str(n), 1, number, (1.0, 5), (0.5 if n else 1.0, 5))
    found = controls_of(store)
    assert found.statement.by_estimate == severe
    three = found.allocations[0]
    for share in (three.recall, three.precision):
        assert (share and share.value) == (1.0 if severe else None)


@pytest.mark.parametrize(("trajectories", "draws"), [(19, 2), (20, 1), (20, 2)])
def test_a_coupling_of_few_trajectories_or_of_one_draw_is_withheld(store: Store, trajectories: int, draws: int) -> None:
    for n in range(trajectories):
        collect(store, str(n))
        for number in range(draws):
            pair(store, str(n), 1, number, (1.0, 5), (1 - n / 20, 5 + n))
    coupling = controls_of(store).coupling
    assert (coupling is None) == (trajectories < 20 or draws < 2)
    if coupling is not None:
        assert coupling.value == pytest.approx(1.0)
        assert controls_of(store).to_json()["coupling"]["value"] == coupling.value


def test_what_one_draw_does_to_both_effects_is_no_coupling(store: Store) -> None:
    """Where a draw that fails is a long one, H and B of the same draws go together by chance; of others they do not."""
    for n in range(20):
        collect(store, str(n))
        for number in (0, 1):
            failed = number == n % 2
            pair(store, str(n), 1, number, (1.0, 5), (0.0 if failed else 1.0, 15 if failed else 5))
    coupling = controls_of(store).coupling
    assert coupling is not None
    assert coupling.value < 0.5


def test_effects_that_do_not_vary_have_no_coupling(store: Store) -> None:
    for n in range(7):
        collect(store, str(n))
        pair(store, str(n), 1, 0, (1.0, 5), (1.0, 5))
    assert controls_of(store).coupling is None
    assert controls_of(store).to_json()["coupling"] is None
