"""The harness's end of the channel to a host, and the pipe from whose end a host learns that the harness is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from recompact.environments.snapshots.channel import Message, pack


class AsyncChannel:
    """The harness's end. It belongs to no event loop, so that holders outlive the loop in which they were created."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        _own.add(self)

    async def send(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        data = pack(message)
        while files:  # they go with the first bytes, which may have to wait while others are not yet read
            try:
                data = data[socket.send_fds(self._socket, [data], files) :]
                break
            except BlockingIOError:
                await asyncio.sleep(0.005)
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a short message that nobody waits for."""
        with contextlib.suppress(OSError):
            self._socket.send(pack(message))

    async def receive(self) -> Message | None:
        """The next message, or None where the other side has gone or broke off in the middle."""
        try:
            head = await self._exactly(4)
            data = await self._exactly(struct.unpack(">I", head)[0]) if len(head) == 4 else b""
            message: Message | None = json.loads(data) if data else None
        except (ConnectionError, ValueError):
            return None
        return message

    async def drain(self) -> bytes:
        """The last bytes before the other side is gone, when it may stop in the middle of a message."""
        tail = b""
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16):
                tail = (tail + part)[-100:]
        return tail

    async def _exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            more = await loop.sock_recv_into(self._socket, view[filled:])
            if not more:
                break
            filled += more
        return bytes(data[:filled])

    def close(self) -> None:
        self._socket.close()


class Lifeline:
    """A pipe on which nothing is ever sent: whoever has `theirs` learns from its end that the harness is gone."""

    def __init__(self) -> None:
        self.theirs, ours = os.pipe()
        self._ours: int | None = ours
        _own.add(self)

    def hand_over(self) -> None:
        """The other process has its end now; let go of it here."""
        os.close(self.theirs)

    def close(self) -> None:
        if self._ours is not None:
            os.close(self._ours)
            self._ours = None


_own: weakref.WeakSet[AsyncChannel | Lifeline] = weakref.WeakSet()


def _let_go() -> None:
    for end in list(_own):
        end.close()


# A process that the harness forks, such as a worker of a pool, must not keep these open when the harness has died.
os.register_at_fork(after_in_child=_let_go)


def socket_pair() -> tuple[AsyncChannel, socket.socket]:
    """A channel, and the end of it that goes to another process."""
    ours, theirs = socket.socketpair()
    return AsyncChannel(ours), theirs
