"""Progress with tokens, cost and time left, on standard error, for every command that takes a while.

On a terminal it is a bar; anywhere else a plain line every ten seconds, so that a log shows that work continues. Where
standard output is for a program it is quiet, except for what a waiting person wants to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn

from recompact.engine.study import Study
from recompact.models.limits import Spending
from recompact.values.texts import cut, quantity, visible

EVERY = 10.0  # seconds between two plain lines
FIRST_UNITS = 3  # finished before a forecast of the cost is worth anything


class Bar:
    """A `recompact.values.progress.Progress`. The spending that it shows is read whenever something moves."""

    def __init__(
        self,
        title: str,
        spending: Spending,
        drawn: tuple[rich.progress.Progress, TaskID] | None,
        log: Console | None,
        floor: int = 0,
        warn: float | None = None,
        hosts: Callable[[], str] = lambda: "",
        quiet: bool = False,
    ) -> None:
        self._hosts, self._quiet = hosts, quiet
        self._command, self._title = title, title
        self._spending, self._drawn, self._log, self._floor = spending, drawn, log, floor
        self._total = self._done = self._steps = 0
        self._warn = warn
        self._began = (0, 0.0)  # units done and money spent when the stage began
        self._began_at = time.monotonic()
        self._logged_at = time.monotonic()

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        # What it is all for (a method, a scope) is said in every line: a log is read from its end.
        self._title = f"{self._command}: {name}" if self._command not in ("", name) else name
        self._total, self._done = max(total or 0, self._floor), done
        self._began, self._began_at = (done, self._spending.money), time.monotonic()
        if self._drawn:
            self._drawn[0].update(self._drawn[1], description=self._title, total=self._total or None, completed=done)

    def expect(self, total: int) -> None:
        # What is still to be decided is not due yet: until then the forecast stands in for it.
        self._total = total if total == self._done else max(total, self._floor)
        if self._drawn:
            self._drawn[0].update(self._drawn[1], total=self._total)

    def done(self) -> None:
        self._done += 1
        self._update()
        if self._warn is not None and (forecast := self._forecast()) is not None and forecast > self._warn:
            self.note(
                f"At this rate the run will have spent about {forecast:.2f} by the end of {self._title}, more than"
                f" {self._warn:g} ([ceiling] warn). Ctrl-C stops it and keeps finished work; [ceiling] money limits it."
            )
            self._warn = None  # once is enough

    def _forecast(self) -> float | None:
        """The run's money at the end of the stage, by what its units have cost so far; None before the first few."""
        done, spent = self._done - self._began[0], self._spending.money - self._began[1]
        if done < FIRST_UNITS or not self._total:
            return None
        return self._spending.money + spent / done * max(0, self._total - self._done)

    def step(self) -> None:
        self._steps += 1
        self._update()

    def note(self, text: str) -> None:
        line = cut(visible(" ".join(text.split())), 400)[0]
        if self._drawn:
            self._drawn[0].console.print(line, markup=False, soft_wrap=True)
        elif self._log:
            self._log.print(line, markup=False, soft_wrap=True)

    def _update(self) -> None:
        if self._drawn:
            self._drawn[0].update(self._drawn[1], completed=self._done, amounts=self._amounts())
        else:
            self.beat()

    def beat(self) -> None:
        """In a log: a line, unless there was one a moment ago."""
        if self._log and not self._quiet and time.monotonic() - self._logged_at > EVERY:
            self._logged_at = time.monotonic()
            done = f"{self._done} of {self._total}" if self._total else f"{self._done} done"
            line = ", ".join(filter(None, (f"{self._title}: {done}", self._amounts(), self._time_left())))
            self._log.print(line, markup=False, soft_wrap=True)

    def _time_left(self) -> str:
        """By the pace of the stage so far; nothing before the first few units."""
        done, left = self._done - self._began[0], self._total - self._done
        if done < FIRST_UNITS or left <= 0:
            return ""
        seconds = (time.monotonic() - self._began_at) / done * left
        return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"

    def _amounts(self) -> str:
        amounts = [quantity(self._steps, "step")] * bool(self._steps)
        amounts += [f"{self._spending.tokens:,} tokens"] * bool(self._spending.tokens)
        amounts += [f"{self._spending.money:.2f} spent"] * bool(self._spending.money)
        if hosts := self._hosts():
            amounts.append(hosts)
        return ", ".join(amounts)


@contextmanager
def open_bar(
    title: str,
    spending: Spending,
    *,
    quiet: bool = False,
    floor: int = 0,
    warn: float | None = None,
    hosts: Callable[[], str] = lambda: "",
) -> Iterator[Bar]:
    """A bar while the work goes on. `floor` is the least number of units expected; where more than `warn` money is
    forecast to be spent, it says so; `hosts` tells where environments live, if there is more than one place. If it is
    `quiet`, notes are all that it prints."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield Bar(title, spending, None, console, floor, warn, quiet=True)
        return
    if not console.is_terminal:
        bar = Bar(title, spending, None, console, floor, warn, hosts)
        with _beating(bar.beat):  # also while nothing is finished, as when very many boundaries are read
            yield bar
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[amounts]}"),
        TimeRemainingColumn(),
    )
    with rich.progress.Progress(*columns, console=console, refresh_per_second=5) as drawn:
        yield Bar(title, spending, (drawn, drawn.add_task(title, total=None, amounts="")), None, floor, warn, hosts)


@contextmanager
def waiting(title: str, *, quiet: bool = False) -> Iterator[None]:
    """A sign of life while something is read or drawn: on a terminal a spinner, in a log a line every ten seconds."""
    console, started = Console(stderr=True, highlight=False), time.monotonic()
    if quiet:
        yield
    elif console.is_terminal:
        with console.status(title):
            yield
    else:
        with _beating(lambda: console.print(f"{title}: {time.monotonic() - started:.0f} s")):
            yield


@contextmanager
def _beating(beat: Callable[[], None]) -> Iterator[None]:
    """Call a function every ten seconds in a thread of its own."""
    stop = Event()

    def run() -> None:
        while not stop.wait(abs(EVERY)):
            beat()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def watch(study: Study, title: str, *, quiet: bool = False, floor: int = 0) -> Iterator[Study]:
    """The study with a bar as its progress."""
    warn = study.config.ceiling.warn
    hosts = getattr(study.episodes, "whereabouts", lambda: "")
    bar = open_bar(title, study.spending, quiet=quiet, floor=floor, warn=warn, hosts=hosts)
    with bar as drawn, study.watched_by(drawn) as shown:
        yield shown
