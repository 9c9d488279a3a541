"""Optimizer work as units: done once, read afterwards, so that adaptation resumes anywhere."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from recompact.chat import canonical
from recompact.store.store import Store


class Progress(Protocol):
    """Who is told how far it is: a stage begins with so many things to do, and one of them is done."""

    def begin(self, stage: str, total: int) -> None: ...

    def done(self) -> None: ...

    def step(self) -> None: ...


class Silent:
    """Nobody is told."""

    def begin(self, stage: str, total: int) -> None: ...

    def done(self) -> None: ...

    def step(self) -> None: ...


async def as_unit(store: Store, unit: str, kind: str, work: Callable[[], Awaitable[Any]]) -> Any:
    """The unit's result: read where it is finished, worked out and recorded where it is not."""
    if unit in store.finished(kind):
        return store.result(unit)
    started = time.perf_counter()
    value = await work()
    with store.transaction():
        store.finish(unit, kind, canonical(value), time.perf_counter() - started)
    return store.result(unit)
