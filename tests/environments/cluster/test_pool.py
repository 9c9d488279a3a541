"""The actors of a run: how many there are, who gets a place, and what happens when one dies or none can be started."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.environments.cluster import pool as pools
from recompact.environments.cluster.actor import ActorLocation
from recompact.environments.cluster.pool import Pool, PooledActor
from recompact.environments.protocol import EpisodeLost
from recompact.errors import InputError


class Puppet:
    """An actor that does nothing."""

    def __init__(self) -> None:
        self.ended = self.killed = 0

    async def call(self, method: str, *values: Any, patience: float | None = None) -> Any:
        assert method == "end"
        self.ended += 1

    def kill(self) -> None:
        self.killed += 1


class Stage:
    """Starts puppets on nodes in turn; `refusals` are what the next starts raise."""

    def __init__(self, *refusals: Exception) -> None:
        self.puppets: list[Puppet] = []
        self.refusals = list(refusals)
        self.pending = 0

    async def start(self, avoided: frozenset[str] = frozenset()) -> tuple[Any, ActorLocation]:
        self.avoided = avoided
        self.pending += 1
        await asyncio.sleep(0)
        self.pending -= 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.puppets.append(Puppet())
        node = "abc"[len(self.puppets) % 3]
        return self.puppets[-1], ActorLocation(node, node, 0, "", "", "")


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 30), st.lists(st.integers(0, 3), min_size=30, max_size=30))
@examples(50)
def test_there_are_never_more_environments_than_places(
    actors: int, places: int, episodes: int, durations: Sequence[int]
) -> None:
    async def main() -> None:
        stage = Stage()
        pool = Pool(stage.start, actors, places)
        running: Counter[int] = Counter()

        async def play(duration: int) -> None:
            actor = await pool.take()
            running[actor.id] += 1
            assert running[actor.id] <= places
            assert running.total() <= actors * places
            for _ in range(duration):
                await asyncio.sleep(0)
            running[actor.id] -= 1
            pool.give_back(actor)

        await asyncio.gather(*(play(duration) for duration in durations[:episodes]))
        assert len(stage.puppets) <= min(actors, episodes)  # they are used again
        await pool.close()
        assert all(puppet.ended == 1 and puppet.killed for puppet in stage.puppets)

    asyncio.run(main())


async def test_who_waits_first_is_served_first_and_a_slow_actor_holds_up_nobody() -> None:
    pool = Pool(Stage().start, actors=2)
    slow, quick = await pool.take(), await pool.take()
    order: list[int] = []

    async def play(number: int) -> None:
        actor = await pool.take()
        order.append(number)
        assert actor.id == quick.id
        await asyncio.sleep(0)
        pool.give_back(actor)

    waiting = [asyncio.create_task(play(number)) for number in range(10)]
    await asyncio.sleep(0)
    pool.give_back(quick)
    await asyncio.gather(*waiting)
    assert order == list(range(10))
    pool.give_back(slow)


async def test_an_actor_that_dies_is_replaced_for_those_who_wait() -> None:
    stage = Stage()
    pool = Pool(stage.start, actors=1)
    dying = await pool.take()
    waiting = [asyncio.create_task(pool.take()) for _ in range(2)]
    await asyncio.sleep(0)
    pool.lose(dying)
    pool.give_back(dying)
    first = await asyncio.wait_for(waiting[0], 60)
    assert first.id != dying.id
    assert stage.puppets[0].killed
    pool.give_back(first)
    assert (await asyncio.wait_for(waiting[1], 60)).id == first.id


async def test_with_an_actor_the_idle_ones_of_its_node_are_let_go() -> None:
    """Or an environment would meet one dead actor after another."""
    stage = Stage()
    pool = Pool(stage.start, actors=6)
    actors = [await pool.take() for _ in range(6)]  # two on each node
    busy, idle = (each for each in actors if each.where.node == "b")
    others = [each for each in actors if each.where.node != "b"]
    pool.give_back(idle)
    pool.lose(busy)
    assert (busy.lost, idle.lost) == (True, True)
    assert not any(each.lost for each in others)
    pool.give_back(busy)
    assert (await pool.take()).id not in (busy.id, idle.id)


async def test_nodes_that_die_while_an_actor_starts_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0.0)
    pool = Pool(Stage(EpisodeLost("gone"), EpisodeLost("gone")).start, actors=2)
    assert isinstance(await asyncio.wait_for(pool.take(), 60), PooledActor)
    hopeless = Pool(Stage(*(EpisodeLost("gone") for _ in range(20))).start, actors=1)
    with pytest.raises(InputError, match="5 times: gone"):
        await asyncio.wait_for(hopeless.take(), 60)


async def test_nodes_that_go_on_dying_are_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0.0)
    stage = Stage(*(EpisodeLost("its node has died") for _ in range(40)))
    pool = Pool(stage.start, actors=6, nodes=lambda: frozenset({f"node {len(stage.refusals)}"}))
    actors = await asyncio.wait_for(asyncio.gather(*(pool.take() for _ in range(6))), 60)
    assert len({actor.id for actor in actors}) == 6
    assert not stage.refusals


async def test_actors_that_fail_together_have_failed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0.0)
    pool = Pool(Stage(*(EpisodeLost("gone") for _ in range(6 * 4))).start, actors=6)
    actors = await asyncio.wait_for(asyncio.gather(*(pool.take() for _ in range(6))), 60)
    assert len({actor.id for actor in actors}) == 6


async def test_what_would_keep_every_actor_from_starting_is_told_to_all_who_wait() -> None:
    pool = Pool(Stage(*(InputError("no such package") for _ in range(9))).start, actors=3)
    answers = await asyncio.gather(*(pool.take() for _ in range(5)), return_exceptions=True)
    assert {str(answer) for answer in answers} == {"no such package"}


async def test_who_stops_waiting_loses_no_place() -> None:
    pool = Pool(Stage().start, actors=1)
    only = await pool.take()
    quitter, patient = asyncio.create_task(pool.take()), asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    quitter.cancel()
    pool.give_back(only)
    await asyncio.gather(quitter, return_exceptions=True)
    assert (await asyncio.wait_for(patient, 60)).id == only.id
    late = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    pool.give_back(only)  # it has its place now, and is stopped before it learns so
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    assert (await asyncio.wait_for(pool.take(), 60)).used == 1
    await pool.close()


async def test_a_cluster_without_room_is_waited_for_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pools, "_WARNING", 0.01)
    room = asyncio.Event()
    stage = Stage()

    async def start(avoided: frozenset[str]) -> tuple[Any, ActorLocation]:
        await room.wait()
        return await stage.start()

    pool = Pool(start, actors=3, need=lambda: "one actor takes 2 of 0 free CPUs")
    waiting = [asyncio.create_task(pool.take()) for _ in range(3)]
    await asyncio.sleep(0.1)
    assert [numbers_in(record.getMessage()) for record in caplog.records] == [["2", "0"]]
    room.set()
    assert len({actor.id for actor in await asyncio.gather(*waiting)}) == 3


async def test_no_environment_goes_to_an_actor_in_which_a_host_did_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0)
    stage = Stage()
    pool = Pool(stage.start, actors=2, places=2)
    first = await pool.take()
    neighbour = await pool.take()
    assert neighbour is first  # one actor has room for both
    pool.note_no_host(first, "no python")
    third = await pool.take()
    assert third is not first
    assert pool.losses == 1
    pool.give_back(first)
    kills = [stage.puppets[0].killed]  # its neighbour goes on there
    pool.give_back(neighbour)
    assert [*kills, stage.puppets[0].killed] == [0, 1]
    pool.give_back(third)
    await pool.close()


async def test_a_cluster_on_which_no_host_comes_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0)
    pool = Pool(Stage().start, actors=3)
    for _ in range(pools._TRIES - 1):
        actors = [await pool.take() for _ in range(3)]
        for actor in actors:  # those that fail together have failed once
            pool.note_no_host(actor, "no python")
            pool.give_back(actor)
    with pytest.raises(InputError, match=r"5 times .*no python"):
        pool.note_no_host(await pool.take(), "no python")
    await pool.close()


async def test_a_node_of_which_nothing_is_known_yet_is_reason_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0)
    pool = Pool(Stage().start, actors=2)
    waiting = await pool.take()
    fails = 0
    while fails < 3 * pools._TRIES:
        actor = await pool.take()
        if actor.where.node != waiting.where.node:
            pool.note_no_host(actor, "no python")
            fails += 1
        else:
            pool.lose(actor)
        pool.give_back(actor)
    with pytest.raises(InputError, match="no python"):
        pool.note_no_host(waiting, "no python")
    await pool.close()


async def test_one_host_that_comes_up_is_reason_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0)
    pool = Pool(Stage().start, actors=1)
    for _ in range(3 * pools._TRIES):
        actor = await pool.take()
        pool.note_no_host(actor, "no python")
        pool.give_back(actor)
        pool.note_host(actor)
    await pool.close()


async def test_actors_keep_away_from_a_node_without_hosts_while_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0)
    stage = Stage()
    pool = Pool(stage.start, actors=9, nodes=lambda: frozenset("abc"))
    sick = await pool.take()
    pool.note_no_host(sick, "no python")
    other = await pool.take()
    assert stage.avoided == frozenset()  # none is known to do
    pool.note_host(other)
    await pool.take()
    assert stage.avoided == {sick.where.node}
    monkeypatch.setattr(pools, "_REST", 0.0)
    await pool.take()
    assert stage.avoided == frozenset()  # it may have recovered
    monkeypatch.setattr(pools, "_REST", 60.0)
    pool.note_host(sick)
    await pool.take()
    assert stage.avoided == frozenset()
    pool.note_no_host(sick, "no python")
    pool.nodes = lambda: frozenset({sick.where.node})
    await pool.take()
    assert stage.avoided == frozenset()  # the others have died
    await pool.close()


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 12), st.sets(st.sampled_from("abcdefg")), st.integers(1, 7))
@examples(60)
def test_one_node_with_hosts_is_enough_and_without_any_nothing_hangs(
    actors: int, places: int, episodes: int, sick: set[str], size: int
) -> None:
    names = "abcdefg"[:size]
    living: Counter[str] = Counter()

    async def start(avoided: frozenset[str]) -> tuple[Any, ActorLocation]:
        await asyncio.sleep(0)
        node = min((name for name in names if name not in avoided), key=lambda name: living[name])
        living[node] += 1  # as Ray does, which spreads actors
        return Puppet(), ActorLocation(node, node, 0, "", "", "")

    async def episode(pool: Pool) -> bool:
        for _ in range(10):
            actor = await pool.take()
            try:
                await asyncio.sleep(0)
                if actor.where.node not in sick:
                    pool.note_host(actor)
                    await asyncio.sleep(0)
                    return True
                pool.note_no_host(actor, "no python")
            finally:
                pool.give_back(actor)
        return False

    async def main() -> None:
        pool = Pool(start, actors, places, nodes=lambda: frozenset(names))
        outcomes = await asyncio.wait_for(
            asyncio.gather(*(episode(pool) for _ in range(episodes)), return_exceptions=True), 20
        )
        await pool.close()
        if set(names) <= sick:
            assert all(result is False or isinstance(result, InputError) for result in outcomes)
        else:
            assert outcomes == [True] * episodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "_PAUSE", 0)
        asyncio.run(main())
