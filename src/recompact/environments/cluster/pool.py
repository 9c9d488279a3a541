"""The actors of a run: started when an environment waits for a place, kept for the next one, forgotten when they die.

A waiting environment takes the first place that is free, so a slow node takes fewer of them and holds up no other.
There are never more environments than places, and each has one call under way, which bounds the driver's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recompact.environments.cluster.actor import ActorLocation
from recompact.environments.cluster.connection import RayActor
from recompact.environments.cluster.settings import Placement
from recompact.environments.protocol import EpisodeLost
from recompact.errors import InputError, RecompactError

_log = logging.getLogger(__name__)

_TRIES = 5  # times in a row that actors fail to start on living nodes, or hosts in them, before we give up
_MOST_TRIES = 15  # for hosts where there are more nodes, any of which may be the one that works
_PAUSE = 1.0  # seconds between two tries, in which the cluster learns that a node has died
_REST = 60.0  # seconds without new actors on a node where a host did not come up, while others have hosts
_WARNING = 30.0  # seconds for an actor to start before a warning is logged
_FAREWELL = 10.0  # seconds for an actor to end its hosts


@dataclass
class PooledActor:
    """A living actor, as the driver knows it."""

    id: int
    remote: RayActor
    where: ActorLocation
    places: int
    used: int = 0
    lost: bool = False
    began: int = 0  # how often in a row hosts had not come up when it was started
    avoided: bool = False  # a host did not come up in it: it is let go when it is empty

    @property
    def free(self) -> bool:
        return not self.avoided and self.used < self.places


def choose(actors: Sequence[PooledActor], placement: Placement = "spread") -> PooledActor | None:
    """The actor in which the next environment is to live, or None if all places are taken."""
    load = Counter[str]()
    for each in actors:
        load[each.where.node] += each.used
    sign = 1 if placement == "spread" else -1
    free = [each for each in actors if each.free]
    return min(free, key=lambda each: (sign * load[each.where.node], sign * each.used, each.id), default=None)


@dataclass
class Pool:
    """`start` asks the cluster for one more actor, away from the given nodes; `actors` is how many there may be."""

    start: Callable[[frozenset[str]], Awaitable[tuple[RayActor, ActorLocation]]]
    actors: int
    places: int = 1
    placement: Placement = "spread"
    need: Callable[[], str] = lambda: ""  # what one actor needs and what the cluster has, in words
    nodes: Callable[[], frozenset[str]] = frozenset  # the living ones
    losses: int = 0  # episodes that begin again: lost with their actors, or their hosts did not come up
    _actors: dict[int, PooledActor] = field(default_factory=dict)
    _waiting: list[asyncio.Future[PooledActor]] = field(default_factory=list)
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _failures: int = 0
    _no_hosts: int = 0  # times in a row that hosts did not come up
    _hostless: dict[str, float] = field(default_factory=dict)  # nodes on which they did not, and when
    _proven: set[str] = field(default_factory=set)  # nodes on which one did
    _warned: bool = False
    _closed: bool = False

    @property
    def hosts(self) -> Mapping[ActorLocation, int]:
        """Environments by node."""
        hosts: Counter[str] = Counter()
        where = {actor.where.node: actor.where for actor in self._actors.values()}
        for actor in self._actors.values():
            hosts[actor.where.node] += actor.used
        return {where[node]: count for node, count in hosts.items()}

    async def take(self) -> PooledActor:
        """A place, once there is one."""
        place: asyncio.Future[PooledActor] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._serve()
        self._grow()
        try:
            return await place
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            elif place.done() and not place.cancelled() and place.exception() is None:
                self.give_back(place.result())
            raise

    def give_back(self, actor: PooledActor) -> None:
        actor.used -= 1
        if actor.avoided and not actor.used:
            self.lose(actor)
        self._serve()

    def note_host(self, actor: PooledActor) -> None:
        """A host lives in this actor."""
        self._no_hosts = 0
        self._proven.add(actor.where.node)
        self._hostless.pop(actor.where.node, None)

    def note_no_host(self, actor: PooledActor, reason: str) -> None:
        """A host did not come up in this actor. Its environment begins elsewhere and no other goes there, or a node
        that cannot have hosts would be the first to be free again, and break one environment after another."""
        self.losses += 1
        actor.avoided = True
        self._hostless[actor.where.node] = asyncio.get_running_loop().time()
        if actor.began == self._no_hosts:  # those that fail together do so once
            self._no_hosts += 1
        hoped_for = {each.where.node for each in self._actors.values() if each.used and not each.avoided}
        enough = max(_TRIES, min(len(self.nodes()), _MOST_TRIES))
        if self._no_hosts >= enough and hoped_for <= self._hostless.keys():
            raise InputError(f"no host comes up on the cluster, {self._no_hosts} times in a row: {reason}")

    def lose(self, actor: PooledActor) -> None:
        """An actor is gone, or as good as gone. Idle ones on its node are let go as well: most likely they are gone
        too, and the next environments would find that out one by one."""
        if actor.lost:
            return
        node = [each for each in self._actors.values() if each.where.node == actor.where.node]
        for each in (actor, *(each for each in node if not each.used and each is not actor)):
            each.lost = True
            self._actors.pop(each.id, None)
            each.remote.kill()
        self._grow()

    def _serve(self) -> None:
        while self._waiting:
            if self._waiting[0].done():  # nobody waits for it any more
                self._waiting.pop(0)
                continue
            if (actor := choose(list(self._actors.values()), self.placement)) is None:
                return
            actor.used += 1
            self._waiting.pop(0).set_result(actor)

    def _grow(self) -> None:
        """Ask for as many actors as those waiting need."""
        while not self._closed and (
            len(self._starting) * self.places < len(self._waiting)
            and len(self._actors) + len(self._starting) < self.actors
        ):
            task = asyncio.create_task(self._add())
            self._starting.add(task)
            task.add_done_callback(self._note_start)

    def _note_start(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._refuse(error)
        self._serve()
        self._grow()

    async def _add(self) -> None:
        # Before the next try, other nodes may show that hosts come up there.
        await asyncio.sleep(_PAUSE * min(self._no_hosts, _TRIES))
        nodes, failures = self.nodes(), self._failures
        patience = asyncio.get_running_loop().call_later(_WARNING, self._warn)
        try:
            remote, where = await self.start(self._nodes_to_avoid(nodes))
        except (EpisodeLost, OSError) as error:
            await asyncio.sleep(_PAUSE)
            if nodes <= self.nodes() and failures == self._failures:  # actors that fail together do so once
                self._failures += 1
                if self._failures >= _TRIES:
                    raise InputError(
                        f"no actor could be started on the cluster, {self._failures} times: {error}"
                    ) from None
            return  # another node may do
        finally:
            patience.cancel()
        self._failures = 0
        actor = PooledActor(next(self._numbers), remote, where, self.places, began=self._no_hosts)
        self._actors[actor.id] = actor

    def _nodes_to_avoid(self, living: frozenset[str]) -> frozenset[str]:
        """Nodes on which no actor is to start now. None, unless another one is known to work."""
        now = asyncio.get_running_loop().time()
        resting = {node for node, when in self._hostless.items() if now < when + _REST}
        return frozenset(resting & living) if (self._proven & living) - resting else frozenset()

    def _warn(self) -> None:
        if not self._actors and not self._warned:
            self._warned = True
            _log.warning("no environment has a place on the cluster yet: %s", self.need())

    def _refuse(self, error: BaseException) -> None:
        """What kept an actor from starting would stop the others too: whoever waits is told."""
        waiting, self._waiting = self._waiting, []
        reason = error if isinstance(error, RecompactError) else InputError(f"{type(error).__name__}: {error}")
        for each in waiting:
            if not each.done():
                each.set_exception(reason)

    async def close(self) -> None:
        """End every actor with its hosts."""
        self._closed = True
        starting = list(self._starting)
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        actors, self._actors = list(self._actors.values()), {}
        await asyncio.gather(*(self._end(actor) for actor in actors))

    async def _end(self, actor: PooledActor) -> None:
        with contextlib.suppress(EpisodeLost):
            await actor.remote.call("end", patience=_FAREWELL)
        actor.remote.kill()
