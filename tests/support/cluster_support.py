"""A Ray cluster of several nodes on this machine, whose nodes can be killed while it is used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

NODES = 3
STORE = 80_000_000  # bytes of the object store of a node: the least that Ray takes is a little less


class Nodes:
    """The nodes of a `ray.cluster_utils.Cluster`. The head has no CPUs, so that no environment lives there."""

    def __init__(self, cluster: Any, cpus: int) -> None:
        self._cluster = cluster
        self._cpus = cpus
        self.workers = [self._add() for _ in range(NODES)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=self._cpus, object_store_memory=STORE, wait=False)

    def kill(self, number: int) -> None:
        """End a node as a power cut does, and put another in its place."""
        self._cluster.remove_node(self.workers[number], allow_graceful=False)
        self.workers[number] = self._add()


@contextlib.contextmanager
def cluster_of_nodes(cpus: int = 4) -> Iterator[Nodes]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False},
    )
    try:
        nodes = Nodes(cluster, cpus)
        cluster.wait_for_nodes(timeout=120)
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
