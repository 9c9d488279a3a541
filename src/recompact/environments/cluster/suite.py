"""A suite whose environments live on a cluster. To a rollout they are episodes like any other."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import ceil
from typing import Any

from recompact.environments.cluster.actor import ActorLocation, RemoteSuite, VerbResult
from recompact.environments.cluster.connection import Connection, Node, missing
from recompact.environments.cluster.pool import Pool, PooledActor
from recompact.environments.cluster.settings import ClusterSettings, directory_there, runtime_env_of
from recompact.environments.host_process import HostSettings
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import (
    AsyncAsk,
    Behaviour,
    EnvironmentFailed,
    Episode,
    EpisodeLost,
    Literals,
    Observation,
    Opening,
    Task,
)
from recompact.environments.snapshots import REPLAY, log_of
from recompact.errors import InputError
from recompact.values.chat import Request, Usage
from recompact.values.texts import quantity
from recompact.values.trajectory import Action, Score, Snapshot

_GRACE = 60.0  # seconds beyond the kill timer of a verb, which runs on the node, before the actor is given up
_NODES = 4  # that progress names one by one


def open_cluster(hosted: HostedSuite, settings: ClusterSettings, *, own_python: bool, runs: str, most: int) -> Any:
    """The hosted suite with its hosts on a cluster: at most `most` of them, unless the settings say otherwise."""
    if problem := missing():
        raise InputError(problem)
    return ClusterSuite(hosted, settings, own_python=own_python, runs=runs, most=settings.hosts or most)


class ClusterSuite:
    """Tasks are listed on this machine, by a host as usual; episodes are played on the cluster."""

    def __init__(
        self,
        local: HostedSuite,
        settings: ClusterSettings,
        *,
        own_python: bool = False,
        runs: str = "runs",
        most: int = 16,
        connection: Connection | None = None,
    ) -> None:
        settings = replace(settings, per_actor=min(settings.per_actor, most))
        self.local = local
        self.settings = settings
        self.connection = connection or Connection(settings, runtime_env_of(settings, local.directory, runs))
        here = {each.name: getattr(local, each.name) for each in fields(HostSettings)}
        there = HostSettings(**here | {"directory": directory_there(settings, local.directory)})
        grader = local.grader.options if local.grader is not None else None
        self.hosted = RemoteSuite(there, own_python, grader)
        self.pool = Pool(
            lambda avoided: self.connection.start_actor(self.hosted, avoided=avoided),
            actors=ceil(most / settings.per_actor),
            places=settings.per_actor,
            placement=settings.placement,
            need=self.connection.free,
            nodes=self._living,
        )
        self.numbers = itertools.count(1)

    def _living(self) -> frozenset[str]:
        self.connection.open()
        return frozenset(node.id for node in self.connection.nodes())

    @property
    def name(self) -> str:
        return self.local.name

    async def tasks(self, split: str) -> Sequence[Task]:
        return await self.local.tasks(split)

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        return await self.local.behaviours(actions)

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        return await self.local.literals(texts)

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode:
        return ClusterEpisode(self, task, ask)

    def whereabouts(self) -> str:
        """How many hosts each node has now, and how many episodes had to begin again."""
        return describe_hosts(self.pool.hosts, self.pool.losses)

    async def survey(self, split: str) -> tuple[list[str], list[str]]:
        """What the cluster has, and on which of its nodes the suite cannot be used: notes and problems."""
        self.connection.open()
        nodes = self.connection.nodes()
        cpus, memory = sum(node.cpus for node in nodes), sum(node.memory for node in nodes)
        notes = [f"cluster: {quantity(len(nodes), 'node')}, {cpus:g} CPUs, {memory / 2**30:,.1f} GiB of memory"]
        expected = [task.id for task in await self.tasks(split)]
        problems: list[str] = []
        needed = self.settings.cpus * self.pool.places
        if not any(node.cpus >= needed for node in nodes):
            problems.append(f"[cluster] cpus: no node has the {needed:g} CPUs that an actor takes")
        for node in nodes:
            about = f"node {node.machine}: {node.cpus:g} CPUs"
            if node.cpus < needed:
                notes.append(f"{about}, which is no room for an environment")
                continue
            try:
                where = await self._try(node, split, expected)
                loads = f"the suite loads with its {quantity(len(expected), 'task')}"
                notes.append(f"{about}, {loads}; {where.protection}")
            except (InputError, EnvironmentFailed, EpisodeLost) as error:
                problems.append(f"[cluster] node {node.machine}: {error}")
        return notes, problems

    async def _try(self, node: Node, split: str, expected: Sequence[str]) -> ActorLocation:
        """Load the suite on a node. Raises if it does not load there, or has other tasks."""
        actor, where = await self.connection.start_actor(self.hosted, node.id)
        try:
            result: VerbResult = await actor.call("tasks", split)
        finally:
            actor.kill()
        if result.kind == "failed":
            raise EnvironmentFailed(result.value)
        if list(result.value) != list(expected):
            raise InputError(
                f"the suite has {quantity(len(result.value), 'task')} there, which are not the {len(expected)} here:"
                " is it the same version?"
            )
        return where

    async def aclose(self) -> None:
        """End every host on the cluster, and the cluster if it was started here."""
        try:
            await self.pool.close()
        finally:
            self.connection.close()


class ClusterEpisode:
    """One environment on a node. If the node goes, `EpisodeLost` is raised and its unit of work restarts elsewhere."""

    def __init__(self, suite: ClusterSuite, task: Task, ask: AsyncAsk | None) -> None:
        self._suite = suite
        self._task = task
        self._ask = ask
        self._number = next(suite.numbers)
        self._actor: PooledActor | None = None
        self.usage: Mapping[str, Usage] = {}
        self.changes: Counter[str] = Counter()

    async def start(self) -> Opening:
        if self._actor is None:
            self._actor = await self._suite.pool.take()
        opening: Opening = await self._call("start", self._task, self._ask is not None)
        return opening

    async def step(self, action: Action) -> Observation:
        observation: Observation = await self._call("do", "step", action)
        return observation

    async def score(self) -> Score:
        score: Score = await self._call("do", "score")
        return score

    async def snapshot(self) -> Snapshot:
        snapshot: Snapshot = await self._call("do", "snapshot")
        return snapshot

    async def restore(self, snapshot: Snapshot) -> None:
        verbs = 2 + (len(log_of(snapshot)) if snapshot.strategy == REPLAY else 0)
        data = self._suite.connection.send(snapshot.data)
        await self._call("restore", replace(snapshot, data=b""), data, verbs=verbs)

    async def close(self) -> None:
        actor, self._actor = self._actor, None
        if actor is None:
            return
        try:
            if not actor.lost:
                result: VerbResult = await actor.remote.call("close", self._number, patience=_GRACE)
                self.changes = Counter(result.changes) or self.changes
        except EpisodeLost:  # nothing depends on a closed environment; the next one finds out
            self._suite.pool.lose(actor)
        finally:
            self._suite.pool.give_back(actor)

    async def _call(self, method: str, *values: Any, verbs: int = 1) -> Any:
        """What a verb returns, once every question of the environment is answered."""
        if self._actor is None:
            raise EnvironmentFailed(f"suite {self._suite.name}, task {self._task.id}: it is not started")
        result = await self._invoke(method, *values, verbs=verbs)
        while result.kind == "question":
            result = await self._invoke("answer", *await self._answer(*result.value), verbs=verbs)
        self.usage, self.changes = result.usage, Counter(result.changes)
        if result.kind == "failed":
            raise EnvironmentFailed(result.value)
        if result.kind == "no host":
            self._suite.pool.note_no_host(self._actor, result.value)
            raise EpisodeLost(f"task {self._task.id} on {self._actor.where.machine}: {result.value}")
        self._suite.pool.note_host(self._actor)
        return result.value

    async def _answer(self, role: str, request: Request) -> tuple[Any, ...]:
        assert self._ask is not None
        try:
            return (await self._ask(role, request),)
        except InputError as error:  # a role that the config does not have is this environment's mistake
            return (None, str(error))

    async def _invoke(self, method: str, *values: Any, verbs: int) -> VerbResult:
        actor = self._actor
        assert actor is not None
        if actor.lost:
            self._suite.pool.losses += 1
            raise EpisodeLost(f"task {self._task.id}: its actor is gone")
        patience = verbs * self._suite.local.timeout + _GRACE
        try:
            result: VerbResult = await actor.remote.call(method, self._number, *values, patience=patience)
        except EpisodeLost as lost:
            self._suite.pool.losses += 1
            self._suite.pool.lose(actor)
            raise EpisodeLost(f"task {self._task.id} on {actor.where.machine}: {lost}") from None
        return result


def describe_hosts(hosts: Mapping[ActorLocation, int], losses: int = 0) -> str:
    """
    >>> a, b = (ActorLocation(f"{name}1", name, 1, "", "", "") for name in "ab")
    >>> describe_hosts({a: 3, b: 2}), describe_hosts({a: 1}, losses=2)
    ('hosts: a 3, b 2', 'hosts: a 1; 2 episodes were begun again elsewhere')
    """
    machines = Counter(where.machine for where in hosts)
    names = {
        where: where.machine if machines[where.machine] == 1 else f"{where.machine}/{where.node[:4]}" for where in hosts
    }
    if len(hosts) > _NODES:
        counts = hosts.values()
        text = f"hosts: {sum(counts)} on {len(hosts)} nodes, {min(counts)} to {max(counts)} each"
    else:
        text = f"hosts: {', '.join(f'{names[where]} {count}' for where, count in hosts.items())}" if hosts else ""
    if losses:
        more = f"{quantity(losses, 'episode')} {'was' if losses == 1 else 'were'} begun again elsewhere"
        text = f"{text}; {more}" if text else more
    return text
