"""Restoring by doing it all again: the recorded actions in a fresh episode, each observation compared.

Works for every environment whose observations follow from its actions, and travels between machines. Where a replay
differs the boundary is given up with a message, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from recompact.environments.protocol import EnvironmentFailed, Observation
from recompact.environments.snapshots.mask import excerpts
from recompact.environments.snapshots.strategy import REPLAY
from recompact.values.trajectory import Action, Snapshot

Log = list[tuple[Action, str]]
"""What an episode has done: each action with the text that came back."""


def record(log: Sequence[tuple[Action, str]], digest: str = "") -> Snapshot:
    """A snapshot that holds what was done and, where the environment has one, the digest of the resulting state."""
    steps = [[action.to_json(), text] for action, text in log]
    data = {"log": steps, "digest": digest} if digest else steps
    return Snapshot(REPLAY, json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def log_of(snapshot: Snapshot) -> Log:
    """The log in a snapshot made by `record`."""
    data = _read(snapshot)
    return [(Action.from_json(action), text) for action, text in (data["log"] if isinstance(data, dict) else data)]


def digest_of(snapshot: Snapshot) -> str:
    """The digest of the state, or nothing where the environment had none."""
    data = _read(snapshot)
    return str(data["digest"]) if isinstance(data, dict) else ""


def _read(snapshot: Snapshot) -> Any:
    return json.loads(snapshot.data.decode("utf-8", "surrogatepass"))


async def replay(
    log: Sequence[tuple[Action, str]],
    step: Callable[[Action], Awaitable[Observation]],
    agrees: Callable[[str, str], Awaitable[bool]],
) -> None:
    """Bring a fresh episode to the end of the log.

    `agrees` compares a recorded text with the one seen now, ignoring what the environment masks.
    """
    for number, (action, expected) in enumerate(log, 1):
        seen = (await step(action)).text
        if not await agrees(expected, seen):
            before, now = excerpts(expected, seen)
            raise EnvironmentFailed(
                f"replay differs at action {number} ({action.name or 'text'}): recorded {before!r}, now {now!r}"
            )
