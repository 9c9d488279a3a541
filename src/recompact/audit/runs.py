"""A run of Recompact as the audit sees it: each of its trajectories a session, measured by one scheme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recompact.audit.auditing import Audit, audit_trajectory, in_one_scheme
from recompact.audit.findings import Session
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.values.chat import Message
from recompact.values.context import Turn, replaced_turns
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptKeys, Passage, Result
from recompact.values.trajectory import Boundary


def audit_run(store: Store) -> Audit:
    """Audit the trajectories that a run collected, evaluated or wrapped, without tasks that it skips."""
    return Audit(in_one_scheme(tuple(_sessions(store))), (), store.path.stat().st_size)


def _sessions(store: Store) -> Iterator[Session]:
    phases = ("evaluate",) if store.metadata.command == "evaluate" else ("collect", "wrap")
    for phase in phases:
        for row in trajectories(store, phase=phase):
            head, parts = stream_trajectory(store, row.unit)
            events = trajectory_events(row.unit, store.metadata.suite, head.context.prefix, parts)
            yield audit_trajectory(events, store.path, row.unit)


def trajectory_events(
    unit: str, project: str, prefix: Sequence[Message], parts: Iterable[Turn | Boundary]
) -> Iterator[Event]:
    """The events of one trajectory, from its turns and boundaries in order; places are step numbers, from 1."""
    yield Info(unit, project=project)
    for message in prefix:
        yield Passage("user" if message.role == "user" else "system", message.content, _PREFIX)
    step = 0
    for part in parts:
        if isinstance(part, Boundary):
            yield _compaction(unit, part)
        else:
            step += 1
            yield from _turn(part, step)


_PREFIX = "prefix"


def _turn(turn: Turn, step: int) -> Iterator[Event]:
    key = f"step {step}"
    if turn.message.content:
        yield Passage("assistant", turn.message.content, key, step)
    for call in turn.message.calls:
        yield Call(f"{step} {call.id}", call.name, call.readable, "", key, key, step)
    for result in turn.results:
        if result.call_id:
            yield Result(f"{step} {result.call_id}", result.content, None, key, step)
        else:
            yield Passage("user", result.content, key, step)


def _compaction(unit: str, boundary: Boundary) -> CompactionEvent:
    """What POST has of the turns is the latest of PRE; a turn that was changed in its place is not kept."""
    gone = set(replaced_turns(boundary.pre, boundary.post))
    first = boundary.step - len(boundary.pre.turns) + 1
    kept = [first + n for n in range(len(boundary.pre.turns)) if n not in gone]
    # A compressor that only drops writes no summary: "" is readable, and covers nothing.
    summary = boundary.post.summary.text if boundary.post.summary else ""
    return CompactionEvent(
        KeptKeys(frozenset([_PREFIX, *(f"step {step}" for step in kept)])),
        summary,
        tokens_before=boundary.pre.size,
        tokens_after=boundary.post.size,
        identity=f"{unit}#{boundary.index}",
        line=boundary.step,
    )
