"""What models were asked, as the journal keeps it: exact, or not at all.

A conversation is kept as the hashes of its messages, so that it can be checked against the digest of the call before
any of its texts is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recompact.chat import Decoding, Message, Request, ToolSpec, chain_digests
from recompact.models.journal import seed_of
from recompact.store.store import Store

_HASH = 32  # bytes


@dataclass(frozen=True)
class KeptRequest:
    """A request that is word for word what was sent: its digest is that of the journaled call."""

    messages: tuple[bytes, ...]  # hashes of texts, in order
    tools: tuple[ToolSpec, ...]
    decoding: Decoding

    def message(self, store: Store, number: int) -> Message:
        """One of its messages, from 0."""
        return Message.from_json(store.document(self.messages[number]))


def kept_request(store: Store, unit: str, ordinal: int) -> KeptRequest | None:
    """What was asked, or None where the run does not have it: an older version did not keep it.

    Raises `StoreError` where what is kept is not what was sent.
    """
    calls = store._rows("SELECT request FROM calls WHERE unit = ? AND ordinal = ?", (unit, ordinal))
    rows = {row["ordinal"]: row for row in _rows(store, unit, ordinal)}
    if not calls or ordinal not in rows:
        return None
    try:
        request = _request(store, unit, ordinal, rows)
        sent = calls[0]["request"].hex()
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise store.damaged(f"what call {ordinal + 1} of {unit} asked cannot be read ({error})") from error
    chain = chain_digests("", (key.hex() for key in request.messages))
    if Request((), request.tools, request.decoding, chain).digest != sent:
        raise store.damaged(f"what is kept of call {ordinal + 1} of {unit} is not what was sent")
    return request


def _rows(store: Store, unit: str, ordinal: int) -> list[Any]:
    """The requests of a unit up to this one; a file of an older version has no such table."""
    if not store.has_table("requests"):
        return []
    return store._rows("SELECT * FROM requests WHERE unit = ? AND ordinal <= ? ORDER BY ordinal", (unit, ordinal))


def _request(store: Store, unit: str, ordinal: int, rows: dict[int, Any]) -> KeptRequest:
    row, decoding = rows[ordinal], store.document(rows[ordinal]["decoding"])
    tools = store.document(row["tools"]) if row["tools"] is not None else []
    return KeptRequest(
        _messages(ordinal, rows),
        tuple(ToolSpec.from_json(tool) for tool in tools),
        Decoding.from_json(decoding).seeded(seed_of(unit, ordinal, store.metadata.seed)),
    )


def _messages(ordinal: int, rows: dict[int, Any]) -> tuple[bytes, ...]:
    """The hashes of a request's messages: its own, after those that it shares with earlier calls."""
    parts: list[bytes] = []
    at: int | None = ordinal
    wanted: int | None = None
    while at is not None:
        row = rows[at]
        blob, shared = row["messages"], row["shared"]
        if not isinstance(blob, bytes) or len(blob) % _HASH:
            raise TypeError("its messages are no hashes")
        own = [blob[start : start + _HASH] for start in range(0, len(blob), _HASH)]
        parts[:0] = own if wanted is None else own[: max(0, wanted - shared)]
        wanted = shared if wanted is None else min(wanted, shared)
        if row["base"] is not None and row["base"] >= at:
            raise ValueError("it refers to a later call")
        at = row["base"] if wanted else None
    return tuple(parts)
