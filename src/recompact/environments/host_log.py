"""What a host prints: the end of it is kept for messages about its failure."""

from __future__ import annotations

import asyncio
import os

_TAIL = 4000  # bytes that are kept
_BURST = 1 << 20  # bytes that are read at once; whoever prints more waits
_PAUSE = 0.05  # seconds between two bursts


class HostLog:
    """The end of what a host prints. It is read slowly, so that a flood holds up nobody but the host itself."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._tail = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._burst = 0

    def follow(self) -> None:
        """Read it from now on, in the running loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._reading, self._read)

    def _read(self) -> None:
        part = self._part()
        self._burst += len(part)
        assert self._loop is not None
        if self._burst > _BURST or not part:
            self._loop.remove_reader(self._reading)
            self._burst = 0
            self._loop.call_later(_PAUSE, self._go_on)

    def _go_on(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.add_reader(self._reading, self._read)

    def _part(self) -> bytes:
        try:
            part = os.read(self._reading, 1 << 16)
        except BlockingIOError:
            return b""
        self._tail = (self._tail + part)[-_TAIL:]
        return part

    def last_line(self) -> str:
        read = 0
        while read < _BURST and (part := self._part()):
            read += len(part)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._reading)
        self._loop = None
        os.close(self._reading)
        os.close(self.writing)
