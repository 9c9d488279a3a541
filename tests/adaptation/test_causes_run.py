"""The method `causes` on a run: it collects until it has enough, says so, checks, and resumes without asking again."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sentences import numbers_in
from verify_support import Forbidden, books, study_of

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.causes import SOFTENED, UNTESTED, _say_unsearched, causes
from recompact.adaptation.facts import ENTRIES, SPARING
from recompact.attribution.bisection.cause import Cause, write_cause
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Fit, Selection, read_record
from recompact.values.outcome import BoundaryId

CHOSEN, MORE = 4, 4


def study(store: Store, models: dict[str, Any] | None = None, **options: Any) -> Study:
    base = study_of(store, books(CHOSEN + 2 * MORE), models=models)
    suite = replace(base.config.suite, limit=CHOSEN)
    config = replace(base.config, suite=suite, verify=VerifyConfig(allocation="uniform:8"))
    return replace(base, config=config, method=causes(**{"more_tasks": MORE, **options}))


def adapted(path: Path, models: dict[str, Any] | None = None, **options: Any) -> Adaptation:
    with Store.open(path) as store:
        return asyncio.run(adapt(study(store, models, **options)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Adaptation]:
    path = tmp_path_factory.mktemp("causes") / "books.db"
    return path, adapted(path)


def test_it_collects_more_tasks_up_to_its_ceiling_and_no_further(run: tuple[Path, Adaptation]) -> None:
    with Store.read(run[0]) as store:
        added = store.metadata.added
        assert 0 < len(added) <= MORE
        assert len(trajectories(store)) == CHOSEN + len(added)
    assert str(len(added)) in run[1].statement


def test_a_false_sentence_becomes_a_clause_with_its_proof(run: tuple[Path, Adaptation]) -> None:
    """The compressor of this world claims that all pages were read: that is open work written as done."""
    clauses = [clause for candidate in run[1].candidates for clause in candidate.clauses]
    assert any(clause.answers for clause in clauses)
    assert all((clause.proof in (UNTESTED, SOFTENED)) is not bool(clause.answers) for clause in clauses)
    assert all(clause.proof for clause in clauses)


def test_the_record_answers_a_second_time(run: tuple[Path, Adaptation], tmp_path: Path) -> None:
    path = Path(shutil.copy(run[0], tmp_path / "books.db"))
    again = adapted(path, {"reader": Forbidden(), "noter": Forbidden()})
    assert (again.template, again.candidates, again.selection) == (run[1].template, run[1].candidates, run[1].selection)


def test_without_more_tasks_the_chosen_ones_have_to_do(tmp_path: Path) -> None:
    adapted(tmp_path / "books.db", more_tasks=0)
    with Store.read(tmp_path / "books.db") as store:
        assert store.metadata.added == ()


def test_with_both_wordings_the_same_kinds_are_asked_for_in_two_ways(
    run: tuple[Path, Adaptation], tmp_path: Path
) -> None:
    path = Path(shutil.copy(run[0], tmp_path / "books.db"))
    with Store.open(path) as store:
        models = {"reader": Forbidden(), "noter": Forbidden()}
        candidates = asyncio.run(adapt(study(store, models, wording="both", prior=False), "revise")).candidates
    halves = {form: [each for each in candidates if ("entries" in each.name) == form] for form in (False, True)}
    assert len({each.name for each in candidates}) == len(candidates) == 2 * len(halves[False])
    for sparing, demanding in zip(halves[False], halves[True], strict=True):
        kinds = {
            form: [kind for clause in candidate.clauses for kind, text in words.clauses.items() if clause.text == text]
            for form, candidate, words in ((False, sparing, SPARING), (True, demanding, ENTRIES))
        }
        assert kinds[False] == kinds[True] != []
        assert [clause.answers for clause in sparing.clauses] == [clause.answers for clause in demanding.clauses]


@pytest.mark.parametrize("evidence", ["random compactions", "random pieces"])
def test_controls_prove_nothing(run: tuple[Path, Adaptation], tmp_path: Path, evidence: str) -> None:
    """Pieces that chance chose are no causes: whatever they propose carries no proof of an intervention."""
    path = Path(shutil.copy(run[0], tmp_path / "books.db"))
    control = adapted(path, evidence=evidence, more_tasks=0)
    if evidence == "random pieces":
        proofs = {clause.proof for candidate in control.candidates for clause in candidate.clauses}
        assert proofs <= {"", UNTESTED, SOFTENED}


@pytest.mark.parametrize(
    ("gain", "verdict"), [((0.2, 0.1, 0.3), "better"), ((-0.2, -0.3, -0.1), "worse"), ((0.1, -0.1, 0.3), "cannot tell")]
)
def test_a_verdict_is_only_as_sure_as_its_interval(gain: tuple[float, float, float], verdict: str) -> None:
    fits = (Fit(ORIGINAL, 12, 6, 20.0), Fit("causes-1", 12, 7, 20.0))
    winner = ORIGINAL if verdict == "worse" else "causes-1"
    selection = Selection(fits, winner, ("a",), "tested causes", gain=gain)
    assert selection.verdict == verdict
    assert read_record(Selection, asdict(selection)) == selection


def test_searches_that_could_not_tell_are_counted(tmp_path: Path) -> None:
    """No cause at a compaction that nobody searched is no finding."""
    with Store.open(tmp_path / "few.db") as store:
        ids = [BoundaryId(f"collect/{n}", 1) for n in range(4)]
        write_cause(store, Cause(ids[0], "out of draws", "steps", 20, (), 5, 100))
        write_cause(store, Cause(ids[1], "not seen again", "steps", 9, (), 5, 100))
        assert numbers_in(_say_unsearched(store, ids)) == ["2", "1"]  # got no search, ran out
        assert _say_unsearched(store, ids[1:2]) == ""
