"""Where an environment goes: the placement policy, and how the place of a forked process is found again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recompact.environments.cluster.settings import Placement
from recompact.environments.snapshots.replay import Log


@dataclass(frozen=True)
class Room:
    """A living actor of the cluster: which node it is on, and how many of its places are taken."""

    id: int
    node: str
    places: int
    used: int

    @property
    def free(self) -> bool:
        return self.used < self.places


def choose(rooms: Sequence[Room], holding: Sequence[int] = (), placement: Placement = "spread") -> int | None:
    """The actor in which an environment is to live, or None if all places are taken.

    `holding` are the actors that hold the frozen process from which the environment continues, or an earlier one, best
    first. A forked process cannot travel, so the environment goes there if there is a place. If that actor is gone or
    full, it goes where any other would go and its actions are done again: that takes less time than waiting for an
    agent to end. State and directories travel, so nothing binds them to a node.

    >>> rooms = [Room(1, "a", 2, 1), Room(2, "b", 2, 0)]
    >>> choose(rooms), choose(rooms, holding=[1]), choose(rooms, holding=[7]), choose(rooms, placement="pack")
    (2, 1, 2, 1)
    """
    free = [room for room in rooms if room.free]
    for id in holding:
        if any(room.id == id for room in free):
            return id
    load = Counter[str]()
    for room in rooms:
        load[room.node] += room.used
    sign = 1 if placement == "spread" else -1
    best = min(free, key=lambda room: (sign * load[room.node], sign * room.used, room.id), default=None)
    return best.id if best is not None else None


def marks(task: str, log: Log) -> list[str]:
    """A mark of the episode after each of its actions, last first: equal marks mean equal beginnings.

    >>> from recompact.values.trajectory import Action
    >>> one, two = (Action("look"), "a key"), (Action("take"), "taken")
    >>> marks("t", [one]) == marks("t", [one, two])[1:]
    True
    """
    mark = hashlib.sha256(task.encode())
    every = [mark.hexdigest()]
    for action, text in log:
        entry = json.dumps([action.to_json(), text], sort_keys=True).encode()
        mark.update(len(entry).to_bytes(8) + entry)
        every.append(mark.hexdigest())
    return every[::-1]
