"""Which runs can be verified, and how: what commands say of those that have no effects."""

from __future__ import annotations

from contextlib import suppress

from recompact.engine.store.runs import WRAPPED, config_of, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.texts import command_line, quantity

LOOP = "loop"
"""The suite of a run that `recompact.gateway` recorded."""


def refuse_without_effects(store: Store) -> None:
    """Raise where the compactions have no snapshots and so no effects: in an evaluation and of a wrapped agent."""
    if store.metadata.suite == WRAPPED:
        raise InputError(
            f"{store.path} is of a wrapped agent: no snapshots were taken, so effects cannot be estimated. See what"
            f" followed its compactions: {command_line('audit', store.path)}"
        )
    if store.metadata.command != "evaluate":
        return
    phase, config = trajectories(store, phase="evaluate"), "CONFIG"
    with suppress(InputError):
        config = str(config_of(store))
    compactions = quantity(sum(row.compactions for row in phase), "compaction")
    raise InputError(
        f"{store.path} is an evaluation: it took no snapshots at its {compactions} in"
        f" {quantity(len(phase), 'trajectory')}, so effects cannot be estimated. To estimate them, run"
        f" {command_line('collect', config)} && {command_line('verify', config)}. To see what the agent did after each"
        f" compaction, run {command_line('show', store.path, options=['--behaviour'])}"
    )


def way_to_verify(store: Store, *options: str) -> str:
    """The command that verifies a run, or what can be done where there is none."""
    if store.metadata.suite == LOOP and not store.metadata.config_file:
        return "a loop is verified from Python, as a subject that recompact.agent_suite makes of it: docs/loops.md"
    return command_line("verify", store.path, options=options)
