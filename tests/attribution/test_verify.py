"""Verification in one process: units, records, what is left out, more draws, and that nothing is done twice."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_files import select_rows
from verify_support import DriftingSuite, Forbidden, ShakyReader, books, study_of

from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.continuations import continuation_unit
from recompact.attribution.forecast import forecast_draws
from recompact.attribution.halving import Halving, rollouts
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import boundary_named, digest, outcomes_in, retry_left_out
from recompact.attribution.registry import allocation_of
from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.config import VerifyConfig
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import boundary_rows, continuation_rows, phase_digest
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.functions import FunctionEnvironment
from recompact.environments.protocol import Suite
from recompact.errors import InputError
from recompact.models.failures import Overloaded
from recompact.values.chat import Reply, Request
from recompact.values.outcome import ARMS, BoundaryId


def shown_of_observations(study: Study, tokens: int) -> Study:
    return replace(study, config=replace(study.config, run=replace(study.config.run, observation_tokens=tokens)))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected_run(tmp_path_factory.mktemp("books"), books(6))


def collected_run(directory: Path, suite: Suite) -> Path:
    import asyncio

    path = directory / "books.db"
    with Store.open(path) as store:
        assert asyncio.run(collect(study_of(store, suite)))
    return path


def copied(path: Path, directory: Path, name: str = "copy") -> Path:
    target = directory / f"{name}.db"
    with Store.read(path) as store:  # with what is still in its log
        select_rows(store, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, target)
    return target


async def test_a_continuation_sees_as_much_of_an_observation_as_the_config_says(
    collected: Path, tmp_path: Path
) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        await verify(shown_of_observations(study_of(store, books(6)), 40), Uniform(1))
        made = [read_trajectory(store, row.name) for row in continuation_rows(store)]
        assert "observation cut" in {incident.kind for each in made for incident in each.incidents}


async def test_each_draw_is_a_unit_with_its_record_and_its_whole_trajectory(collected: Path, tmp_path: Path) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        before = phase_digest(store, "trajectory")
        verified = await verify(study_of(store, books(6)), Uniform(2))
        rows = boundary_rows(store)
        made = continuation_rows(store)
        assert len(rows) > 12
        assert len(made) == 4 * len(rows)
        names = {continuation_unit(r.task, r.index, arm, n) for r in rows for arm in ARMS for n in (0, 1)}
        assert {row.name for row in made} == store.finished("continuation") == names
        for row in made:
            whole = read_trajectory(store, row.name)
            boundary = read_boundary(store, row.boundary)
            assert (whole.steps, whole.score.value, whole.ending) == (row.steps, row.value, row.ending)
            assert dict(whole.usage) == dict(row.usage)
            assert not whole.boundaries  # compaction is off
            assert whole.steps <= 20 - boundary.step
            start = boundary.pre if row.arm == "PRE" else boundary.post
            assert whole.context.messages[: len(start.messages)] == start.messages
        assert phase_digest(store, "trajectory") == before
        outcomes = outcomes_in(store).outcomes
        assert {v.id: v.outcomes for v in verified.verdicts} == outcomes
        first = outcomes[BoundaryId(made[0].unit, made[0].index)]
        assert first.pre[0].tokens == sum(usage.total for usage in made[0].usage.values()) > 0
        assert {o.value for k in outcomes.values() for o in k.post.values()} == {0.0, 1.0}


async def test_the_digest_is_the_same_for_one_at_a_time_and_for_32(collected: Path, tmp_path: Path) -> None:
    digests: dict[str, set[str]] = {}
    for name in ("halving", "racing", "chained"):
        for concurrency in (1, 32):
            with Store.open(copied(collected, tmp_path, f"{name}-{concurrency}")) as store:
                more = f'[verify]\nallocation = "{name}"'
                verified = await verify(study_of(store, books(6), concurrency=concurrency, more=more))
                found = read_verdicts(store)
                assert found.settled
                retained = [f.id for f in found.verdicts if f.retained]
                assert set(retained) == {v.id for v in verified.retained}
                digests.setdefault(name, set()).add(digest(store))
    assert all(len(found) == 1 for found in digests.values()), digests
    assert len({next(iter(found)) for found in digests.values()}) == 3


async def test_more_draws_go_on_without_repeating_any(collected: Path, tmp_path: Path) -> None:
    asked: Counter[int | None] = Counter()

    def note(request: Request) -> None:
        asked[request.decoding.seed] += 1

    models = {"reader": ShakyReader(note)}
    with Store.open(copied(collected, tmp_path)) as store:
        await verify(study_of(store, books(6), models=models), Halving())
        for draws in (2, 3, 3):
            names = {row.name for row in continuation_rows(store)}
            wanted = {
                continuation_unit(row.task, row.index, arm, n)
                for row in boundary_rows(store)
                for arm in ARMS
                for n in range(draws)
            }
            await verify(study_of(store, books(6), models=models), Uniform(draws))
            assert {row.name for row in continuation_rows(store)} == names | wanted
        assert set(asked.values()) == {1}  # every call of every draw was sent once
        sent = asked.total()
        await verify(study_of(store, books(6), models=models), Halving())
        assert asked.total() == sent
        step_by_step = digest(store)
    with Store.open(copied(collected, tmp_path, "at-once")) as store:
        await verify(study_of(store, books(6)), Uniform(3))
        assert digest(store) == step_by_step


async def test_a_continuation_may_take_the_steps_that_were_left_and_no_more(collected: Path, tmp_path: Path) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        steps = {BoundaryId(row.unit, row.index): row.step for row in boundary_rows(store)}
        limit = max(steps.values()) + 1
        study = study_of(store, books(6))
        short = replace(study.config, run=replace(study.config.run, step_limit=limit))
        await verify(replace(study, config=short), Uniform(1))
        rows = [(row.steps, limit - steps[BoundaryId(row.unit, row.index)], row) for row in continuation_rows(store)]
    assert all(taken <= left for taken, left, _ in rows)
    assert {taken == left for taken, left, row in rows if row.ending == "step limit"} == {True}


async def test_a_boundary_whose_replay_differs_is_left_out_with_its_reason(tmp_path: Path) -> None:
    suite = DriftingSuite()
    path = tmp_path / "books.db"
    with Store.open(path) as store:
        await collect(study_of(store, suite))
    digests = set()
    for concurrency in (1, 32):
        with Store.open(copied(path, tmp_path, str(concurrency))) as store:
            verified = await verify(study_of(store, suite, concurrency=concurrency))
            left_out = verified.left_out
            assert {id.unit for id in left_out} == {"collect/book-001"}
            assert len(left_out) == sum(row.task == "book-001" for row in boundary_rows(store))
            assert all("action 1 (look)" in reason for reason in left_out.values())
            assert all(v.effect is None for v in verified.verdicts if v.id in left_out)
            broken = [row for row in continuation_rows(store) if row.ending == "environment error"]
            assert broken
            assert not any(row.success for row in broken)
            assert outcomes_in(store).left_out == verified.left_out
            digests.add(digest(store))
            found = read_verdicts(store)
            assert {f.id for f in found.verdicts if f.left_out} == left_out.keys()
            asked = len(continuation_rows(store))
            await verify(study_of(store, suite, models={"reader": Forbidden()}))  # it is not tried again
            assert len(continuation_rows(store)) == asked
    assert len(digests) == 1


async def test_what_was_left_out_can_be_tried_again_once_its_environment_is_mended(
    collected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = FunctionEnvironment.restore

    def out_of_order(self: FunctionEnvironment, state: bytes) -> None:
        if self._task.id == "book-002":
            raise OSError("out of order")
        restore(self, state)

    with Store.open(copied(collected, tmp_path, "whole")) as store:
        await verify(study_of(store, books(6)))
        whole = digest(store)
    with Store.open(copied(collected, tmp_path)) as store:
        monkeypatch.setattr(FunctionEnvironment, "restore", out_of_order)
        verified = await verify(study_of(store, books(6)))
        assert {id.unit for id in verified.left_out} == {"collect/book-002"}
        monkeypatch.undo()
        assert retry_left_out(store) == len(verified.left_out)
        again = await verify(study_of(store, books(6)))
        assert not again.left_out
        assert digest(store) == whole
        assert retry_left_out(store) == 0


async def test_what_could_not_be_finished_is_told_and_finished_the_next_time(collected: Path, tmp_path: Path) -> None:
    class Moody(ShakyReader):
        async def reply(self, request: Request) -> Reply:
            if (request.decoding.seed or 0) % 11 == 0:
                raise Overloaded("busy")
            return await super().reply(request)

    with Store.open(copied(collected, tmp_path, "whole")) as store:
        await verify(study_of(store, books(6)))
        whole = digest(store)
    with Store.open(copied(collected, tmp_path)) as store:
        with pytest.raises(Unfinished) as stopped:
            await verify(study_of(store, books(6), models={"reader": Moody()}, concurrency=16))
        units = {unit.name for unit in stopped.value.units}
        assert all(name.startswith("continue/") for name in units)
        assert not units & store.finished("continuation")
        assert store.finished("continuation")  # the others are recorded
        assert {unit.failure.kind for unit in stopped.value.units} == {"overload"}
        assert store.metadata.verified is None
        await verify(study_of(store, books(6)))
        assert digest(store) == whole
        assert store.metadata.verified is not None
        assert store.metadata.verified["allocation"] == "halving"


async def test_the_forecast_asks_nobody_and_is_right_about_numbers(collected: Path, tmp_path: Path) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        study_of(store, books(6), models={"reader": Forbidden(), "noter": Forbidden()})
        n = len(boundary_rows(store))
        first = forecast_draws(store, allocation_of(store, VerifyConfig()))
        assert first.at_most is not None
        assert first.at_most.units == first.expected.units == rollouts(n)
        assert first.at_most.tokens > first.expected.tokens > 0
        await verify(study_of(store, books(6)))
        made = continuation_rows(store)
        assert len(made) == rollouts(n)
        used = sum(row.tokens for row in made)
        assert 0.5 * used < first.expected.tokens < 2 * used < 2 * first.at_most.tokens
        again = forecast_draws(store, allocation_of(store, VerifyConfig()))
        assert (again.done, again.expected.units) == (rollouts(n), 0)
        racing = forecast_draws(store, allocation_of(store, VerifyConfig(allocation="racing")))
        assert racing.at_most is not None
        assert racing.expected.units <= racing.at_most.units


async def test_tasks_that_are_not_collected_are_missed(collected: Path, tmp_path: Path) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        with pytest.raises(InputError, match="6 of 7 trajectories"):
            await verify(study_of(store, books(7)), Uniform(1))
        await verify(study_of(store, books(7)), Uniform(1), partial=True)
        assert len(continuation_rows(store)) == 2 * len(boundary_rows(store))


async def test_evidence_marks_divergence_and_repeated_work(collected: Path, tmp_path: Path) -> None:
    with Store.open(copied(collected, tmp_path)) as store:
        await verify(study_of(store, books(6)), Uniform(3))
        repeats = diverged = 0
        for row in boundary_rows(store):
            found = boundary_view(store, BoundaryId(row.unit, row.index))
            assert len(found.pairs) == 3
            for pair in found.pairs:
                assert pair.pre is not None
                assert pair.post is not None
                if (at := pair.divergence) is not None:
                    diverged += 1
                    assert pair.pre.actions[:at] == pair.post.actions[:at]
                    assert pair.pre.actions[at : at + 1] != pair.post.actions[at : at + 1]
                for made in (pair.pre, pair.post):
                    repeats += len(made.repeated)
                    assert all(made.actions[n] in found.boundary.actions for n in made.repeated)
            if row.index == 1:
                assert "word1x0" in found.dropped.literals
        assert repeats
        assert diverged


def test_boundaries_are_found_by_the_names_that_people_give(collected: Path) -> None:
    with Store.read(collected) as store:
        assert boundary_named(store, "book-000#2") == BoundaryId("collect/book-000", 2)
        assert boundary_named(store, "book-003") == BoundaryId("collect/book-003", 1)  # it has only one
        for missing in ("book-000#99", "book-000#x", "book-000"):
            with pytest.raises(InputError, match="book-000#1, book-000#2"):
                boundary_named(store, missing)
        with pytest.raises(InputError, match=r"'book-9#1'.* book-00"):
            boundary_named(store, "book-9#1")


def test_allocations_have_names(collected: Path) -> None:
    with Store.read(collected) as store:
        names = {"uniform:5": "uniform 5", "chained:racing": "chained racing", "chained": "chained halving"}
        for text, name in names.items():
            assert allocation_of(store, VerifyConfig(allocation=text)).name == name
        with pytest.raises(InputError, match="'halving'"):
            allocation_of(store, VerifyConfig(allocation="halve"))
        chained = allocation_of(store, VerifyConfig(allocation="chained"))
        nothing: Any = outcomes_in(store).outcomes
        free = chained.seen(nothing)
        assert sum(len(o.post) for o in free.values()) == 6  # the last boundary of each book


def test_every_boundary_is_found_by_its_own_name_and_by_no_other(collected: Path) -> None:
    with Store.read(collected) as store:
        ids = [BoundaryId(row.unit, row.index) for row in boundary_rows(store)]
        assert max(id.index for id in ids) > 1
        for id in ids:
            assert boundary_named(store, str(id)) == id
        beyond = BoundaryId(ids[0].unit, 1 + max(id.index for id in ids))
        for absent in (str(beyond), str(BoundaryId(ids[0].unit, 0))):
            with pytest.raises(InputError, match="has no boundary"):
                boundary_named(store, absent)
