"""Whether run files have changed, seen from outside: the driver that writes them does not know who is looking."""

from __future__ import annotations

from collections.abc import Iterable

from recompact.engine.store.connection import writer_of
from recompact.presentation.view.runs import Place
from recompact.values.chat import sha256


def file_state(places: Iterable[Place]) -> str:
    """A digest that changes when a file, the log beside it or its writer does."""
    parts = []
    for place in places:
        for suffix in ("", "-wal"):
            try:
                status = place.path.with_name(place.path.name + suffix).stat()
                parts.append(f"{place.name}{suffix} {status.st_mtime_ns} {status.st_size}")
            except OSError:
                parts.append(f"{place.name}{suffix} gone")
        parts.append(f"{writer_of(place.path)}")
    return sha256("\n".join(parts))[:16]
