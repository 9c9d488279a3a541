"""Being stopped: SIGTERM and SIGHUP end a command as Ctrl-C does, with the same words and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

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


def end_stopped(words: str) -> NoReturn:
    """Say so, and exit with the code of the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    from recompact.cli.console import say

    with suppress(OSError):  # the terminal may be gone
        say(words, err=True)
    sys.exit(128 + (_received[0] if _received else signal.SIGINT))
