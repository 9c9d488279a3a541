"""How long-running work reports its progress; a command line draws a bar from it, a library says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Listens to work that takes a long time."""

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        """A stage begins. Of its `total` units, where that is known, `done` were finished by an earlier command."""

    def expect(self, total: int) -> None:
        """The stage is now known to have this many units."""

    def done(self) -> None:
        """One more unit is finished."""

    def step(self) -> None:
        """An agent took one more step."""

    def note(self, text: str) -> None:
        """Something that a waiting person wants to know now, such as a long wait for a server."""


class Silent:
    """A `Progress` that nobody sees."""

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None: ...

    def expect(self, total: int) -> None: ...

    def done(self) -> None: ...

    def step(self) -> None: ...

    def note(self, text: str) -> None: ...


SILENT = Silent()


@dataclass
class Notices:
    """Where models say that they are waiting. They are opened before anybody watches, so the listener may change."""

    listener: Progress = SILENT

    def note(self, text: str) -> None:
        self.listener.note(text)
