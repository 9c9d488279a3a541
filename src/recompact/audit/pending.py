"""A compaction whose window is still open, and what is found out once the window is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.audit.call_effects import ASIDE
from recompact.audit.cases import Text, failures, needs, refetches, rereads, scene
from recompact.audit.findings import AuditedCompaction
from recompact.audit.measures import CHARACTERS_PER_TOKEN, WIDE, Horizon, Point, Scheme, Step, measure
from recompact.values.session import CompactionEvent


@dataclass
class PendingCompaction:
    """A compaction whose window is still open."""

    event: CompactionEvent
    boundary: Horizon
    ordinal: int
    before: int | None
    after: int | None
    chars_before: int  # 0 where the file does not hold what was compacted
    chars_after: int
    dropped_calls: int
    kept_calls: int
    since_edit: int | None
    reading_phase: bool
    dropped: list[Text]
    kept: list[Text]
    known: dict[int, Step]
    earlier_summary: str
    tail: list[Step]
    asked: str
    folder: str  # that the session runs in
    in_all: tuple[int, int]  # calls of any kind that were dropped and kept


def settle(
    pending: PendingCompaction, steps: Sequence[Step], since: Sequence[Text], schemes: Sequence[Scheme]
) -> AuditedCompaction:
    """What a compaction and the calls after it show; `since` are the texts after it."""
    boundary, event = pending.boundary, pending.event
    window = steps[: WIDE.window]
    points, measured = {}, {}
    starts_turn = steps[0].starts_turn if steps else None
    for scheme in schemes:
        counted = [step for step in steps[: scheme.window] if step.effect.kind not in ASIDE]
        measured[scheme.name] = len(counted)
        if len(counted) >= scheme.least and pending.dropped_calls:
            values = measure(steps[: scheme.window], boundary)
            points[scheme.name] = Point(values, pending.dropped_calls, bool(starts_turn), len(counted))
    before, after, estimated = _sizes(pending)
    return AuditedCompaction(
        pending.ordinal,
        event.line,
        event.kind,
        event.trigger,
        event.identity,
        before,
        after,
        estimated,
        len(event.summary) if event.summary is not None else None,
        pending.dropped_calls,
        pending.kept_calls,
        len(steps),
        starts_turn,
        pending.since_edit,
        pending.reading_phase,
        points,
        refetches(window, boundary, pending.known),
        rereads(window, boundary, pending.known),
        failures(window, boundary),
        needs(window, pending.dropped, pending.kept, since, event, pending.earlier_summary, pending.folder),
        scene(pending.tail, event, window, boundary, pending.asked),
        event.summary is not None,
        *pending.in_all,
        measured,
    )


def _sizes(pending: PendingCompaction) -> tuple[int | None, int | None, bool]:
    """Tokens before and after, and whether they are estimated. What the file does not tell is None.

    A context that grew by being compacted was not all in the file; a summary that cannot be read has no known size.
    """
    if pending.before:
        return pending.before, pending.after or None, False
    before, after = pending.chars_before, pending.chars_after
    readable = pending.event.summary is not None or pending.event.kind == "clearing"
    return (
        before // CHARACTERS_PER_TOKEN if before >= max(after, 1) else None,
        after // CHARACTERS_PER_TOKEN if readable else None,
        True,
    )
