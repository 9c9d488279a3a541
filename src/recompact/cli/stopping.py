"""Being stopped: SIGTERM and SIGHUP end a command as Ctrl-C does, with the same words and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from recompact.values.texts import visible_line

Result = TypeVar("Result")

_received: list[int] = []  # a signal is for the whole process, and so is this
_owner = os.getpid()


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C, unless whoever started us had them ignored, as nohup does."""
    earlier = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):  # outside the main thread nobody can
            if signal.getsignal(number) is signal.SIG_DFL:
                earlier[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        _received.clear()


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Take Ctrl-C only after the block, in which modules are imported: Python drops what is raised in the callbacks of
    an import. Whoever presses it again does not wait."""
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, note)
    except ValueError:  # outside the main thread, where nobody interrupts
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> None:
    if os.getpid() != _owner:  # a fork, which whoever made it ends
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    _received.append(number)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for the background jobs of a script
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)  # which an event loop knows how to take


async def announcing_stop(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work. The first Ctrl-C says at once what it waits for, and that a second one does not wait."""
    cancel = signal.getsignal(signal.SIGINT)  # of the event loop, which ends the work in order

    def announce(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, cancel)
        text = visible_line(f"recompact: stopping; waiting for {_occupation(frame)} (Ctrl-C again: stop now)")
        with suppress(OSError):  # not print, which may be what was interrupted
            os.write(2, f"\n{text}\n".encode())
        assert callable(cancel)
        cancel(number, frame)

    try:
        if callable(cancel):
            signal.signal(signal.SIGINT, announce)
    except ValueError:  # outside the main thread, where nobody interrupts
        return await work
    try:
        return await work
    finally:
        if signal.getsignal(signal.SIGINT) is announce:
            signal.signal(signal.SIGINT, cancel)


def _occupation(frame: FrameType | None) -> str:
    """What a program is busy with: code of the user's, by its place, or else what is under way elsewhere."""
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if (
            name.partition(".")[0] not in (*sys.stdlib_module_names, "recompact", "__main__")
            and "site-packages" not in file
        ):
            return f"{frame.f_code.co_name} ({Path(file).name}:{frame.f_lineno})"
        frame = frame.f_back
    return "work in progress to end"


def end_stopped(words: str) -> NoReturn:
    """Say so, and exit with the code of the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    from recompact.cli.console import say

    with suppress(OSError):  # the terminal may be gone
        say(words, err=True)
    sys.exit(128 + (_received[0] if _received else signal.SIGINT))
