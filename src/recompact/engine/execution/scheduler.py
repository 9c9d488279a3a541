"""Units of work, many at once, with no barrier between them: as soon as one ends the next begins.

Playing a unit gives a value; the driver alone records it.
A failure belongs to the unit that met it, and the others go on. Only a failure that every unit would meet (a wrong key,
a model that is not there, a ceiling, a server that is gone) and an error of ours that is no failure of a model stop all
of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from recompact.environments.protocol import EpisodeLost
from recompact.errors import RecompactError
from recompact.models.failures import CeilingReached, ModelFailure, SetAside, UnreadableReply
from recompact.models.journal import Journal, UnitCalls
from recompact.values.chat import whole
from recompact.values.progress import SILENT, Progress
from recompact.values.texts import quantity

T = TypeVar("T")

_LIVES = 10  # times that a unit loses its episode before it is left for the next command


@dataclass(frozen=True)
class Unit(Generic[T]):
    """A piece of work with a name, from which everything random in it is seeded.

    `record` writes the value down, with the seconds that it took. Units that share a `group` meet the same trouble, so
    their failures in a row count once. `task` is the task that it is about, if any.
    """

    name: str
    play: Callable[[UnitCalls], Awaitable[T]]
    record: Callable[[T, float], None]
    group: str = ""
    task: str = ""


@dataclass(frozen=True)
class InProcess:
    """Plays units in the driver itself. One whose episode was lost with its machine begins again from the journal."""

    journal: Journal
    seed: int = 0

    async def submit(self, unit: Unit[T]) -> T:
        for life in range(1, _LIVES + 1):
            try:
                return await unit.play(UnitCalls(self.journal, unit.name, self.seed))
            except EpisodeLost as lost:
                if life == _LIVES:
                    raise ModelFailure(f"its episode was lost {_LIVES} times, at last: {lost}") from None
        raise AssertionError("the last life returns or raises")

    def set_aside(self, unit: Unit[Any], reason: str) -> SetAside:
        """Remember that playing this unit again would fail again: `submit` then raises what is returned here."""
        self.journal.set_aside(unit.name, reason)
        return SetAside(reason)


@dataclass(frozen=True)
class UnfinishedUnit:
    """A unit that a failure stopped."""

    name: str
    failure: ModelFailure
    task: str = ""

    def to_json(self) -> dict[str, Any]:
        data = {"unit": self.name, "kind": self.failure.kind, "error": str(self.failure)}
        return {**data, "task": self.task} if self.task else data


class Unfinished(RecompactError):
    """Some units could not be finished this time; the others are recorded. The same command tries them again. `so_far`
    is what the others come to, where somebody has worked that out."""

    def __init__(self, units: Iterable[UnfinishedUnit], so_far: Any = None) -> None:
        self.units, self.so_far = tuple(units), so_far
        first = self.units[0]
        super().__init__(
            f"{quantity(len(self.units), 'unit')} could not be finished, the first is {first.name}: {first.failure}"
        )


class Agenda(Protocol[T]):
    """Where units come from, when what is next depends on what has come back."""

    def next(self, running: int) -> Unit[T] | None:
        """A unit to begin now, or None where nothing is due before another of the `running` ones has come back."""

    def take(self, unit: Unit[T], value: T) -> None:
        """A unit came back with this value, which is recorded already."""

    def fail(self, unit: Unit[T]) -> None:
        """A unit could not be finished; it is not begun again."""


async def run_agenda(agenda: Agenda[T], executor: InProcess, concurrency: int, progress: Progress = SILENT) -> None:
    """Play and record what the agenda asks for, at most `concurrency` units at once.

    Raises `Unfinished` when all else is done, or the failure that makes going on pointless: at once, but at a ceiling
    only when the calls that were under way have been answered and journaled.
    """
    arrivals: asyncio.Queue[tuple[Unit[T], T | None, BaseException | None]] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()
    failures = _Failures(max(3, concurrency), progress)
    running = 0

    async def work(unit: Unit[T]) -> None:
        try:
            value = await _play(unit, executor)
            arrivals.put_nowait((unit, value, None))
        except BaseException as error:
            arrivals.put_nowait((unit, None, error))
            if not isinstance(error, Exception):
                raise

    try:
        while True:
            while not failures.ceiling and running < concurrency and (unit := agenda.next(running)) is not None:
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
                    agenda.fail(unit)
                else:
                    failures.clear()
                    agenda.take(unit, value)  # type: ignore[arg-type]
                    progress.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failures.ceiling:
        raise failures.ceiling
    if failures.units:
        raise Unfinished(failures.units)


async def _play(unit: Unit[T], executor: InProcess) -> T:
    """The value of a unit, recorded. A unit is set aside where what it raised would be raised again."""
    try:
        started = time.perf_counter()
        value = await executor.submit(unit)
    except UnreadableReply as unreadable:
        executor.set_aside(unit, str(unreadable))
        raise
    except RecompactError:
        raise
    except (OSError, MemoryError) as error:  # from the machine, which may have more another time
        raise ModelFailure(_reason(error)) from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise executor.set_aside(unit, "it was cancelled from within") from None
    except Exception as error:
        raise executor.set_aside(unit, _reason(error)) from error
    try:
        unit.record(value, time.perf_counter() - started)
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise executor.set_aside(unit, f"what came out cannot be recorded: {_reason(error)}") from error
    return value


def _reason(error: Exception) -> str:
    text = whole(" ".join(str(error).split()))[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def run_units(
    units: Iterable[Unit[T]], executor: InProcess, concurrency: int, progress: Progress = SILENT
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

    def fail(self, unit: Unit[Any]) -> None: ...


@dataclass
class _Failures:
    """What failed so far, and how much of it in a row."""

    most: int  # signs of an outage in a row, before the server is taken to be gone
    progress: Progress
    units: list[UnfinishedUnit] = field(default_factory=list)
    ceiling: CeilingReached | None = None
    _groups: set[str] = field(default_factory=set)

    def clear(self) -> None:
        self._groups.clear()

    def take(self, unit: Unit[Any], error: BaseException) -> None:
        if not isinstance(error, ModelFailure):
            raise error
        error.unit = unit.name
        if isinstance(error, CeilingReached):
            self.ceiling = error
            return
        if error.ends_run:
            raise error
        self.units.append(UnfinishedUnit(unit.name, error, unit.task))
        self.progress.note(f"{unit.name} is not finished ({error.kind}): {error}")
        if not error.outage:
            self.clear()  # whoever answers is there
            return
        self._groups.add(unit.group or unit.name)
        if len(self._groups) >= self.most:
            raise error
