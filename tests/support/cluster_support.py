"""Clusters for tests: one without Ray, whose actors are objects of this process, and one of Ray's with several nodes.

The nodes of both can be killed while they are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from recompact.environments.cluster.actor import ActorLocation, HostActor, RemoteSuite
from recompact.environments.cluster.connection import VARIABLES, Node
from recompact.environments.process_tree import children_of, kill_all
from recompact.environments.protocol import EpisodeLost

os.environ |= VARIABLES | {"RAY_raylet_start_wait_time_s": "40"}  # before Ray is imported

NODES = 3
TRIES = 8
STORE = 80_000_000  # bytes of the object store of a node, which is about the least that Ray takes


class NearActor:
    """An actor that is an object. Once its node is dead, whoever waits for it learns so."""

    def __init__(self, hosted: RemoteSuite, node: str) -> None:
        self.node = node
        self.calls: Counter[str] = Counter()
        self._actor = HostActor(hosted, node)
        self._dead = asyncio.Event()
        self._ending: list[asyncio.Task[None]] = []

    async def call(self, method: str, *values: Any, patience: float | None = None) -> Any:
        self.calls[method] += 1
        work = asyncio.ensure_future(getattr(self._actor, method)(*values))
        death = asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait({work, death}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if self._dead.is_set() or not work.done():
                raise EpisodeLost(f"node {self.node} is gone")
            return work.result()
        finally:
            death.cancel()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    @property
    def dead(self) -> bool:
        return self._dead.is_set()

    def kill(self) -> None:
        if not self._dead.is_set():
            self._dead.set()
            self._ending.append(asyncio.ensure_future(self._actor.end()))


class NearCluster:
    """Has so many nodes with room for so many actors each. There is no Ray in it."""

    def __init__(self, nodes: Sequence[str] = ("a", "b", "c"), room: int = 4) -> None:
        self.names = list(nodes)
        self.actors: list[NearActor] = []
        self.sent: list[bytes] = []
        self.refusals: list[Exception] = []  # what the next starts raise
        self.sick: set[str] = set()  # nodes on which no host comes up
        self.started = 0
        self._room = room

    def open(self) -> None: ...

    async def start_actor(
        self, hosted: RemoteSuite, node: str | None = None, avoided: frozenset[str] = frozenset()
    ) -> tuple[NearActor, ActorLocation]:
        if self.refusals:
            raise self.refusals.pop(0)
        while (name := node or self._emptiest(avoided)) is None:
            await asyncio.sleep(0.01)
        self.started += 1
        if name in self.sick:
            hosted = replace(hosted, settings=replace(hosted.settings, python="/no/such/python"), own_python=True)
        actor = NearActor(hosted, name)
        self.actors.append(actor)
        return actor, replace(await actor.call("ready"), node=name, machine=name)

    def _emptiest(self, avoided: frozenset[str]) -> str | None:
        load = Counter({name: 0 for name in self.names if name not in avoided})
        load.update(actor.node for actor in self.actors if actor.node in load and not actor.dead)
        name, count = min(load.items(), key=lambda item: item[1], default=("", self._room))
        return name if count < self._room else None

    def kill_node(self, name: str) -> None:
        """Its actors die, and another node takes its place."""
        dying = [actor for actor in self.actors if actor.node == name]
        self.actors = [actor for actor in self.actors if actor not in dying]
        self.names[self.names.index(name)] = f"{name}'"
        for actor in dying:
            actor.kill()

    def send(self, data: bytes) -> bytes:
        self.sent.append(data)
        return data

    def nodes(self) -> list[Node]:
        return [Node(name, name, 4.0, 2.0**30) for name in self.names]

    def free(self) -> str:
        return "there is no room"

    def close(self) -> None: ...


def patiently(start: Callable[[], Any]) -> Any:
    """On a busy machine Ray gives up a node that takes too long to start: then another one is tried."""
    for _ in range(TRIES - 1):
        before = children_of(os.getpid())
        try:
            return start()
        except Exception:
            kill_all([pid for pid in children_of(os.getpid()) if pid not in before])
    return start()


class RayNodes:
    """The nodes of a `ray.cluster_utils.Cluster`. The head has no CPUs, so that no environment lives there."""

    def __init__(self, cluster: Any, cpus: int) -> None:
        self._cluster = cluster
        self._cpus = cpus
        self._thread = ThreadPoolExecutor(1)  # nodes end with the thread that started them
        self.workers = [self._add() for _ in range(NODES)]
        cluster._shutdown_at_exit = False  # later ones come without handlers of signals: only the main thread has those

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def _add(self, **variables: str) -> Any:
        return patiently(
            lambda: self._cluster.add_node(
                num_cpus=self._cpus, object_store_memory=STORE, wait=False, env_vars=variables or None
            )
        )

    async def kill(self, number: int, **variables: str) -> None:
        """End a node as a power cut does, and put another in its place, while everything else goes on."""
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._replace(number, **variables))

    def _replace(self, number: int, **variables: str) -> None:
        self._cluster.remove_node(self.workers[number], allow_graceful=False)
        self.workers[number] = self._add(**variables)


@contextlib.contextmanager
def cluster_of_nodes(cpus: int = 4) -> Iterator[RayNodes]:
    ray = importlib.import_module("ray")
    utilities = importlib.import_module("ray.cluster_utils")
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = patiently(lambda: utilities.Cluster(initialize_head=True, head_node_args=head))
    try:
        nodes = RayNodes(cluster, cpus)
        cluster.wait_for_nodes(timeout=180)
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
