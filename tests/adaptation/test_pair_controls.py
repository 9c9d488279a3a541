"""The negative controls of PAIR: other boundaries, or the arms under each other's name, and all else the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from acon_support import study_run
from shared_runs import verified_run

from recompact.adaptation.adapt import adapt
from recompact.adaptation.evidence import gather, retained_evidence
from recompact.adaptation.pair import DIAGNOSIS, random_boundaries, swap_arms, swapped_arms
from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.store import Store
from recompact.values.outcome import PAPER
from recompact.values.tokens import counter


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


def test_random_boundaries_are_as_many_and_drawn_by_the_seed(verified: Path) -> None:
    with Store.read(verified) as store:
        every = read_verdicts(store).verdicts
        first, again = random_boundaries(store), random_boundaries(store)
    ids = [evidence.verdict.id for evidence in first]
    assert len(ids) == len(set(ids)) == sum(finding.retained for finding in every) > 0
    assert ids == [evidence.verdict.id for evidence in again]
    assert all(evidence.verdict.effect is not None for evidence in first)


def test_swapped_arms_show_each_continuation_under_the_other_name(verified: Path) -> None:
    with Store.read(verified) as store:
        before, after = retained_evidence(store), swapped_arms(store)
        (text, *_) = gather(store, {}, "history", 60_000, counter(), swapped_arms)
    for one, other in zip(before, after, strict=True):
        assert one.verdict.effect is not None
        assert other.verdict.effect is not None
        assert other.verdict.effect.hazard == -one.verdict.effect.hazard
        assert other.verdict.effect.burden == pytest.approx(-one.verdict.effect.burden)
        arms = {c.row.name: c.row.arm for c in one.continuations}
        assert {c.row.name: c.row.arm for c in other.continuations} == {
            name: "POST" if arm == "PRE" else "PRE" for name, arm in arms.items()
        }
        assert swap_arms(swap_arms(one, PAPER), PAPER).continuations == one.continuations
        assert other.boundary == one.boundary
    effect = after[0].verdict.effect
    assert effect is not None
    assert f"success lost (H): {effect.hazard:.2f}" in text.text


@pytest.mark.parametrize("method", ["pair-random", "pair-swapped"])
def test_a_control_adapts_like_pair_and_stays_apart_from_it(verified: Path, tmp_path: Path, method: str) -> None:
    path = tmp_path / "run.db"
    shutil.copy(verified, path)
    study_run(path, adapt, "pair")
    with Store.read(path) as store:
        diagnoses = {unit: store.result(unit) for unit in store.finished(DIAGNOSIS)}
    control = study_run(path, adapt, method)
    with Store.read(path) as store:
        assert {unit: store.result(unit) for unit in store.finished(DIAGNOSIS)} == diagnoses
        assert len(store.finished(f"{method} {DIAGNOSIS}")) == len(diagnoses)
        records = {record.method: record for record in read_adaptations(store)}
    assert records.keys() == {"pair", method}
    assert control.candidates == records[method].candidates
    assert all(candidate.name.startswith(method) for candidate in control.candidates)
