"""A progress that tests can listen to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Heard:
    """Everything that was reported, in order; `on_done` is called at each unit that is finished."""

    def __init__(self, on_done: Callable[[], None] = lambda: None) -> None:
        self.events: list[tuple[Any, ...]] = []
        self._on_done = on_done

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        self.events.append(("stage", name, total, done))

    def expect(self, total: int) -> None:
        self.events.append(("expect", total))

    def done(self) -> None:
        self.events.append(("done",))
        self._on_done()

    def step(self) -> None:
        self.events.append(("step",))

    def note(self, text: str) -> None:
        self.events.append(("note", text))

    def count(self, kind: str) -> int:
        return sum(event[0] == kind for event in self.events)
