"""Bisecting a run: causes are found whatever the concurrency, after any stop, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from verify_support import Forbidden, ShakyReader, books, study_of

from recompact.attribution.bisection.bisect import FEWEST, MOST, PHASE, allowance, allowed_for, bisect
from recompact.attribution.bisection.cause import Cause, read_causes
from recompact.attribution.judgement import Verification
from recompact.attribution.records import digest
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.config import VerifyConfig
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.chat import Reply, Request
from recompact.values.outcome import BoundaryId

TASKS = 8


def study(store: Store, concurrency: int = 4, reader: object | None = None) -> Study:
    base = study_of(store, books(TASKS))
    config = replace(
        base.config, run=replace(base.config.run, concurrency=concurrency), verify=VerifyConfig(allocation="uniform:3")
    )
    models = {**base.models, **({"reader": reader} if reader else {})}
    return replace(base, config=config, models=models)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verification]:
    path = tmp_path_factory.mktemp("bisected") / "books.db"

    async def work(store: Store) -> Verification:
        await collect(study(store))
        return await verify(study(store))

    with Store.open(path) as store:
        return path, asyncio.run(work(store))


def copied(verified: tuple[Path, Verification], to: Path, name: str = "books.db") -> Path:
    return Path(shutil.copy(verified[0], to / name))


def retained_in(verified: tuple[Path, Verification]) -> tuple[BoundaryId, ...]:
    return tuple(verdict.id for verdict in verified[1].retained)


def bisected(
    path: Path, ids: tuple[BoundaryId, ...], concurrency: int = 4, reader: object | None = None
) -> Mapping[BoundaryId, Cause]:
    with Store.open(path) as store:
        return asyncio.run(bisect(study(store, concurrency, reader), ids, most=40)).causes


@pytest.fixture(scope="module")
def causes(verified: tuple[Path, Verification], tmp_path_factory: pytest.TempPathFactory) -> Mapping[BoundaryId, Cause]:
    """What a search that nobody stops finds."""
    return bisected(copied(verified, tmp_path_factory.mktemp("whole")), retained_in(verified), 1)


def test_a_false_sentence_is_named_and_taken_out(causes: Mapping[BoundaryId, Cause]) -> None:
    """The compressor of this world at times claims that all pages were read: no putting back can mend that."""
    known = [cause for cause in causes.values() if cause.known]
    assert known
    for cause in known:
        if cause.loss == "success":
            assert cause.taken_out
            assert [piece.text for piece in cause.pieces] == ["The last page read was page 8 of 8."]
            assert cause.closing.success > cause.post.success


def test_causes_do_not_depend_on_the_concurrency(
    verified: tuple[Path, Verification], causes: Mapping[BoundaryId, Cause], tmp_path: Path
) -> None:
    assert bisected(copied(verified, tmp_path), retained_in(verified), 16) == causes


def test_the_record_answers_a_second_time(verified: tuple[Path, Verification], tmp_path: Path) -> None:
    path, ids = copied(verified, tmp_path), retained_in(verified)
    first = bisected(path, ids)
    assert bisected(path, ids, reader=Forbidden()) == first
    with Store.read(path) as store:
        assert read_causes(store) == first
        assert len(trajectories(store, phase=PHASE)) == sum(cause.draws for cause in first.values())


class Stopping(ShakyReader):
    """Is stopped by hand after some requests."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    async def reply(self, request: Request) -> Reply:
        self.left -= 1
        if self.left < 0:
            raise asyncio.CancelledError
        return await super().reply(request)


@pytest.mark.parametrize("after", [1, 40])
def test_a_search_that_was_stopped_goes_on(
    verified: tuple[Path, Verification], causes: Mapping[BoundaryId, Cause], tmp_path: Path, after: int
) -> None:
    ids, path = retained_in(verified), copied(verified, tmp_path)
    with pytest.raises(Unfinished):
        bisected(path, ids, 2, Stopping(after))
    with Store.open(path) as store:
        store.retry_set_aside()
    assert bisected(path, ids, 2) == causes


def test_the_verification_is_left_alone(verified: tuple[Path, Verification], tmp_path: Path) -> None:
    path = copied(verified, tmp_path)
    with Store.read(path) as store:
        before = digest(store)
    bisected(path, retained_in(verified))
    with Store.read(path) as store:
        assert digest(store) == before


@pytest.mark.parametrize("continuations", [0, 5, 24, 100, 714, 100_000])
@pytest.mark.parametrize("number", [0, 1, 16, 300])
def test_an_allowance_keeps_to_its_share(continuations: int, number: int) -> None:
    ids = [BoundaryId("collect/a", n) for n in range(number)]
    allowed = allowance(ids, continuations)
    assert (*allowed.boundaries, *allowed.passed_over) == tuple(ids)
    if allowed.boundaries:
        assert FEWEST <= allowed.each <= MOST
        assert len(allowed.boundaries) == 1 or allowed.each * len(allowed.boundaries) <= continuations * 0.5


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_searches_keep_to_their_share_of_the_verification(
    verified: tuple[Path, Verification], tmp_path: Path, share: float
) -> None:
    """What easy searches leave over goes to those that ran out, and nobody gets more than there is."""
    ids = retained_in(verified)
    drawn = sum(len(arm) for verdict in verified[1].verdicts for arm in (verdict.outcomes.pre, verdict.outcomes.post))
    with Store.open(copied(verified, tmp_path)) as store:
        allowed = allowed_for(store, ids, share, None)
        assert (allowed.boundaries + allowed.passed_over, allowed.total >= int(drawn * share)) == (ids, True)
        assert allowed_for(store, ids, share, 7).each == 7
        found = asyncio.run(bisect(study(store), ids, share=share))
        spent = sum(cause.draws for cause in found.causes.values())
        assert sum(1 for _ in trajectories(store, phase=PHASE)) == spent <= allowed.total
        assert (set(found.causes), found.passed_over) == (set(allowed.boundaries), allowed.passed_over)
        short = [cause for cause in found.causes.values() if cause.ending == "out of draws"]
        least = min((cause.draws for cause in short), default=MOST)
        assert least == MOST or allowed.total - spent < len(short)  # nothing is left over while somebody could use it
        later = allowed_for(store, ids, share, None, spent=spent)
        assert later.total <= max(allowed.total - spent + 1, later.each * len(later.boundaries))
