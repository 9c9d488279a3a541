"""Many units at once, with no barrier between them: as soon as one ends the next begins, and its value is recorded.

A unit that a model's failure stops is set aside and the others go on; a failure that every unit would meet (a wrong
key, a ceiling, a server that is gone) stops all of them at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from recompact.errors import RecompactError
from recompact.execution.executor import Executor, Unit
from recompact.models.failures import ModelFailure
from recompact.progress import SILENT, Progress

T = TypeVar("T")


@dataclass(frozen=True)
class UnfinishedUnit:
    """A unit that a model's failure stopped."""

    name: str
    failure: ModelFailure

    def to_json(self) -> dict[str, Any]:
        return {"unit": self.name, "kind": self.failure.kind, "error": str(self.failure)}


class Unfinished(RecompactError):
    """Some units could not be finished this time; the others are recorded. The same command tries them again."""

    def __init__(self, units: Iterable[UnfinishedUnit]) -> None:
        self.units = tuple(units)
        first = self.units[0]
        super().__init__(f"{len(self.units)} units are not finished, the first is {first.name}: {first.failure}")


class Agenda(Protocol[T]):
    """Where units come from, when what is next depends on what has come back."""

    def next(self, running: int) -> Unit[T] | None:
        """A unit to begin now, or None where nothing is due before another of the `running` ones has come back."""

    def take(self, unit: Unit[T], value: T) -> None:
        """A unit came back with this value, which is recorded already."""


async def run_agenda(agenda: Agenda[T], executor: Executor, concurrency: int, progress: Progress = SILENT) -> None:
    """Play and record what the agenda asks for, at most `concurrency` units at once.

    Raises `Unfinished` when all else is done, or at once the failure that makes going on pointless.
    """
    arrivals: asyncio.Queue[tuple[Unit[T], T | None, BaseException | None]] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()
    failures = _Failures(max(3, concurrency))
    running = 0

    async def work(unit: Unit[T]) -> None:
        try:
            started = time.perf_counter()
            value = await executor.submit(unit)
            unit.record(value, time.perf_counter() - started)
            arrivals.put_nowait((unit, value, None))
        except BaseException as error:
            arrivals.put_nowait((unit, None, error))
            if not isinstance(error, Exception):
                raise

    try:
        while True:
            while running < concurrency and (unit := agenda.next(running)) is not None:
                running += 1
                task = asyncio.create_task(work(unit))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if not running:
                break
            arrived = [await arrivals.get()]
            while not arrivals.empty():  # whatever came at the same time is taken in together
                arrived.append(arrivals.get_nowait())
            for unit, value, error in arrived:
                running -= 1
                if error is not None:
                    failures.take(unit, error)
                else:
                    failures.clear()
                    agenda.take(unit, value)  # type: ignore[arg-type]
                    progress.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failures.units:
        raise Unfinished(failures.units)


async def run_units(
    units: Iterable[Unit[T]], executor: Executor, concurrency: int, progress: Progress = SILENT
) -> None:
    """Play and record all of these units, in this order as far as places allow."""
    await run_agenda(_InOrder(iter(units)), executor, concurrency, progress)


class _InOrder:
    """An agenda whose units are known beforehand."""

    def __init__(self, units: Any) -> None:
        self._units = units

    def next(self, running: int) -> Unit[Any] | None:
        return next(self._units, None)

    def take(self, unit: Unit[Any], value: Any) -> None: ...


@dataclass
class _Failures:
    """What failed so far, and how much of it in a row."""

    most: int  # in a row, before the server is taken to be gone
    units: list[UnfinishedUnit] = field(default_factory=list)
    _groups: set[str] = field(default_factory=set)

    def clear(self) -> None:
        self._groups.clear()

    def take(self, unit: Unit[Any], error: BaseException) -> None:
        if not isinstance(error, ModelFailure):
            raise error
        self.units.append(UnfinishedUnit(unit.name, error))
        self._groups.add(unit.group or unit.name)
        if not error.retryable or len(self._groups) >= self.most:
            raise error
