"""Progress with tokens, cost and time left, on standard error, for every command that takes long.

On a terminal it is a bar; anywhere else a plain line every ten seconds, so that a log shows that work goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from recompact.models.limits import Spending

EVERY = 10.0  # seconds between two plain lines


class Bar:
    """What a command moves forward. What it shows of spending is read whenever something moves."""

    def __init__(
        self, title: str, spending: Spending, shown: tuple[Progress, TaskID] | None, log: Console | None
    ) -> None:
        self._title, self._spending, self._shown, self._log = title, spending, shown, log
        self._total = self._done = self._steps = 0
        self._said_at = time.monotonic()

    def begin(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        if self._shown:
            self._shown[0].update(self._shown[1], total=total, completed=done)

    def stage(self, title: str, total: int) -> None:
        """Begin anew, as another stage of the same work."""
        self._title, self._total, self._done = title, total, 0
        if self._shown:
            self._shown[0].update(self._shown[1], description=title, total=total or None, completed=0)

    def done(self) -> None:
        self._done += 1
        self._update()

    def step(self) -> None:
        self._steps += 1
        self._update()

    def _update(self) -> None:
        if self._shown:
            self._shown[0].update(self._shown[1], completed=self._done, said=self._said())
        elif self._log and time.monotonic() - self._said_at > EVERY:
            self._said_at = time.monotonic()
            done = f"{self._done} of {self._total}" if self._total else f"{self._done} done"
            self._log.print(f"{self._title}: {done}, {self._said()}".rstrip(", "))

    def _said(self) -> str:
        said = [f"{self._steps:,} steps"] * bool(self._steps)
        said += [f"{self._spending.tokens:,} tokens"] * bool(self._spending.tokens)
        said += [f"{self._spending.money:.2f} spent"] * bool(self._spending.money)
        return ", ".join(said)


@contextmanager
def bar(title: str, spending: Spending, *, quiet: bool = False) -> Iterator[Bar]:
    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        yield Bar(title, spending, None, None if quiet else console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        yield Bar(title, spending, (progress, progress.add_task(title, total=None, said="")), None)
