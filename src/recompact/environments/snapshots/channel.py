"""Messages between the harness and an environment's process: JSON after its length in four bytes, on a unix socket.

This is the blocking end in a host, under any interpreter; the harness's is in `async_channel`. Open files can travel
with a message, which is how a process that is about to be forked gets the files that will be its own.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]

MESSAGE_LIMIT = 96 * 1024 * 1024
"""Bytes of one message, unless [suite.limits] message says otherwise."""

_MOST_FILES = 8


class TooLarge(Exception):
    """This message is over the limit and was not sent."""


def pack(message: Mapping[str, Any], limit: int = 0xFFFFFFFF) -> bytes:
    data = json.dumps(message).encode()
    if len(data) > limit:
        raise TooLarge(f"it takes {len(data):,} bytes, where {limit:,} are allowed ([suite.limits] message)")
    return struct.pack(">I", len(data)) + data


class Channel:
    """The end inside a host. `lifeline` is a pipe that only the harness can end: see `fork.die_with_harness`."""

    def __init__(self, descriptor: int, lifeline: int | None = None, limit: int = MESSAGE_LIMIT) -> None:
        self.limit = limit  # of what is sent
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(None)  # an environment may have set another default
        self._lifeline = lifeline

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(pack(message, self.limit))

    def receive(self) -> Message | None:
        received = self.receive_with_files()
        return received[0] if received else None

    def receive_with_files(self) -> tuple[Message, list[int]] | None:
        """The next message and the files that came with it, or None where the other side has gone."""
        try:
            head, files, _, _ = socket.recv_fds(self._socket, 4, _MOST_FILES)
            for file in files:
                os.set_inheritable(file, False)  # ours, and not for the programs that the environment starts
            head += self._exactly(4 - len(head)) if head else b""
            if len(head) < 4:
                return None
            size = struct.unpack(">I", head)[0]
            data = self._exactly(size)
        except ConnectionError:
            return None
        return (json.loads(data), files) if len(data) == size else None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size and (more := self._socket.recv(min(size - len(data), 1 << 20))):
            data += more
        return bytes(data)

    def close(self) -> None:
        """Close this end without ending it for other processes that share it."""
        self._socket.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
