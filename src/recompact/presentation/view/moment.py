"""A run opened for one page: everything on it is from the same moment, whatever a driver writes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recompact.engine.store.store import Store
from recompact.evaluation.evaluate import PHASE as EVALUATE


@contextmanager
def open_moment(path: Path) -> Iterator[Store]:
    """A run as it is at this moment."""
    with Store.read(path) as store, store.snapshot():
        yield store


def phase_of(store: Store) -> str:
    """The phase whose trajectories a run is about."""
    return EVALUATE if store.metadata.command == EVALUATE else "collect"
