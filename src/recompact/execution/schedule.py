"""Many units of work at once, with no barrier between them: as soon as one ends the next begins.

A unit that fails for reasons of its own is noted and the others go on; a failure that every unit would meet (a wrong
key, a wrong model, a ceiling, a full disk) stops all of them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from recompact.models.failures import ModelFailure

Unit = tuple[str, Callable[[], Awaitable[None]]]
"""A name, and what to do."""


@dataclass(frozen=True)
class Unfinished:
    """A unit that could not be finished this time; running the same command again tries it again."""

    unit: str
    failure: ModelFailure


async def run_units(units: Iterable[Unit], concurrency: int) -> list[Unfinished]:
    """Do all units, at most so many at once; returns those that a model's failure left unfinished.

    Raises the failure itself where going on makes no sense: it is not retryable, or so many units failed one after
    the other that the server must be gone.
    """
    waiting = iter(units)
    unfinished: list[Unfinished] = []
    failed_in_a_row = 0

    async def worker() -> None:
        nonlocal failed_in_a_row
        for name, work in waiting:
            # Models of this process never wait, and a loop that never waits never hears of a Ctrl-C.
            await asyncio.sleep(0)
            try:
                await work()
                failed_in_a_row = 0
            except ModelFailure as failure:
                unfinished.append(Unfinished(name, failure))
                failed_in_a_row += 1
                if not failure.retryable or failed_in_a_row >= max(3, concurrency):
                    raise

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as group_error:
        raise _root(group_error) from None
    return unfinished


def _root(error: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first real error of a group: the others only followed from it."""
    first = error.exceptions[0]
    return _root(first) if isinstance(first, BaseExceptionGroup) else first
