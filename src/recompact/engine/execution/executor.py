"""Units of work and where they are played. Playing a unit gives a value; the driver alone records it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from recompact.environments.protocol import EpisodeLost
from recompact.models.failures import ModelFailure
from recompact.models.journal import Journal, UnitCalls

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


class Executor(Protocol):
    """Plays units, here or elsewhere. Calls to models go through the driver's journal in either case."""

    async def submit(self, unit: Unit[T]) -> T: ...

    def set_aside(self, unit: str, reason: str) -> None:
        """Remember that playing this unit again would fail again; `submit` then raises `SetAside`."""


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

    def set_aside(self, unit: str, reason: str) -> None:
        self.journal.set_aside(unit, reason)
