"""Which strategy an environment has chosen, and the two that are bytes alone: its state, or its directory.

Used in the harness and in hosts alike, so it needs nothing but the standard library.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, get_args

from recompact.environments.protocol import Environment, Strategy
from recompact.environments.snapshots.directory import LIMIT, SnapshotRefused, archive, unpack

STATE: Final = "state"
DIRECTORY: Final = "directory"
REPLAY: Final = "replay"

_MARK = b"recompact directory 1\n"
_NOTHING = 0xFFFFFFFFFFFFFFFF  # in place of a length: the environment has no bytes of its own


def strategy_of(environment: Environment) -> Strategy:
    """What the environment says in `snapshots`; without it, state if it has a `snapshot`, else replay."""
    chosen: Strategy | None = getattr(environment, "snapshots", None)
    if chosen is None:
        return STATE if hasattr(environment, "snapshot") else REPLAY
    if chosen not in get_args(Strategy):
        names = ", ".join(get_args(Strategy))
        raise SnapshotRefused(f"the environment's snapshots = {chosen!r} is not a strategy: choose one of {names}")
    return chosen


def take(environment: Environment, strategy: Strategy) -> bytes:
    """The bytes of a snapshot. NotImplementedError means that only a replay can help."""
    if strategy == STATE:
        return environment.snapshot()
    if strategy != DIRECTORY:
        raise NotImplementedError(strategy)
    tree = archive(_directory(environment), getattr(environment, "directory_limit", LIMIT))
    own = _own_bytes(environment)
    size = _NOTHING if own is None else len(own)
    return _MARK + struct.pack(">Q", size) + (own or b"") + tree


def put_back(environment: Environment, strategy: str, data: bytes) -> None:
    """Bring the environment to where `take` found it."""
    if strategy == STATE:
        environment.restore(data)
        return
    if strategy != DIRECTORY:
        raise SnapshotRefused(f"a snapshot of strategy {strategy!r} is not one that can be put back from its bytes")
    start = len(_MARK) + 8
    if not data.startswith(_MARK) or len(data) < start:
        raise SnapshotRefused("this is not a snapshot of a directory: its beginning is missing")
    size = struct.unpack(">Q", data[len(_MARK) : start])[0]
    end = start if size == _NOTHING else start + size
    unpack(data[end:], _directory(environment))
    if size != _NOTHING:
        environment.restore(data[start:end])


def _directory(environment: Environment) -> Path:
    directory = getattr(environment, "directory", None)
    if directory is None:
        raise SnapshotRefused('snapshots = "directory" needs an attribute `directory`: the tree that is its state')
    return Path(directory)


def _own_bytes(environment: Environment) -> bytes | None:
    """What the environment keeps besides its directory, if anything."""
    if not hasattr(environment, "snapshot"):
        return None
    try:
        return environment.snapshot()
    except NotImplementedError:
        return None
