"""Ray itself, imported late: the connection to a cluster or to one started here, its actors, nodes and objects.

Nothing that Ray prints reaches the terminal, and nothing is reported to its makers. A cluster that was started here
ends with the connection, and so do its files; one that was there before goes on without us.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import importlib.util
import os
import secrets
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.environments.cluster.actor import ActorLocation, HostActor, RemoteSuite
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.own_directory import own_directory, remove_tree
from recompact.environments.protocol import EpisodeLost
from recompact.errors import InputError
from recompact.version import __version__, install_command

_INLINE = 100_000  # bytes that go with a call; more go through the object store, once to each node
_CONCURRENCY = 100_000  # calls at once in an actor: its environments bound them
_CLIENT = "ray://"
VARIABLES = {  # of Ray, read when it is imported: no telemetry, and patience, since a busy machine takes its time
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}


def missing() -> str | None:
    """What has to be installed before a cluster can be used."""
    if importlib.util.find_spec("ray") is None:
        return f'host = "ray" needs Ray, which is not installed: {install_command("ray")}'
    return None


def _ray() -> Any:
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    return importlib.import_module("ray")


@dataclass(frozen=True)
class Node:
    """A living node of the cluster."""

    id: str
    machine: str
    cpus: float
    memory: float  # bytes


class RayActor:
    """A handle on an actor that separates its loss (`EpisodeLost`) from failures of an environment in it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def call(self, method: str, *values: Any, patience: float | None = None) -> Any:
        ray = _ray()
        reference = getattr(self._handle, method).remote(*values)
        try:
            async with asyncio.timeout(patience):
                return await reference
        except TimeoutError:
            raise EpisodeLost(f"an actor of the cluster did not answer to {method} for {patience:g} s") from None
        except ray.exceptions.RayTaskError:
            raise
        except (ray.exceptions.RuntimeEnvSetupError, ray.exceptions.ActorUnschedulableError) as error:
            raise InputError(f"the cluster cannot start an actor: {_line(error)}") from None
        except ray.exceptions.RayError as error:
            raise EpisodeLost(f"an actor of the cluster is gone ({type(error).__name__}: {_line(error)})") from None

    def kill(self) -> None:
        with contextlib.suppress(Exception):  # it, or the cluster, is gone already
            _ray().kill(self._handle)


@dataclass
class Connection:
    """To one cluster; it is made on first use."""

    settings: ClusterSettings
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    _ours: bool = False
    _files: Path | None = None
    _sent: OrderedDict[str, tuple[Any, int]] = field(default_factory=OrderedDict)
    _room: int = 0  # bytes of the object store that snapshots may take
    _actors: Any = None  # the class, as Ray knows it

    def open(self) -> None:
        """Connect, or start a cluster here. Raises InputError if there is none."""
        if problem := missing():
            raise InputError(problem)
        if self.settings.address is None and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
            # Read when Ray is imported. Without it Ray would leave a token of its own in the home directory.
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        ray = _ray()
        if self._room:
            return
        if not ray.is_initialized():
            self._init(ray)
        store = sum(node["Resources"].get("object_store_memory", 0) for node in ray.nodes() if node["Alive"])
        self._room = max(1, int(store / max(1, len(self.nodes())) / 4))

    def _init(self, ray: Any) -> None:
        address = self.settings.address
        if address is not None and address.startswith(_CLIENT):
            raise InputError(
                f'[cluster] address = "{address}": recompact runs on a machine of the cluster; give host:port or "auto"'
            )
        worker: Any = importlib.import_module("ray._private.worker")
        worker._worker_logs_enabled = False  # or a node's troubles would appear in the middle of our output
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
        try:
            if address is not None:
                ray.init(address, runtime_env=dict(self.runtime_env), **quiet)
            else:
                self._files = own_directory(_short_place()) / "ray"
                ray.init(
                    "local",
                    runtime_env=dict(self.runtime_env),
                    include_dashboard=False,
                    _temp_dir=str(self._files),
                    **quiet,
                )
        except Exception as error:  # Ray raises plain ones too
            self._remove_files()
            place = f"at {address}" if address else "on this machine"
            raise InputError(f"there is no Ray cluster {place}: {_line(error)}") from None
        self._ours = True

    async def start_actor(
        self, hosted: RemoteSuite, node: str | None = None, avoided: frozenset[str] = frozenset()
    ) -> tuple[RayActor, ActorLocation]:
        """One more actor, on a node that the cluster or the caller chooses. It may wait for room."""
        self.open()
        ray = _ray()
        settings = self.settings
        strategy: Any = "SPREAD" if settings.placement == "spread" else "DEFAULT"
        share = settings.per_actor if node is None else 0  # one that only looks takes nothing
        if node is not None:
            strategies = importlib.import_module("ray.util.scheduling_strategies")
            strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        options: dict[str, Any] = {
            "num_cpus": settings.cpus * share,
            "resources": {name: amount * share for name, amount in settings.resources.items()} if share else {},
            "scheduling_strategy": strategy,
            "max_concurrency": _CONCURRENCY,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        if avoided:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(avoided))})"}
        if settings.memory and share:
            options["memory"] = settings.memory * share
        self._actors = self._actors or ray.remote(HostActor)
        actor = RayActor(self._actors.options(**options).remote(hosted, node or ""))
        try:
            where: ActorLocation = await actor.call("ready")
        except ray.exceptions.RayTaskError as error:
            actor.kill()
            raise InputError(f"an actor could not be started on the cluster: {_line(error.cause)}") from None
        except BaseException:
            actor.kill()
            raise
        if where.version != __version__:
            actor.kill()
            raise InputError(
                f"recompact {where.version} is installed on {where.machine}, and {__version__} here: install the same"
            )
        return actor, where

    def send(self, data: bytes) -> Any:
        """Bytes as an argument of a call: large ones by reference, which reaches each node once."""
        if len(data) <= _INLINE:
            return data
        name = hashlib.sha256(data).hexdigest()
        if name not in self._sent:
            self._sent[name] = (_ray().put(data), len(data))
        self._sent.move_to_end(name)
        while len(self._sent) > 1 and sum(size for _, size in self._sent.values()) > self._room:
            self._sent.popitem(last=False)  # whoever is still fetching it has it
        return self._sent[name][0]

    def nodes(self) -> list[Node]:
        """The living ones."""
        return [
            Node(
                node["NodeID"],
                node["NodeManagerHostname"],
                node["Resources"].get("CPU", 0.0),
                node["Resources"].get("memory", 0.0),
            )
            for node in _ray().nodes()
            if node["Alive"]
        ]

    def free(self) -> str:
        """What an actor takes and what the cluster has left, in words."""
        settings = self.settings
        left = _ray().available_resources()
        cpus = f"{settings.cpus * settings.per_actor:g} of {left.get('CPU', 0.0):g} free CPUs"
        others = [
            f"{amount * settings.per_actor:g} of {left.get(name, 0.0):g} {name}"
            for name, amount in settings.resources.items()
        ]
        if settings.memory:
            others.append(f"{settings.memory * settings.per_actor:,} of {left.get('memory', 0):,.0f} bytes of memory")
        return f"one actor takes {', '.join([cpus, *others])}"

    def close(self) -> None:
        self._sent.clear()
        self._room, self._actors = 0, None
        if self._ours:
            self._ours = False
            _ray().shutdown()
        self._remove_files()

    def _remove_files(self) -> None:
        if self._files is not None:
            remove_tree(self._files)
            self._files = None


def _short_place() -> str | None:
    """Where Ray's sockets can be: the name of one has at most 107 bytes, of which Ray itself takes some 65."""
    return None if len(os.fsencode(tempfile.gettempdir())) <= 12 else "/tmp"


def _line(error: object) -> str:
    """What went wrong, on one line."""
    return " ".join(str(error).split())[:300]
