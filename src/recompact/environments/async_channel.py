"""The harness's end of the channel to a host, and the pipe by whose closing a host learns that the harness is gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import weakref
from collections.abc import Mapping
from typing import Any

from recompact.environments.channel import MESSAGE_LIMIT, Message, pack

_PART = 1 << 20
_MOST_VALUES = 8_000_000  # commas and brackets in a message: more would take gigabytes as Python objects


class MalformedMessage(Exception):
    """What came from a host is not a message of the protocol; the text says what it was."""


def _message(data: bytes) -> Message:
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise MalformedMessage(f"a message of more than {_MOST_VALUES:,} values")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"bytes that are not JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise MalformedMessage(f"a JSON {type(message).__name__} in place of an object")
    return message


class AsyncChannel:
    """The harness's end."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._received = bytearray()  # of the next message, as far as it has arrived
        _own.add(self)

    async def send(self, message: Mapping[str, Any]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, pack(message))

    async def receive(self, limit: int = MESSAGE_LIMIT) -> Message | None:
        """The next message, or None where the other side has gone or broke off in the middle.

        Whoever stops waiting can ask again: the part received so far is kept. Raises `MalformedMessage` for anything
        that is not a message of at most `limit` bytes.
        """
        try:
            if not await self._have(4):
                return None
            size = struct.unpack_from(">I", self._received)[0]
            if not 0 < size <= limit:
                raise MalformedMessage(f"a message of {size:,} bytes, where 1 to {limit:,} are allowed")
            if not await self._have(4 + size):
                return None
        except ConnectionError:
            return None
        data = bytes(memoryview(self._received)[4 : 4 + size])
        del self._received[: 4 + size]
        return _message(data)

    async def _have(self, size: int) -> bool:
        """Wait until `size` bytes have arrived; False where the other side goes first."""
        while len(self._received) < size:
            part = await self._part()
            if not part:
                return False
            self._received += part  # it grows with what has arrived: a length alone is only a claim
        return True

    async def _part(self) -> bytes:
        """Some bytes once there are any, or none where the other side has gone.

        Only the wait can be interrupted. Bytes are taken after it, so none are lost with a wait that is given up.
        """
        while True:
            try:
                return self._socket.recv(_PART)
            except BlockingIOError:
                await self._readable()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._socket, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._socket)

    def close(self) -> None:
        self._socket.close()


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Lifeline:
    """A pipe on which nothing is ever sent: whoever has `theirs` learns from its closing that the harness is gone."""

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
