"""A progress bar with tokens, cost and time left, on standard error, for every command that takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from recompact.models.limits import Spending


class Bar:
    """One bar. What it shows of spending is read whenever something moves."""

    def __init__(self, progress: Progress, bar: TaskID, spending: Spending) -> None:
        self._progress, self._bar, self._spending = progress, bar, spending
        self._steps = 0

    def begin(self, total: int, done: int) -> None:
        self._progress.update(self._bar, total=total, completed=done)

    def done(self) -> None:
        self._progress.update(self._bar, advance=1, said=self._said())

    def step(self) -> None:
        self._steps += 1
        self._progress.update(self._bar, said=self._said())

    def _said(self) -> str:
        tokens = f"{self._steps:,} steps, {self._spending.tokens:,} tokens"
        return f"{tokens}, {self._spending.money:.2f} spent" if self._spending.money else tokens


@contextmanager
def bar(title: str, spending: Spending, *, quiet: bool = False) -> Iterator[Bar]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
        refresh_per_second=5,
    )
    with progress:
        yield Bar(progress, progress.add_task(title, total=None, said=""), spending)
