"""Restoring by doing it all again: the recorded actions in a fresh episode, each observation compared.

Works for every environment whose observations follow from its actions, and travels between machines. Where a replay
differs the boundary is given up with a message, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from recompact.environments.protocol import EnvironmentFailed, Observation
from recompact.trajectory import Action, Snapshot

STRATEGY = "replay"

Log = list[tuple[Action, str]]
"""What an episode has done: each action with the text that came back."""


def record(log: Sequence[tuple[Action, str]]) -> Snapshot:
    data = [[action.to_json(), text] for action, text in log]
    return Snapshot(STRATEGY, json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"))


async def replay(snapshot: Snapshot, step: Callable[[Action], Awaitable[Observation]]) -> None:
    """Bring a fresh, started episode to where the snapshot was taken."""
    for number, (data, expected) in enumerate(json.loads(snapshot.data.decode("utf-8", "surrogatepass")), 1):
        action = Action.from_json(data)
        seen = (await step(action)).text
        if seen != expected:
            raise EnvironmentFailed(
                f"replay differs at action {number} ({action.name or 'text'}):"
                f" recorded {expected[:80]!r}, now {seen[:80]!r}"
            )
