"""What the journal says of the calls that were made: by unit, by phase and by role, and what models were asked.

A request is kept exact, or not at all: as the hashes of its messages, so that it can be checked against the digest of
the call before any of its texts is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.packing import unpack_request
from recompact.engine.store.store import USAGE, Store
from recompact.models.journal import JournaledReply, seed_of
from recompact.values.chat import Decoding, Message, Request, ToolSpec, Usage, chain_digests

_SUMS = ", ".join(f"sum({name})" for name in USAGE)


def journaled_calls(store: Store, prefix: str = "") -> list[tuple[str, int]]:
    """Unit and ordinal of every call, in order; with a prefix, of units whose names begin with it."""
    rows = store._rows(
        "SELECT unit, ordinal FROM calls WHERE substr(unit, 1, ?) = ? ORDER BY unit, ordinal", (len(prefix), prefix)
    )
    return [(row["unit"], row["ordinal"]) for row in rows]


def first_agent_inputs(store: Store) -> dict[str, int]:
    """Input tokens of each unit's first agent call: the prefix and the tools, since there is no history yet."""
    rows = store._rows("SELECT unit, input, min(ordinal) FROM calls WHERE role = 'agent' GROUP BY unit")
    return {row["unit"]: row["input"] for row in rows}


def usage_by_phase(store: Store) -> dict[str, dict[str, Usage]]:
    """All that was paid for, by phase of the work and role. The phase is the first word of a unit's name."""
    columns = ", ".join(USAGE)
    rows = store._rows(
        f"SELECT phase, role, {_SUMS} FROM (SELECT substr(unit, 1, instr(unit, '/') - 1) AS phase, role, {columns}"
        f" FROM calls UNION ALL SELECT phase, role, {columns} FROM dropped) GROUP BY phase, role ORDER BY phase, role"
    )
    usage: dict[str, dict[str, Usage]] = {}
    for row in rows:
        usage.setdefault(row["phase"], {})[row["role"]] = Usage(*row[2:])
    return usage


def tokens_by_phase(store: Store) -> dict[str, dict[str, int]]:
    """Tokens that were paid for, by phase of the work and role."""
    return {phase: {role: u.total for role, u in roles.items()} for phase, roles in usage_by_phase(store).items()}


def usage_by_unit(store: Store, roles: Collection[str] = ()) -> dict[str, Usage]:
    """What the journaled calls of each unit used, in all roles or in these."""
    chosen = f" WHERE role IN ({', '.join('?' * len(roles))})" if roles else ""
    rows = store._rows(f"SELECT unit, {_SUMS} FROM calls{chosen} GROUP BY unit", tuple(roles))
    return {row["unit"]: Usage(*row[1:]) for row in rows}


def tokens_by_unit(store: Store, roles: Collection[str] = ()) -> dict[str, int]:
    """Tokens of the journaled calls of each unit, in all roles or in these."""
    return {unit: usage.total for unit, usage in usage_by_unit(store, roles).items()}


@dataclass(frozen=True)
class CallRow:
    """One call of the journal, without its texts."""

    unit: str
    ordinal: int  # from 0
    role: str
    model: str
    input: int
    output: int
    request: str  # digest
    message: bytes  # hash of the reply


def call_rows(store: Store, unit: str, start: int = 0, limit: int = -1) -> list[CallRow]:
    """The calls of a unit in order, from the ordinal `start` on."""
    rows = store._rows(
        "SELECT * FROM calls WHERE unit = ? AND ordinal >= ? ORDER BY ordinal LIMIT ?", (unit, start, limit)
    )
    for row in rows:
        kinds = {"ordinal": int, "role": str, "model": str, "input": int, "output": int, "request": bytes}
        if odd := [name for name, kind in kinds.items() if not isinstance(row[name], kind)]:
            raise store.damaged(f"a call of {unit} has no proper {odd[0]}")
    return [
        CallRow(
            *(unit, row["ordinal"], row["role"], row["model"] or str(row["configured"])),
            *(row["input"], row["output"], row["request"].hex(), row["message"]),
        )
        for row in rows
    ]


def journaled_replies(store: Store, configured: Collection[str]) -> list[JournaledReply]:
    """All replies of these models, by unit and in order."""
    rows = store._rows("SELECT DISTINCT unit, configured FROM calls ORDER BY unit")
    units = dict.fromkeys(row["unit"] for row in rows if row["configured"] in configured)
    return [reply for unit in units for reply in unit_replies(store, unit) if reply.configured in configured]


def unit_replies(store: Store, unit: str) -> list[JournaledReply]:
    """All replies that a unit got, in order."""
    replies = store.journaled(unit)
    rows = store._rows("SELECT ordinal, role, configured, seconds FROM calls WHERE unit = ? ORDER BY ordinal", (unit,))
    return [
        JournaledReply(unit, row["ordinal"], row["role"], row["configured"], *replies[row["ordinal"]], row["seconds"])
        for row in rows
    ]


def count_calls(store: Store, unit: str) -> int:
    """How many calls of a unit were answered."""
    return int(store._rows("SELECT count(*) AS n FROM calls WHERE unit = ?", (unit,))[0]["n"])


def compressor_calls(store: Store, unit: str, step: int) -> tuple[int, ...]:
    """The ordinals of the calls to the compressor that a trajectory made after `step` steps of its agent."""
    rows = store._rows("SELECT ordinal, role FROM calls WHERE unit = ? ORDER BY ordinal", (unit,))
    steps, ordinals = 0, []
    for row in rows:
        steps += row["role"] == "agent"
        if row["role"] == "compressor" and steps == step:
            ordinals.append(row["ordinal"])
    return tuple(ordinals)


def compressor_usage(store: Store, unit: str, step: int) -> Usage:
    """What those calls used."""
    ordinals = compressor_calls(store, unit, step)
    marks = ", ".join("?" * len(ordinals))
    rows = store._rows(
        f"SELECT {', '.join(USAGE)} FROM calls WHERE unit = ? AND ordinal IN ({marks})", (unit, *ordinals)
    )
    return sum((Usage(*row) for row in rows), Usage())


@dataclass(frozen=True)
class Pace:
    """Seconds that a call to a model took on average, and those from its reply to the next call of the same unit."""

    call: float
    pause: float


def pace_of(store: Store, configured: str) -> Pace:
    """The pace of the collected and evaluated trajectories by this model; 0 where there are none. What other models
    took is part of the pause, except for compressors, which continuations do not ask."""
    rows = store._rows(
        "SELECT coalesce(sum(CASE WHEN configured = ? THEN 1 END), 0) AS calls,"
        " coalesce(sum(CASE WHEN configured = ? THEN seconds END), 0) AS asking,"
        " coalesce(sum(CASE WHEN configured = ? OR role = 'compressor' THEN seconds END), 0) AS apart"
        " FROM calls WHERE unit IN (SELECT unit FROM trajectories WHERE phase IN ('collect', 'evaluate'))",
        (configured, configured, configured),
    )
    calls, asking, apart = rows[0]["calls"], rows[0]["asking"], rows[0]["apart"]
    playing = store._rows(
        "SELECT coalesce(sum(seconds), 0) AS seconds FROM units"
        " WHERE name IN (SELECT unit FROM trajectories WHERE phase IN ('collect', 'evaluate'))"
    )[0]["seconds"]
    # A unit that was resumed took less than its calls, some of which came from the journal.
    return Pace(asking / calls, max(0.0, playing - apart) / calls) if calls else Pace(0.0, 0.0)


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
