"""What models were asked, as the journal keeps it: exact, or not at all.

A conversation is kept as the hashes of its messages, so that it can be checked against the digest of the call before
any of its texts is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.packing import unpack_request
from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.values.chat import Decoding, Message, Request, ToolSpec, chain_digests


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
    query = "SELECT ordinal, request, message, asked FROM calls WHERE unit = ? AND ordinal <= ? ORDER BY ordinal"
    rows = {row["ordinal"]: row for row in store._rows(query, (unit, ordinal))}
    if ordinal not in rows or rows[ordinal]["asked"] is None:
        return None
    try:
        request = _request(store, unit, ordinal, rows)
        sent = rows[ordinal]["request"].hex()
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise store.damaged(f"what was asked cannot be read ({error}) in call {ordinal + 1} of {unit}") from error
    chain = chain_digests("", (key.hex() for key in request.messages))
    if Request((), request.tools, request.decoding, chain).digest != sent:
        raise store.damaged(f"what is kept is not what was sent in call {ordinal + 1} of {unit}")
    return request


def _request(store: Store, unit: str, ordinal: int, rows: Mapping[int, Any]) -> KeptRequest:
    """A request and those that it continues, the last one first, until nothing of it is missing."""
    messages: list[bytes] = []
    tools = decoding = None
    at: int | None = ordinal
    wanted: int | None = None  # messages of the one at hand; None: all of them
    while at is not None:
        packed = unpack_request(rows[at]["asked"])
        replied = [rows[packed.base]["message"]] if packed.reply and packed.base is not None else []
        own = [*replied, *packed.messages]
        messages[:0] = own if wanted is None else own[: max(0, wanted - packed.shared)]
        wanted = packed.shared if wanted is None else min(wanted, packed.shared)
        tools, decoding = tools or packed.tools, decoding or packed.decoding
        if packed.base is not None and packed.base >= at:
            raise ValueError("it refers to a later call")
        at = packed.base if wanted or tools is None or decoding is None else None
    if tools is None or decoding is None:
        raise ValueError("its tools or its settings are missing")
    return KeptRequest(
        tuple(messages),
        tuple(ToolSpec.from_json(tool) for tool in store.document(tools)),
        Decoding.from_json(store.document(decoding)).seeded(seed_of(unit, ordinal, store.metadata.seed)),
    )
