"""What the journal says of the calls that were made: by unit, by phase and by role."""

from __future__ import annotations

from recompact.store.store import Store


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


def tokens_by_phase(store: Store) -> dict[str, dict[str, int]]:
    """Tokens that were paid for, by phase of the work and role. The phase is the first word of a unit's name."""
    rows = store._rows(
        "SELECT phase, role, sum(input + output) AS tokens FROM (SELECT substr(unit, 1, instr(unit, '/') - 1) AS phase,"
        " role, input, output FROM calls UNION ALL SELECT phase, role, input, output FROM dropped)"
        " GROUP BY phase, role ORDER BY phase, role"
    )
    tokens: dict[str, dict[str, int]] = {}
    for row in rows:
        tokens.setdefault(row["phase"], {})[row["role"]] = row["tokens"]
    return tokens


def tokens_by_unit(store: Store) -> dict[str, int]:
    """Tokens of the journaled calls of each unit."""
    rows = store._rows("SELECT unit, sum(input + output) AS tokens FROM calls GROUP BY unit")
    return {row["unit"]: row["tokens"] for row in rows}
