"""ACON's three methods, from a collected run to candidates and a selection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from acon_support import CONFIG, TASKS, Killed, Killing, adapted, calls, study_run
from sentences import numbers_in

from recompact.adaptation.acon_evidence import BASELINE, FEEDBACK, contrast
from recompact.adaptation.adapt import Adaptation, adapt, inputs_of
from recompact.adaptation.lock import broken_rules, unusable
from recompact.adaptation.method import load_method
from recompact.engine.collection import collect
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, PARTS, Candidate, Proposal
from recompact.values.chat import assistant
from recompact.values.context import Context, Turn
from recompact.values.template import default_template, placeholders
from recompact.values.trajectory import Score, Trajectory

METHODS = ("acon-ut", "acon-ut-locked", "acon-utco")
Run = tuple[Path, Mapping[str, Adaptation]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run in which all three methods were carried out: they share what they have in common."""
    path = tmp_path_factory.mktemp("acon") / "run.db"
    return path, {method: adapted(path, method) for method in METHODS}


def units(path: Path, begin: str) -> set[str]:
    with Store.read(path) as store:
        return {unit for unit in store.finished() if unit.startswith(begin)}


def test_the_methods_share_what_they_have_in_common_and_nothing_is_verified(run: Run) -> None:
    path, _ = run
    assert units(path, "baseline/") == {f"baseline/{task}" for task in TASKS}
    assert units(path, "continue/") == set()  # whole trajectories are the evidence: no draws are paid for
    with Store.read(path) as store:
        found = contrast(store)
        assert all(row.compactions == 0 for row in trajectories(store, phase=BASELINE))
        assert {row.unit.split("/")[0] for row in boundary_rows(store)} == {"collect"}
    assert found.regressions
    assert len(found.tasks) < found.failed
    assert units(path, "feedback/") == {f"feedback/{task}" for task in found.tasks}
    assert len(units(path, "revise/")) == 9  # three candidates of three methods


@pytest.mark.parametrize("method", METHODS)
def test_each_method_ends_in_a_selection_of_usable_templates(run: Run, method: str) -> None:
    result = run[1][method]
    original = default_template()
    assert result.selection is not None
    names = {fit.name for fit in result.selection.fits}
    assert names == {ORIGINAL, *(c.name for c in result.candidates)}
    assert result.winner in names
    assert set(result.selection.tasks) <= set(TASKS)
    for candidate in result.candidates:
        assert candidate.template is not None
        assert candidate.template != original
        assert unusable(candidate.template) == ()
        assert candidate.clauses
        for part in PARTS:
            assert sorted(placeholders(candidate.template.part(part))) == sorted(placeholders(original.part(part)))


def test_the_locked_variant_keeps_the_lock(run: Run) -> None:
    candidates = run[1]["acon-ut-locked"].candidates
    assert candidates
    for candidate in candidates:
        assert candidate.template is not None
        assert broken_rules(default_template(), candidate.template) == ()


def test_utco_goes_on_from_the_winner_of_ut_which_takes_part(run: Run) -> None:
    path, results = run
    ut, utco = results["acon-ut"], results["acon-utco"]
    assert ut.winner != ORIGINAL
    assert [c.name for c in utco.candidates] == [ut.winner, "acon-utco-1", "acon-utco-2", "acon-utco-3"]
    assert utco.candidates[0].template == ut.template
    under = ut.template.hash[:16]
    assert units(path, "compress/") == {f"compress/{under}/{task}" for task in TASKS}
    with Store.read(path) as store:
        done = {r.task: r.compactions for r in trajectories(store, phase="compress") if r.success and r.compactions}
    assert done
    analysed = {f"analyse/{under}/{task}#{n}" for task, count in done.items() for n in range(1, count + 1)}
    assert units(path, "analyse/") == analysed
    assert units(path, "revise/acon-utco/") == {f"revise/acon-utco/{under}/acon-utco-{n}" for n in (1, 2, 3)}


def recorded(path: Path, alone: Mapping[str, float], compacted: Mapping[str, float], steps: int = 1) -> Store:
    """A run with these scores by task, without and with compaction; nothing was ever compacted in it."""
    store = Store.open(path)
    for phase, scores in ((BASELINE, alone), ("collect", compacted)):
        for task, value in scores.items():
            turn = Turn(assistant("on"), (), 1)
            turns = (turn,) * (steps if phase == "collect" else 1)
            made = Trajectory(task, turns, (), "finished", Score(value >= 1, value), Context(()))
            write_trajectory(store, f"{phase}/{task}", made, phase=phase, run=0, groups={}, seconds=0.0)
    return store


def test_the_contrast_set_is_that_of_acon(tmp_path: Path) -> None:
    """Success without and failure with compaction on, whether or not one took place; a drop where scores are graded."""
    with recorded(tmp_path / "a.db", {"a": 1, "b": 1, "c": 0}, {"a": 0, "b": 1, "c": 0}) as store:
        assert contrast(store).tasks == ("a",)
    with recorded(tmp_path / "b.db", {"a": 0, "b": 1}, {"a": 0, "b": 1}) as store:
        found = contrast(store)
        assert (found.tasks, found.regressions) == (("a",), False)
    with recorded(tmp_path / "c.db", {"a": 0.8, "b": 0.8, "c": 1}, {"a": 0.7, "b": 0.78, "c": 0.96}) as store:
        assert contrast(store).tasks == ("a",)
    with recorded(tmp_path / "d.db", {"a": 1, "b": 1}, {"a": 1, "b": 0}, steps=2) as store:
        assert contrast(store).tasks == ("b",)  # slow successes are left out by default
        assert contrast(store, step_ratio=1.5).tasks == ("a", "b")
        assert contrast(store, step_ratio=2.5).tasks == ("b",)


def test_the_feedback_asks_for_what_acon_asks_for() -> None:
    for word in ("guardrails", "verification", "loop", "timeline", "wasted", "reliability", "remedies"):
        assert word in FEEDBACK


def only(*tasks: str) -> str:
    return CONFIG.replace(CONFIG.splitlines()[2], f"tasks = {list(tasks)}".replace("'", '"'))


def test_failures_serve_where_there_is_no_regression(tmp_path: Path) -> None:
    async def work(study: Study) -> tuple[Candidate, ...]:
        await collect(study)
        return Proposal.of(await load_method("acon-ut").propose(await inputs_of(study))).candidates

    candidates = study_run(tmp_path / "run.db", work, text=only("pocket-train-046"))  # it fails either way
    with Store.read(tmp_path / "run.db") as store:
        found = contrast(store)
    assert (found.tasks, found.regressions) == (("pocket-train-046",), False)
    assert found.failed == 1
    assert all(candidate.template for candidate in candidates)


def test_without_failures_there_is_no_candidate_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    result = study_run(path, adapt, "acon-ut", text=only("pocket-train-002"))
    assert (result.winner, result.selection) == (ORIGINAL, None)
    assert result.template == default_template()
    (told,) = result.candidates
    assert (told.name, told.template) == ("acon-ut", None)
    (objection,) = told.objections
    assert numbers_in(objection) == ["1"]


def test_utco_starts_from_the_original_where_ut_has_no_winner(tmp_path: Path) -> None:
    """Then the runs that were collected serve again: they are not paid for twice."""
    path = tmp_path / "run.db"

    async def work(study: Study) -> tuple[Candidate, ...]:
        await collect(study)
        return Proposal.of(await load_method("acon-utco").propose(await inputs_of(study))).candidates

    candidates = study_run(path, work, text=only("pocket-train-002"))
    assert [c.name for c in candidates] == ["acon-ut", "acon-utco-1", "acon-utco-2", "acon-utco-3"]
    assert [c.template is not None for c in candidates] == [False, True, True, True]
    assert units(path, "compress/") == set()
    assert len(units(path, "analyse/")) == 4


def test_without_successes_nothing_is_shortened_and_that_is_said(tmp_path: Path) -> None:
    async def work(study: Study) -> tuple[Candidate, ...]:
        await collect(study)
        return Proposal.of(await load_method("acon-utco").propose(await inputs_of(study))).candidates

    candidates = study_run(tmp_path / "run.db", work, text=only("pocket-train-003"))  # too short to be compacted
    assert [(c.name, c.template) for c in candidates] == [("acon-ut", None), ("acon-utco", None)]
    assert all(candidate.objections for candidate in candidates)


KILLS = (
    ("agent", 100),  # in the collection
    ("agent", 50),  # in the runs without compaction
    ("<with-compaction", 2),
    ("<feedback>", 2),
    ("compressor", 5),  # in the selection of UT
    ("compressor", 15),  # in the runs under its winner
    ("<what-came-next>", 2),
    ("<analyses>", 3),
    ("agent", 20),  # in the last selection
)


def test_a_run_that_was_killed_anywhere_goes_on_and_repeats_no_call(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "killed.db"
    killing = Killing(KILLS)
    for _ in KILLS:
        with pytest.raises(Killed):
            study_run(path, adapt, "acon-utco", models=killing.models)
    result = study_run(path, adapt, "acon-utco", models=killing.models)
    assert killing.replies == len(calls(path))
    assert [c.template for c in result.candidates] == [c.template for c in run[1]["acon-utco"].candidates]
    with Store.read(path) as killed, Store.read(run[0]) as whole:
        for phase in ("baseline/", "feedback/", "compress/", "analyse/", "revise/acon-ut/", "revise/acon-utco/"):
            assert killed.digest(phase) == whole.digest(phase)


def test_concurrency_changes_nothing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    study_run(path, adapt, "acon-ut", text=CONFIG + "[run]\nconcurrency = 1\n")
    with Store.read(path) as one, Store.read(run[0]) as many:
        for phase in ("baseline/", "feedback/", "revise/acon-ut/"):
            assert one.digest(phase) == many.digest(phase)
