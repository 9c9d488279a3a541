"""A run as the audit sees it: each of its trajectories a session, measured by one scheme."""

from __future__ import annotations

from collections.abc import Iterator

from recompact.audit.auditing import Audit, audit_trajectory, in_one_scheme
from recompact.audit.files import Passed
from recompact.audit.findings import Session
from recompact.audit.trajectories import trajectory_events
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store


def audit_run(store: Store) -> Audit:
    """Audit the trajectories that a run collected, evaluated or wrapped, without tasks that it skips."""
    return Audit(in_one_scheme(tuple(_sessions(store))), Passed(), store.path.stat().st_size)


def _sessions(store: Store) -> Iterator[Session]:
    phases = ("evaluate",) if store.metadata.command == "evaluate" else ("collect", "wrap")
    for phase in phases:
        for row in trajectories(store, phase=phase):
            head, parts = stream_trajectory(store, row.unit)
            events = trajectory_events(row.unit, store.metadata.suite, head.context.prefix, parts)
            yield audit_trajectory(events, store.path, row.unit)
