"""What a step, a start and an agent cost where environments live on a Ray cluster, and where that saturates.

    pip install -e '.[ray]'
    python benchmarks/cluster.py                  # starts a cluster of three nodes on this machine
    python benchmarks/cluster.py --address auto   # uses one that runs
    python benchmarks/cluster.py --json

The first table has a step of an environment that does nothing, on the cluster, beside a bare call of a Ray actor with
values of the same size and a step in a host of this machine; the three take turns, so that other work on the machine
affects all of them. Expected: on the cluster at most 1.3 times the bare call.

Then hosts started per second, and agents at once with an instant model: steps per second and how much of a core the
driver uses. From these come the parameters of a model on paper, `throughput`, which is checked against measurements
that it was not fitted to and says where 1, 10 and 100 nodes saturate.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine import InstantModel
from recompact.engine.execution.scheduler import InProcess, Unit, run_units
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.cluster.connection import VARIABLES
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.cluster.suite import ClusterSuite
from recompact.environments.hosted import HostedSuite
from recompact.environments.process_tree import descendants
from recompact.environments.protocol import Episode, Episodes, Opening
from recompact.models.journal import UnitCalls
from recompact.values.tokens import counter
from recompact.values.trajectory import Action, Trajectory
from waiting_suite import OBSERVATION, TASK

GOAL = 1.3
NODES = 3
CPUS = 8  # logical ones of each node
STORE = 80_000_000
COSTS = (0.001, 0.010, 0.100)  # seconds of a step


# -- the model on paper ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What a step costs apart from its environment, in seconds."""

    driver: float  # of the driver's one core
    node: float  # of a core of its node: the actor, and the host around the environment
    latency: float  # of a whole step with an instant model and an environment that does nothing, with no other agents


@dataclass(frozen=True)
class Limit:
    """The most steps per second, and what allows no more."""

    rate: float
    by: str


def throughput(
    costs: Costs,
    environment: float,
    agents: int,
    *,
    cores: float,
    thinking: float = 0.0,
    model_rate: float | None = None,
) -> Limit:
    """Steps per second of `agents` agents, by the bounds of a closed queue.

    A step holds the driver for `costs.driver`, a core of some node for `costs.node` and `environment`, and takes
    `costs.latency`, `environment` and `thinking` (of the model) in all. No more can be done than each of these allows.

    >>> throughput(Costs(0.002, 0.001, 0.005), 0.010, 1, cores=16)
    Limit(rate=66.66666666666667, by='agents')
    >>> [throughput(Costs(0.002, 0.001, 0.005), cost, 1000, cores=16).by for cost in (0.01, 0.1)]
    ['driver', 'nodes']
    """
    bounds = {
        "agents": agents / (costs.latency + environment + thinking),
        "driver": 1 / costs.driver,
        "nodes": cores / (costs.node + environment),
        "model": model_rate if model_rate is not None else float("inf"),
    }
    by = min(bounds, key=lambda name: bounds[name])
    return Limit(bounds[by], by)


def on_one_machine(costs: Costs, environment: float, agents: int, cores: float) -> Limit:
    """The same where nodes and driver are on one machine and environments only wait: all share its cores.

    >>> on_one_machine(Costs(0.002, 0.002, 0.005), 0.1, 1000, cores=1)
    Limit(rate=250.0, by='machine')
    """
    limit = throughput(costs, environment, agents, cores=float("inf"))
    machine = cores / (costs.driver + costs.node)
    return min(limit, Limit(machine, "machine"), key=lambda each: each.rate)


def agents_needed(costs: Costs, environment: float, *, cores: float, thinking: float) -> float:
    """How many agents it takes before something other than their number is the limit (Little's law)."""
    most = throughput(costs, environment, 10**12, cores=cores, thinking=thinking)
    return most.rate * (costs.latency + environment + thinking)


# -- measurements ----------------------------------------------------------------------------------------------------


def suites(
    address: str | None, seconds: float = 0.0, most: int = 16, per_actor: int = 1
) -> tuple[HostedSuite, ClusterSuite]:
    """The same suite in hosts of this machine, and on the cluster."""
    near = HostedSuite("waiting_suite.py:WaitingSuite", {"seconds": seconds}, Path(__file__).parent, timeout=300)
    settings = ClusterSettings(address, cpus=0.25, per_actor=per_actor)
    return near, ClusterSuite(near, settings, most=most)


@dataclass(frozen=True)
class Timed:
    what: str
    median_ms: float
    p95_ms: float
    n: int


def summarize_times(what: str, seconds: Sequence[float]) -> Timed:
    ordered = sorted(seconds)
    return Timed(what, 1000 * statistics.median(ordered), 1000 * ordered[int(0.95 * (len(ordered) - 1))], len(ordered))


class Echo:
    """A bare actor: returns a stand-in for an observation."""

    async def step(self, number: int, verb: str, action: Action) -> str:
        return f"page {action.arguments['page']}: {OBSERVATION}"


async def step_times(address: str | None, count: int) -> list[Timed]:
    """A step on the cluster, a bare call and a local step, in turns."""
    near, far = suites(address)
    far.connection.open()
    ray = importlib.import_module("ray")
    bare = ray.remote(Echo).options(num_cpus=0.25, scheduling_strategy="SPREAD", max_concurrency=100).remote()
    there, here = far.episode(TASK), near.episode(TASK)
    times: dict[str, list[float]] = {"bare": [], "cluster": [], "local": []}
    try:
        await asyncio.gather(there.start(), here.start(), _bare(bare, Action("look", {"page": 0})))
        for number in range(count + 20):
            action = Action("look", {"page": number})
            for name, work in (
                ("bare", _bare(bare, action)),
                ("cluster", there.step(action)),
                ("local", here.step(action)),
            ):
                started = time.perf_counter()
                await work
                if number >= 20:  # the first ones are cold
                    times[name].append(time.perf_counter() - started)
    finally:
        await asyncio.gather(there.close(), here.close())
        ray.kill(bare)
        await far.aclose()
    names = {"bare": "a bare call of an actor", "cluster": "a step on the cluster", "local": "a step in a local host"}
    return [summarize_times(names[name], each) for name, each in times.items()]


async def _bare(actor: Any, action: Action) -> None:
    await actor.step.remote(1, "step", action)


@dataclass(frozen=True)
class Starts:
    what: str
    hosts: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.hosts / self.seconds


async def start_times(address: str | None, hosts: int) -> list[Starts]:
    """`hosts` hosts at once: with an actor each, in actors that exist already, and with four to an actor."""
    measured = []
    for per_actor in (1, 4):
        _, far = suites(address, most=hosts, per_actor=per_actor)
        far.connection.open()
        sharing = "an actor each" if per_actor == 1 else f"{per_actor} to an actor"
        try:
            for actors in ("new actors", "actors that are there"):
                episodes = [far.episode(TASK) for _ in range(hosts)]
                started = time.perf_counter()
                await asyncio.gather(*(episode.start() for episode in episodes))
                measured.append(Starts(f"{sharing}, {actors}", hosts, time.perf_counter() - started))
                await asyncio.gather(*(episode.close() for episode in episodes))
        finally:
            await far.aclose()
    return measured


@dataclass(frozen=True)
class Load:
    agents: int
    cost_ms: float  # of a step of the environment
    steps: int
    seconds: float
    driver_seconds: float  # of CPU
    node_seconds: float | None  # of all actors and hosts; None where they are on other machines

    @property
    def rate(self) -> float:
        return self.steps / self.seconds

    @property
    def cores(self) -> float:
        return self.driver_seconds / self.seconds


class Gate:
    """Lets agents begin together, when all of their environments have started."""

    def __init__(self, agents: int) -> None:
        self._missing = agents
        self._open = asyncio.Event()
        self.began = (0.0, 0.0, 0.0)

    async def passed(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.began = now()
            self._open.set()
        await self._open.wait()


class Gated:
    """An episode whose start waits for the others."""

    def __init__(self, episode: Episode, gate: Gate) -> None:
        self._episode, self._gate = episode, gate

    async def start(self) -> Opening:
        opening = await self._episode.start()
        await self._gate.passed()
        return opening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._episode, name)


async def load(suite: Episodes, agents: int, steps: int, cost: float) -> Load:
    """`agents` agents at once with `steps` steps each: the whole engine with its journal, and an instant model."""
    count, gate = counter(), Gate(agents)
    ended = now()
    with tempfile.TemporaryDirectory() as scratch, Store.open(Path(scratch) / "bench.db") as store:

        def unit(number: int) -> Unit[Trajectory]:
            name = f"bench/{number}"

            async def play(calls: UnitCalls) -> Trajectory:
                episode: Any = Gated(suite.episode(TASK), gate)
                agent = Agent(calls.bound(InstantModel(), "agent"))
                return await run_episode(TASK, episode, agent, count=count, step_limit=steps)

            def record(trajectory: Trajectory, seconds: float) -> None:
                if trajectory.error:
                    raise SystemExit(trajectory.error)
                write_trajectory(store, name, trajectory, phase="bench", run=0, groups={}, seconds=0.0)

            return Unit(name, play, record)

        await run_units(map(unit, range(agents)), InProcess(store), agents)
        ended = now()
    wall, driver, nodes = (end - began for began, end in zip(gate.began, ended, strict=True))
    return Load(agents, 1000 * cost, agents * steps, wall, driver, nodes if nodes > 0 else None)


def now() -> tuple[float, float, float]:
    """The time, the CPU time that the driver has used, and that of everything it started."""
    return time.perf_counter(), time.process_time(), sum(map(cpu_of, descendants(os.getpid())[1:]))


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


async def loads(address: str | None, agents: Sequence[int], costs: Sequence[float], steps: int) -> list[Load]:
    measured = []
    for cost in costs:
        _, far = suites(address, cost, most=max(agents), per_actor=4)
        try:
            for number in agents:
                each = max(5, min(steps, int(6 / (cost or 0.001))))
                measured.append(await load(far, number, each, cost))
        finally:
            await far.aclose()
    return measured


def fit_costs(measured: Sequence[Load]) -> Costs:
    """From environments that do nothing: how long a step of one agent takes, and what many cost the driver."""
    free = [each for each in measured if not each.cost_ms]
    alone = min(free, key=lambda each: each.agents)
    crowd = max(free, key=lambda each: each.agents)
    node = crowd.node_seconds or 0.0
    return Costs(crowd.driver_seconds / crowd.steps, node / crowd.steps, alone.seconds / alone.steps)


# -- the report ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def some_cluster(address: str | None) -> Iterator[str]:
    if address is not None:
        yield address
        return
    os.environ |= VARIABLES  # before Ray is imported
    ray = importlib.import_module("ray")
    utilities = importlib.import_module("ray.cluster_utils")
    started = time.perf_counter()
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = utilities.Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=CPUS, object_store_memory=STORE, wait=False)
        cluster.wait_for_nodes(timeout=300)
        print(f"A cluster of {NODES} nodes was up in {time.perf_counter() - started:.1f} s.", flush=True)
        yield str(cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a Ray cluster that runs")
    parser.add_argument("--steps", type=int, default=300, help="of each kind that are timed")
    parser.add_argument("--hosts", type=int, default=12, help="that are started at once")
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 4, 16], help="at once")
    parser.add_argument("--node-cores", type=float, default=16, help="of a node in the last table")
    parser.add_argument("--thinking", type=float, default=2.0, help="seconds of a model in the last table")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with some_cluster(args.address) as address:
        steps = asyncio.run(step_times(address, args.steps))
        if not args.json:
            show_steps(steps)
        starts = asyncio.run(start_times(address, args.hosts))
        if not args.json:
            show_starts(starts)
        measured = asyncio.run(loads(address, args.agents, (0.0, *COSTS), steps=100))
    costs = fit_costs(measured)
    if args.json:
        data = {"steps": list(map(asdict, steps)), "starts": list(map(asdict, starts))}
        data |= {"loads": list(map(asdict, measured)), "costs": [asdict(costs)]}
        print(json.dumps({**data, "load_average": os.getloadavg()}, indent=2))
        return
    show_loads(measured, costs)
    show_model(costs, args.node_cores, args.thinking)
    print(f"\nLoad average of this machine ({os.cpu_count()} cores): {os.getloadavg()[0]:.1f}")


def show_steps(steps: Sequence[Timed]) -> None:
    for each in steps:
        print(
            f"  {each.what:<24} median {each.median_ms:6.2f} ms, 95th percentile {each.p95_ms:6.2f} ms (n = {each.n})"
        )
    ratio = steps[1].median_ms / steps[0].median_ms
    verdict = "met" if ratio <= GOAL else "missed"
    print(f"  on the cluster {ratio:.2f} times the bare call; goal: at most {GOAL} ({verdict})", flush=True)


def show_starts(starts: Sequence[Starts]) -> None:
    print("Hosts started")
    for each in starts:
        print(f"  {each.what:<40} {each.hosts} in {each.seconds:5.1f} s: {each.rate:.1f} per second", flush=True)


def show_loads(measured: Sequence[Load], costs: Costs) -> None:
    print("Agents at once, instant model, journal on; the environment waits so long in each step")
    cores = os.cpu_count() or 1
    for each in measured:
        paper = on_one_machine(costs, each.cost_ms / 1000, each.agents, cores)
        print(
            f"  {each.agents:>4} agents, {each.cost_ms:>5.0f} ms: {each.rate:7.1f} steps/s,"
            f" driver {each.cores:4.2f} cores; on paper {paper.rate:7.1f} ({paper.by}),"
            f" measured / paper {each.rate / paper.rate:.2f}"
        )
    print(
        f"  a step costs the driver {1000 * costs.driver:.2f} ms of CPU and its node {1000 * costs.node:.2f} ms;"
        f" alone it takes {1000 * costs.latency:.2f} ms"
    )


def show_model(costs: Costs, cores: float, thinking: float) -> None:
    print(
        f"Where it saturates: nodes of {cores:g} cores, an environment that computes so long, a model of {thinking:g} s"
    )
    for nodes in (1, 10, 100):
        for cost in COSTS:
            most = throughput(costs, cost, 10**12, cores=nodes * cores, thinking=thinking)
            needed = agents_needed(costs, cost, cores=nodes * cores, thinking=thinking)
            print(
                f"  {nodes:>3} nodes, {1000 * cost:>4.0f} ms: {most.rate:8.0f} steps/s, limited by the {most.by},"
                f" with {needed:,.0f} agents at once"
            )


if __name__ == "__main__":
    main()
