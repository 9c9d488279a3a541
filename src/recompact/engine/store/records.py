"""Trajectories, continuations, contexts and boundaries as documents in the run file, and the compactions that failed in
them: a run without compactions must not look like one in which none was needed.

A document names messages by their hash in the store, so that a text that is in ten contexts is kept once. Writing a
trajectory and reading it back gives an equal value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from recompact.engine.store.store import Store
from recompact.values.chat import Message, Usage, canonical
from recompact.values.context import Context, Pin, Summary, Turn
from recompact.values.events import emit
from recompact.values.outcome import BoundaryId
from recompact.values.texts import cut, quantity
from recompact.values.trajectory import COMPACTION_FAILED, Action, Boundary, Incident, Score, Snapshot, Trajectory


@dataclass(frozen=True)
class EpisodeRecorded:
    """A trajectory, or a continuation of `boundary` from its `arm`, is in the run file."""

    store: Store
    unit: str
    phase: str
    run: int  # or the number of the draw; from 0
    trajectory: Trajectory
    groups: Mapping[str, str] = field(default_factory=dict)
    arm: str = ""
    boundary: BoundaryId | None = None


CONTINUE = "continue"
"""The phase of continuations, which have a table of their own in the run file."""


def write_trajectory(
    store: Store,
    unit: str,
    trajectory: Trajectory,
    *,
    phase: str,
    run: int,
    groups: Mapping[str, str],
    seconds: float,
) -> None:
    """Record a finished rollout in one transaction."""
    with store.transaction():
        boundaries = [_boundary_document(store, b) for b in trajectory.boundaries]
        document = _trajectory_document(store, trajectory, boundaries)
        store.insert(
            "trajectories",
            {
                "unit": unit,
                "phase": phase,
                "task": trajectory.task,
                "run": run,
                "groups": canonical(dict(groups)),
                "compactions": len(trajectory.boundaries),
                "peak": trajectory.peak,
                "peak_reported": trajectory.peak_reported,
                "incidents": len(trajectory.incidents),
                **_columns(trajectory),
            },
        )
        for boundary, key in zip(trajectory.boundaries, boundaries, strict=True):
            store.insert(
                "boundaries",
                {
                    "unit": unit,
                    "idx": boundary.index,
                    "step": boundary.step,
                    "pre_tokens": boundary.pre.size,
                    "post_tokens": boundary.post.size,
                    "document": key,
                },
            )
        store.finish(unit, "trajectory", canonical(document), seconds)
    emit(EpisodeRecorded(store, unit, phase, run, trajectory, groups))


def write_continuation(
    store: Store, name: str, unit: str, index: int, arm: str, draw: int, continuation: Trajectory, *, seconds: float
) -> None:
    """Record a finished continuation in one transaction; `read_trajectory(store, name)` gives it back."""
    with store.transaction():
        document = _trajectory_document(store, continuation, ())
        place = {"name": name, "unit": unit, "idx": index, "arm": arm, "draw": draw}
        store.insert("continuations", {**place, **_columns(continuation), "error": continuation.error})
        store.finish(name, "continuation", canonical(document), seconds)
    boundary = BoundaryId(unit, index)
    emit(EpisodeRecorded(store, name, CONTINUE, draw, continuation, arm=arm, boundary=boundary))


def _columns(trajectory: Trajectory) -> dict[str, Any]:
    """What the rows of trajectories and continuations say alike."""
    return {
        "success": int(trajectory.score.success),
        "value": trajectory.score.value,
        "ending": trajectory.ending,
        "steps": trajectory.steps,
        "usage": canonical(_usage_document(trajectory.usage)),
    }


@contextmanager
def _reading(store: Store, what: str) -> Iterator[None]:
    """A document not in the form written here was not written here."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise store.damaged(f"{what} cannot be read ({type(error).__name__})") from error


def read_trajectory(store: Store, unit: str) -> Trajectory:
    data = store.result(unit)
    with _reading(store, unit):
        return _with_recorded_usage(store, unit, _trajectory(store, data))


def _trajectory(store: Store, data: Mapping[str, Any]) -> Trajectory:
    message = _messages(store)
    return Trajectory(
        task=data["task"],
        turns=tuple(_turn(message, t) for t in data["turns"]),
        boundaries=tuple(_boundary(store, bytes.fromhex(key), message) for key in data["boundaries"]),
        ending=data["ending"],
        score=Score(*data["score"]),
        context=_context(store, data["context"], message),
        usage={role: Usage(*counts) for role, counts in data["usage"].items()},
        peak=data["peak"],
        peak_reported=data["peak_reported"],
        incidents=tuple(Incident(*i) for i in data["incidents"]),
        error=data["error"],
        shared=data.get("shared", 0),
    )


def stream_trajectory(store: Store, unit: str) -> tuple[Trajectory, Iterator[Turn | Boundary]]:
    """A trajectory with its prefix alone, and its turns and boundaries one by one, each boundary before the turn that
    follows it and without its snapshot and actions: whatever the length, little of it is in memory at once."""
    data = store.result(unit)
    prefix = {"prefix": data["context"]["prefix"], "summary": None, "turns": []}
    head = {**data, "turns": [], "boundaries": [], "context": prefix}

    def parts() -> Iterator[Turn | Boundary]:
        boundaries = (_boundary(store, bytes.fromhex(key), _messages(store), lean=True) for key in data["boundaries"])
        pending = next(boundaries, None)
        for number in range(len(data["turns"]) + 1):
            while pending and pending.step <= number:
                yield pending
                pending = next(boundaries, None)
            if number < len(data["turns"]):
                yield _turn(_messages(store), data["turns"][number])

    return _with_recorded_usage(store, unit, _trajectory(store, head)), parts()


def read_boundary(store: Store, id: BoundaryId) -> Boundary:
    rows = store._rows("SELECT document FROM boundaries WHERE unit = ? AND idx = ?", (id.unit, id.index))
    if not rows:
        raise LookupError(f"{id.unit} has no boundary {id.index}")
    with _reading(store, f"boundary {id.index} of {id.unit}"):
        return _boundary(store, rows[0]["document"], _messages(store))


def _trajectory_document(store: Store, trajectory: Trajectory, boundaries: Sequence[bytes]) -> dict[str, Any]:
    return {
        "task": trajectory.task,
        "turns": [_turn_document(store, t) for t in trajectory.turns],
        "boundaries": [key.hex() for key in boundaries],
        "ending": trajectory.ending,
        "score": [trajectory.score.success, trajectory.score.value, dict(trajectory.score.details)],
        "context": _context_document(store, trajectory.context),
        # What a server had cached depends on what it was asked before: like timings, it is not part of the result.
        "usage": _usage_document({r: replace(u, cached=0, cache_reported=0) for r, u in trajectory.usage.items()}),
        "peak": trajectory.peak,
        "peak_reported": trajectory.peak_reported,
        "incidents": [[i.step, i.kind, i.text] for i in trajectory.incidents],
        "error": trajectory.error,
        **({"shared": trajectory.shared} if trajectory.shared else {}),
    }


def _usage_document(usage: Mapping[str, Usage]) -> dict[str, list[int]]:
    return {role: usage[role].to_json() for role in sorted(usage)}


def _with_recorded_usage(store: Store, unit: str, trajectory: Trajectory) -> Trajectory:
    """With what was cached, which the document leaves out and the row beside it has."""
    rows = store._rows(
        "SELECT usage FROM trajectories WHERE unit = ? UNION ALL SELECT usage FROM continuations WHERE name = ?",
        (unit, unit),
    )
    usage = {role: Usage(*counts) for row in rows for role, counts in json.loads(row["usage"]).items()}
    return replace(trajectory, usage={**trajectory.usage, **usage})


_Messages = Callable[[str], Message]


def _messages(store: Store) -> _Messages:
    """Messages by the hash that documents give. One that is in many contexts is read once."""
    return cache(lambda key: Message.from_json(store.document(bytes.fromhex(key))))


def _turn_document(store: Store, turn: Turn) -> list[Any]:
    return [store.put(turn.message).hex(), [store.put(r).hex() for r in turn.results], turn.tokens]


def _turn(message: _Messages, data: list[Any]) -> Turn:
    return Turn(message(data[0]), tuple(message(r) for r in data[1]), data[2])


def _context_document(store: Store, context: Context) -> dict[str, Any]:
    summary = context.summary
    return {
        "prefix": [store.put(m).hex() for m in context.prefix],
        "summary": [store.put(summary.text).hex(), summary.tokens, *filter(None, [summary.item])] if summary else None,
        "turns": [_turn_document(store, t) for t in context.turns],
        **({"pinned": [[store.put(p.message).hex(), p.tokens] for p in context.pinned]} if context.pinned else {}),
    }


def _context(store: Store, data: Mapping[str, Any], message: _Messages) -> Context:
    summary = data["summary"]
    return Context(
        tuple(message(m) for m in data["prefix"]),
        Summary(store.text(bytes.fromhex(summary[0])), *summary[1:]) if summary else None,
        tuple(_turn(message, t) for t in data["turns"]),
        tuple(Pin(message(key), tokens) for key, tokens in data.get("pinned", ())),
    )


def _boundary_document(store: Store, boundary: Boundary) -> bytes:
    snapshot = boundary.snapshot
    return store.put(
        canonical(
            {
                "index": boundary.index,
                "step": boundary.step,
                "pre": _context_document(store, boundary.pre),
                "post": _context_document(store, boundary.post),
                "snapshot": [snapshot.strategy, store.put(snapshot.data).hex()] if snapshot else None,
                "actions": [a.to_json() for a in boundary.actions],
                "asked_again": boundary.asked_again,
                "cut": boundary.cut,
            }
        )
    )


def _boundary(store: Store, key: bytes, message: _Messages, *, lean: bool = False) -> Boundary:
    """A boundary, or where it is to be `lean`, without its snapshot and actions."""
    data = store.document(key)
    snapshot = None if lean else data["snapshot"]
    return Boundary(
        index=data["index"],
        step=data["step"],
        pre=_context(store, data["pre"], message),
        post=_context(store, data["post"], message),
        snapshot=Snapshot(snapshot[0], store.blob(bytes.fromhex(snapshot[1]))) if snapshot else None,
        actions=() if lean else tuple(Action.from_json(a) for a in data["actions"]),
        asked_again=data["asked_again"],
        cut=data["cut"],
    )


REASON = 300  # characters of a reason that are repeated; the trajectory has all of it


@dataclass(frozen=True)
class FailedCompactions:
    """How many compactions failed, in how many trajectories, and the reason of the first."""

    number: int = 0
    trajectories: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """What is said of them; empty where none failed.

        >>> FailedCompactions(3, 2, "no summary came back").words
        '3 compactions failed in 2 trajectories: no summary came back'
        """
        if not self.number:
            return ""
        reason, more = cut(" ".join(self.reason.split()).removesuffix("."), REASON)
        failed = f"{quantity(self.number, 'compaction')} failed in {quantity(self.trajectories, 'trajectory')}"
        return f"{failed}: {reason}{' …' * bool(more)}"

    @property
    def nothing_compacted(self) -> str:
        """What is said where not one compaction was made: that, and that all of them failed if any was tried.

        >>> FailedCompactions().nothing_compacted, FailedCompactions(1, 1, "no summary").nothing_compacted
        ('nothing was compacted', 'nothing was compacted: 1 compaction failed in 1 trajectory: no summary')
        """
        return f"nothing was compacted{': ' * bool(self.number)}{self.words}"


NONE_FAILED = FailedCompactions()


def failed_among(incidents: Iterable[Incident]) -> FailedCompactions:
    """Those of one trajectory."""
    reasons = [incident.text for incident in incidents if incident.kind == COMPACTION_FAILED]
    return FailedCompactions(len(reasons), 1, reasons[0]) if reasons else NONE_FAILED


def failed_in_unit(store: Store, unit: str) -> FailedCompactions:
    """Those of one recorded trajectory."""
    try:
        return failed_among(Incident(*incident) for incident in store.result(unit)["incidents"])
    except (KeyError, TypeError):
        raise store.damaged(f"the incidents of {unit} cannot be read") from None


def failed_in_all(parts: Iterable[FailedCompactions]) -> FailedCompactions:
    """Those of several trajectories together."""
    some = [part for part in parts if part.number]
    if not some:
        return NONE_FAILED
    return FailedCompactions(sum(p.number for p in some), sum(p.trajectories for p in some), some[0].reason)
