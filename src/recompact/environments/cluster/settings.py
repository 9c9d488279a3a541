"""[cluster]: where hosts go when they are not on this machine, and how much each takes there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt

from recompact.values.reading import key

Placement = Literal["spread", "pack"]
"""On the node with the fewest hosts, or on the one with the most that still has room."""


@dataclass(frozen=True)
class ClusterSettings:
    """[cluster]: the address of a cluster, and what an environment takes of it."""

    address: str | None = key(None, 'host:port, or "auto" for the one of this machine; without it one is started here')
    cpus: Annotated[float, Ge(0)] = key(1.0, "that an environment reserves")
    memory: Annotated[int, Gt(0)] | None = key(None, "bytes that it reserves; [suite.limits] bounds what it uses")
    resources: dict[str, Annotated[float, Gt(0)]] = key({}, "others that it reserves, as the cluster names them")
    placement: Placement = key("spread", "on the node with the fewest hosts, or the one with the most that has room")
    per_actor: Annotated[int, Gt(0)] = key(1, "environments that share one actor")
    hosts: Annotated[int, Gt(0)] | None = key(None, "at once, at most; default: [run] concurrency")
    runtime_env: dict[str, Any] = key({}, "what Ray sets up on each node, in its own terms")


def runtime_env_of(settings: ClusterSettings, directory: Path, runs: str) -> dict[str, Any]:
    """The runtime environment as Ray wants it. Paths are relative to the config; runs are not sent along.

    >>> runtime_env_of(ClusterSettings(runtime_env={"working_dir": "."}), Path("/study"), "runs")
    {'working_dir': '/study', 'excludes': ['/runs']}
    """
    env = dict(settings.runtime_env)
    if (sent := _sent_directory(env, directory)) is not None:
        places = directory.resolve() / runs
        excluded = [f"/{places.relative_to(sent)}"] if places.is_relative_to(sent) else []
        env |= {"working_dir": str(sent), "excludes": [*env.get("excludes", ()), *excluded]}
    return env


def directory_there(settings: ClusterSettings, directory: Path) -> Path:
    """Where a node finds the directory of the config: at the same path, or in what was sent there (then relative)."""
    sent = _sent_directory(settings.runtime_env, directory)
    here = directory.resolve()
    return here.relative_to(sent) if sent is not None and here.is_relative_to(sent) else here


def _sent_directory(env: Mapping[str, Any], directory: Path) -> Path | None:
    """The directory that is sent to the nodes, if any; the address of an archive is not one."""
    place = env.get("working_dir")
    if not isinstance(place, str) or "://" in place:
        return None
    return (directory / place).resolve()
