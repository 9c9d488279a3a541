"""Whose turn it is: nothing is lost, no place stays empty, and a prompt cache has more of what is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from examples import examples
from execution_support import HERE
from hypothesis import given, strategies as st

from recompact.attribution.agenda import DrawAgenda, Key, Turns, draws_at_once, standings
from recompact.attribution.allocation import Allocation
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import places
from recompact.engine.config_parser import parse_config
from recompact.engine.execution.scheduler import Unit, run_agenda
from recompact.engine.store.calls import Pace
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.journal import JournaledReply, UnitCalls
from recompact.values.chat import Reply, assistant
from recompact.values.context import Context
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes
from recompact.values.trajectory import Score, Trajectory

PRESSING = st.integers(0, 2)
CONTEXT = st.integers(0, 5)


@given(
    st.none() | st.integers(1, 6),
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "pop", "end", "answer"]), PRESSING, st.integers(-3, 3), CONTEXT),
        max_size=80,
    ),
)
@examples(200)
def test_what_is_next_has_the_smallest_turn_of_all_that_waits_and_nothing_is_lost(
    slots: int | None, events: list[tuple[str, int, int, int]]
) -> None:
    turns: Turns[tuple[Key, int]] = Turns(slots)
    waiting: list[tuple[Key, int]] = []
    running: list[int] = []
    idle: list[int] = []
    answered: set[int] = set()
    added = popped = 0
    for number, (event, pressing, length, context) in enumerate(events):
        if event == "add":
            place = (pressing, length, number)
            waiting.append((place, context))
            turns.add(place, context, (place, context))
            added += 1
        elif event == "pop" and waiting:
            special, others = standings(slots, Counter(running), idle, set(running) - answered)
            expected = min(waiting, key=lambda w: (w[0][0], special.get(w[1], others), w[0][1:]))
            assert turns.pop() == expected
            turns.begin(expected[1])
            waiting.remove(expected)
            running.append(expected[1])
            idle = [c for c in idle if c != expected[1]]
            popped += 1
        elif event == "answer" and context in running:
            turns.answer(context)
            answered.add(context)
        elif event == "end" and running:
            ended = running.pop(length % len(running))
            turns.end(ended)
            if ended not in running:
                idle = [*idle, ended]
        assert len(turns) == len(waiting) == added - popped
    rest = [turns.pop() for _ in range(len(turns))]
    assert sorted(rest) == sorted(waiting)


def test_where_many_prompts_are_kept_only_what_is_being_read_waits() -> None:
    special, others = standings(None, {"read": 1, "reading": 2}, ["before"], {"reading"})
    assert special == {"reading": (1, 0)}
    assert others < special["reading"]


def test_with_slots_a_place_goes_on_with_its_context() -> None:
    special, others = standings(3, {"a": 1}, ["long ago", "before", "just now"], {"a"})
    assert list(special) == ["just now", "before", "a"]  # one slot is taken, two have what was there last
    assert special["just now"] < special["before"] < others < special["a"]
    special, others = standings(2, {"a": 1, "b": 2}, ["just now"], set())
    assert list(special) == ["a", "b"]
    assert special["a"] == special["b"] < others  # no slot is left for another context


def boundaries(count: int) -> dict[BoundaryId, Outcomes]:
    return {BoundaryId(f"collect/task-{n:04d}", 1): Outcomes() for n in range(count)}


def outcome(draw: Draw) -> Outcome:
    chance = Random(str(draw))
    return Outcome(float(chance.random() < 0.7), chance.randint(1, 9))


async def played(
    allocation: Allocation, count: int, concurrency: int, slots: int | None, seed: int
) -> tuple[list[Draw], dict[BoundaryId, Outcomes], list[int]]:
    """The draws in the order in which they began, what came out, and how many of those that were due waited each time a
    place stayed empty."""
    started: list[Draw] = []
    chance = Random(seed)
    empty: list[int] = []

    def unit(draw: Draw) -> Unit[Outcome]:
        async def play(unit_calls: UnitCalls) -> Outcome:
            started.append(draw)
            for _ in range(chance.randint(1, 7)):
                await asyncio.sleep(0)
                agenda.answered(draw)
            return outcome(draw)

        return Unit(str(draw), play, lambda value, seconds: None)

    class Watched(DrawAgenda[Outcome]):
        def next(self, running: int) -> Unit[Outcome] | None:
            found = super().next(running)
            if found is None:
                begun = {*started, *self._draws.values()}
                empty.append(sum(draw not in begun for draw in self.allocation.due(self.outcomes)))
            return found

    agenda = Watched(
        allocation,
        boundaries(count),
        unit,
        lambda draw, value: value,
        concurrency,
        order=lambda boundary, first, outcomes: (first, -len(str(boundary))),
        slots=slots,
    )
    await run_agenda(agenda, HERE, concurrency)
    return started, agenda.outcomes, empty


@given(
    st.sampled_from([Uniform(1), Uniform(3), Halving(), Racing()]),
    st.integers(0, 12),
    st.sampled_from([1, 2, 5, 64]),
    st.sampled_from([None, 1, 2, 100]),
    st.integers(0, 99),
)
@examples(60)
def test_every_draw_is_made_once_no_place_stays_empty_and_the_result_is_the_same(
    allocation: Allocation, count: int, concurrency: int, slots: int | None, seed: int
) -> None:
    started, outcomes, empty = asyncio.run(played(allocation, count, concurrency, slots, seed))
    assert not [draw for draw, times in Counter(started).items() if times > 1]
    assert sum(len(own.pre) + len(own.post) for own in outcomes.values()) == len(started)
    assert not any(empty)
    _, one_by_one, _ = asyncio.run(played(allocation, count, 1, 1, 0))
    assert outcomes == one_by_one
    assert allocation.retained(outcomes) == allocation.retained(one_by_one)


async def test_the_order_is_the_same_every_time() -> None:
    first, second = [await played(Uniform(3), 12, 5, None, seed=3) for _ in range(2)]
    assert first == second


def contexts(started: list[Draw]) -> list[tuple[Any, ...]]:
    return [(draw.boundary, draw.arm) for draw in started]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
async def test_a_place_goes_on_with_its_context_and_each_is_begun_by_one_draw(concurrency: int) -> None:
    started, _, _ = await played(Uniform(3), 12, concurrency, concurrency, seed=1)
    assert len(set(contexts(started[:concurrency]))) == concurrency
    # As many contexts are under way at a time as there are places: none is left and taken up again later.
    begun_at: dict[tuple[Any, ...], list[int]] = {}
    for n, context in enumerate(contexts(started)):
        begun_at.setdefault(context, []).append(n)
    waits = [later - earlier for numbers in begun_at.values() for earlier, later in pairwise(numbers)]
    assert max(waits) <= 3 * concurrency


async def test_where_many_prompts_are_kept_a_context_is_begun_by_one_draw() -> None:
    started, _, _ = await played(Uniform(3), 12, 8, None, seed=1)
    assert len(set(contexts(started[:8]))) == 8


async def test_more_draws_than_there_are_slots_share_their_contexts() -> None:
    started, _, _ = await played(Uniform(3), 12, 6, 2, seed=1)
    assert len(set(contexts(started[:6]))) == 2
    started, _, _ = await played(Uniform(3), 12, 6, 6, seed=1)
    assert len(set(contexts(started[:6]))) == 6


@given(st.integers(1, 64), st.integers(1, 64), st.floats(0, 100), st.floats(0, 100))
def test_as_many_draws_at_once_as_keep_the_server_busy(concurrency: int, calls: int, call: float, pause: float) -> None:
    at_once = draws_at_once(concurrency, calls, Pace(call, pause))
    assert min(calls, concurrency) <= at_once <= concurrency
    if calls >= concurrency or not call:
        assert at_once == concurrency


@pytest.mark.parametrize(("call", "pause"), [(5.0, 0.01), (5.0, 1.0), (5.0, 5.0), (1.0, 10.0)])
@pytest.mark.parametrize("calls", [1, 2, 4])
def test_calls_that_had_to_wait_are_not_taken_for_slow_ones(calls: int, call: float, pause: float) -> None:
    """Sixteen at once make calls wait for a place; what is measured then leads to the number without the wait."""
    waiting = max(call, 16 * call / calls - pause)
    assert draws_at_once(16, calls, Pace(waiting, pause)) == min(16, int(calls * (1 + pause / call) + 0.5))


@pytest.mark.parametrize(
    ("address", "calls", "expected"),
    [("http://127.0.0.1:9/v1", 1, 1), ("http://127.0.0.1:9/v1", 16, 8), ("https://models.example/v1", 1, 8)],
)
def test_a_server_on_this_machine_gets_no_more_draws_than_keep_it_busy(
    tmp_path: Path, address: str, calls: int, expected: int
) -> None:
    models = f'[models.m]\nid = "m"\nbase_url = "{address}"\nconcurrency = {calls}\n'
    config = parse_config(f'{models}[agent]\nmodel = "m"\n[run]\nconcurrency = 8\n', tmp_path / "c.toml")
    with Store.open(tmp_path / "run.db") as store:
        study: Any = SimpleNamespace(config=config, store=store)
        study.agent_slots = Study.agent_slots.fget(study)  # type: ignore[attr-defined]
        assert places(study) == 8  # nothing is known of its pace
        trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
        write_trajectory(store, "collect/t", trajectory, phase="collect", run=0, groups={}, seconds=1.0)
        store.journal(JournaledReply("collect/t", 0, "agent", "m", "00" * 32, Reply(assistant("yes")), 0.99))
        assert places(study) == expected
