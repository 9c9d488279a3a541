"""How texts and requests are packed into bytes, so that what is already in a run is not written again.

A text may lean on others of the run: it is compressed with their ends at hand. A request leans on the last call of its
role: only what is new in a growing conversation is kept.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recompact.models.journal import JournalAnswer, JournalRequest
from recompact.values.chat import Message, canonical

HASH = 32  # bytes
SMALL = 200  # bytes below which compressing costs more than it saves
_MOST = 512 * 1024 * 1024  # bytes of one text: far more than anything that is written, and no more than fits
_WINDOW = 32 * 1024  # bytes that zlib can look back
_LONGEST = 1024 * 1024  # bytes of a text that others may lean on
_SHORT = 8  # bytes of a hash that identify a text
_NEIGHBOURS = 60
_WORTH = 1_000  # characters from which it is worth looking for what a message repeats

Plain = Callable[[bytes], tuple[int, bytes] | None]
"""Codec and data of a text, by the beginning of its hash."""


def pack(raw: bytes, plain: Plain, near: Sequence[bytes] = ()) -> tuple[int, bytes]:
    """Codec and data of a text."""
    if len(raw) <= SMALL:
        return 0, raw
    names, dictionary = _dictionary([key[:_SHORT] for key in near], plain)
    if names:
        packing = zlib.compressobj(6, zdict=dictionary)
        leaning = bytes([len(names)]) + b"".join(names) + packing.compress(raw) + packing.flush()
        alone = zlib.compress(raw, 1)
        return (2, leaning) if len(leaning) < len(alone) else (1, alone)
    return 1, zlib.compress(raw, 1)


def unpack(codec: object, data: object, plain: Plain) -> bytes | None:
    """The bytes that were packed, or None where these are not what `pack` writes."""
    if codec not in (0, 1, 2) or not isinstance(data, bytes):
        return None
    if codec == 0:
        return data
    if codec == 1:
        return _inflate(zlib.decompressobj(), data, _MOST)
    if not data or len(data) < (start := 1 + _SHORT * data[0]):
        return None
    wanted = [data[at : at + _SHORT] for at in range(1, start, _SHORT)]
    names, dictionary = _dictionary(wanted, plain)
    return _inflate(zlib.decompressobj(zdict=dictionary), data[start:], _MOST) if names == wanted else None


def _inflate(unpacking: Any, data: bytes, most: int) -> bytes | None:
    try:
        raw: bytes = unpacking.decompress(data, most + 1)
    except zlib.error:
        return None
    return raw if unpacking.eof and len(raw) <= most else None


def _dictionary(names: Sequence[bytes], plain: Plain) -> tuple[list[bytes], bytes]:
    """The texts to lean on, as far as a window reaches: the last ones, in order, none of which leans on others."""
    used: list[bytes] = []
    texts: list[bytes] = []
    for name in reversed(names):
        if sum(map(len, texts)) >= _WINDOW or len(used) == _NEIGHBOURS:
            break
        row = plain(name)
        if row is None or row[0] not in (0, 1) or not isinstance(row[1], bytes):
            continue
        text = row[1] if row[0] == 0 else _inflate(zlib.decompressobj(), row[1], _LONGEST)
        if text:
            used.insert(0, name)
            texts.insert(0, text)
    return used, b"".join(texts)[-_WINDOW:]


# --- requests


class Put(Protocol):
    """Keeps a text; returns its hash."""

    def __call__(self, data: str | Message, near: Sequence[bytes] = ()) -> bytes: ...


_HEAD = struct.Struct(">iIB")
_TOOLS, _DECODING, _REPLY = 1, 2, 4


@dataclass(frozen=True)
class PackedRequest:
    """What is kept of a request. Its first `shared` messages are those of the call `base` of the same unit, then comes
    the reply of that call where `reply` says so, then `messages`. What is None is as in `base`."""

    base: int | None
    shared: int
    reply: bool
    messages: tuple[bytes, ...]
    tools: bytes | None
    decoding: bytes | None


def pack_request(asked: JournalRequest, put: Put) -> bytes:
    """A request as bytes; `put` keeps its texts. The seed is left out: it comes from the names of unit and call."""
    request, before = asked.request, asked.before
    shared = _shared_beginning(before.request.messages, request.messages) if before else 0
    reply = bool(before and request.messages[shared : shared + 1] == (before.reply,))
    parts = b""
    flags = _REPLY * reply
    if before is None or before.request.tools != request.tools:
        flags |= _TOOLS
        parts += put(canonical([tool.to_json() for tool in request.tools]))
    if before is None or before.request.decoding != request.decoding:
        flags |= _DECODING
        parts += put(request.decoding.text)
    parts += b"".join(put(new, _near(new, asked.latest)) for new in request.messages[shared + reply :])
    return _HEAD.pack(before.ordinal if before else -1, shared, flags) + parts


def unpack_request(data: object) -> PackedRequest:
    """Raises ValueError where it is not what `pack_request` writes."""
    if not isinstance(data, bytes) or len(data) < _HEAD.size or (len(data) - _HEAD.size) % HASH:
        raise ValueError("it has not the form of a request")
    base, shared, flags = _HEAD.unpack_from(data)
    hashes = [data[at : at + HASH] for at in range(_HEAD.size, len(data), HASH)]
    parts = [hashes.pop(0) if flags & bit and hashes else None for bit in (_TOOLS, _DECODING)]
    return PackedRequest(
        base if base >= 0 else None, shared, bool(flags & _REPLY), tuple(hashes), tools=parts[0], decoding=parts[1]
    )


def _shared_beginning(before: Sequence[Message], now: Sequence[Message]) -> int:
    """How many first messages two conversations share."""
    if now[: len(before)] == before:  # it goes on: one comparison in C, however long it has become
        return len(before)
    for number, (old, new) in enumerate(zip(before, now, strict=False)):
        if old is not new and old != new:
            return number
    return min(len(before), len(now))


def _near(message: Message, latest: JournalAnswer | None) -> list[bytes]:
    """What a message may repeat: the conversation before it, and its answer. Looking takes time, and only prompts and
    summaries are worth it: what a tool returns is new."""
    if latest is None or message.role not in ("system", "user") or len(message.content) < _WORTH:
        return []
    return [bytes.fromhex(each.digest) for each in (*latest.request.messages, latest.reply)]
