"""Transcripts or a run of Recompact in, findings out: read as streams, and what could not be used is counted.

In a run each of its trajectories is a session, and one scheme measures them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recompact.audit.findings import Session
from recompact.audit.ledger import Ledger
from recompact.audit.measures import RUN_SCHEMES, SCHEMES
from recompact.engine.store.records import stream_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.values.chat import Message
from recompact.values.context import Turn, replaced_turns
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    KeptKeys,
    NewSession,
    Passage,
    Result,
    SkippedFile,
    Tally,
    Transcript,
    Unreadable,
)
from recompact.values.trajectory import Boundary

RECOMPACT = "recompact"  # the harness of trajectories that Recompact itself recorded
OWN = 8  # placebo points it takes to know the habit of a session, a harness or a run


@dataclass(frozen=True)
class Audit:
    """All sessions that were read, and the files that were skipped."""

    sessions: tuple[Session, ...]
    skipped: tuple[SkippedFile, ...]
    size: int  # bytes

    def __add__(self, other: Audit) -> Audit:
        return Audit((*self.sessions, *other.sessions), (*self.skipped, *other.skipped), self.size + other.size)


def audit_transcripts(transcripts: Iterable[Transcript | SkippedFile]) -> Audit:
    """Audit transcripts one by one."""
    skipped: list[SkippedFile] = []
    sessions: list[Session] = []
    size = 0
    for transcript in transcripts:
        if isinstance(transcript, SkippedFile):
            skipped.append(transcript)
            continue
        try:
            sessions += _audit(transcript)
            size += transcript.size
        except Unreadable as error:
            skipped.append(SkippedFile(transcript.path, "unreadable", str(error)))
        except OSError as error:
            skipped.append(SkippedFile(transcript.path, "unreadable", error.strerror or str(error)))
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            # One changed format must not cost the audit of all the others.
            why = f"its records do not have the expected shape ({type(error).__name__}: {error})"
            skipped.append(SkippedFile(transcript.path, "unreadable", why))
    return Audit(tuple(_without_copies(sessions)), tuple(skipped), size)


def audit_trajectory(events: Iterable[Event], path: Path, unit: str) -> Session:
    """Audit one trajectory of a run; the schemes of runs are measured side by side."""
    ledger = Ledger(Tally(), RUN_SCHEMES)
    for event in events:
        ledger.take(event)
    return ledger.close(path, unit, RECOMPACT)


def in_one_scheme(sessions: Sequence[Session]) -> tuple[Session, ...]:
    """The trajectories of one run, which are compared with one another, in the widest scheme that fits most of them.

    It fits if at least half of the compactions can be measured and there is a control to compare them with.
    """
    compactions = [compaction for session in sessions for compaction in session.compactions]
    for scheme in RUN_SCHEMES:
        measured = sum(scheme.name in compaction.points for compaction in compactions)
        control = sum(len(session.placebos[scheme.name]) for session in sessions if session.compactions)
        if 2 * measured >= len(compactions) and control >= OWN:
            break
    return tuple(session.in_scheme(scheme) for session in sessions)


def _audit(transcript: Transcript) -> Iterator[Session]:
    def close() -> Session:
        session = ledger.close(transcript.path, transcript.member, transcript.harness)
        return _in_own_scheme(session, transcript.modified)

    tally = Tally()
    ledger = Ledger(tally)
    for event in transcript.events(tally):
        if isinstance(event, NewSession):
            yield close()
            ledger = Ledger(Tally())
        else:
            ledger.take(event)
    yield close()


def _in_own_scheme(session: Session, modified: float) -> Session:
    own = next(scheme for scheme in SCHEMES if scheme.name == session.scheme)
    return replace(session.in_scheme(own), modified=modified)


def _without_copies(sessions: list[Session]) -> Iterator[Session]:
    """Forks and resumed sessions repeat their parents' records: each compaction counts once, where it happened."""
    owners: dict[tuple[str, str], int] = {}
    by_origin = sorted(
        range(len(sessions)), key=lambda n: (sessions[n].info.standing != "main", str(sessions[n].path), n)
    )
    for number in by_origin:
        for compaction in sessions[number].compactions:
            if compaction.identity:
                owners.setdefault((sessions[number].harness, compaction.identity), number)
    copies: dict[int, int] = defaultdict(int)
    for number, session in enumerate(sessions):
        own = tuple(
            compaction
            for compaction in session.compactions
            if not compaction.identity or owners[session.harness, compaction.identity] == number
        )
        copies[number] = len(session.compactions) - len(own)
        yield replace(session, compactions=own, copies=copies[number]) if copies[number] else session


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
    dropped_turns = set(replaced_turns(boundary.pre, boundary.post))
    first = boundary.step - len(boundary.pre.turns) + 1
    kept = [first + n for n in range(len(boundary.pre.turns)) if n not in dropped_turns]
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
