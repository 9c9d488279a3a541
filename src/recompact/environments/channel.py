"""Messages between the harness and an environment's process: JSON after its length in four bytes, on a unix socket.

This is the blocking end in a host, under any interpreter; the harness's is in `async_channel`.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]

MESSAGE_LIMIT = 96 * 1024 * 1024
"""Bytes of one message, unless [suite.limits] message says otherwise."""


class TooLarge(Exception):
    """This message is over the limit and was not sent."""


def pack(message: Mapping[str, Any], limit: int = 0xFFFFFFFF) -> bytes:
    data = json.dumps(message).encode()
    if len(data) > limit:
        raise TooLarge(f"it takes {len(data):,} bytes, where {limit:,} are allowed ([suite.limits] message)")
    return struct.pack(">I", len(data)) + data


class Channel:
    """The end inside a host."""

    def __init__(self, descriptor: int, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit  # of what is sent
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(None)  # an environment may have set another default

    def send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(pack(message, self._limit))

    def receive(self) -> Message | None:
        """The next message, or None where the other side has gone."""
        try:
            head = self._exactly(4)
            size = struct.unpack(">I", head)[0] if len(head) == 4 else 0
            data = self._exactly(size)
        except ConnectionError:
            return None
        return json.loads(data) if size and len(data) == size else None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size and (more := self._socket.recv(min(size - len(data), 1 << 20))):
            data += more
        return bytes(data)
