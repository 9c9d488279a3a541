"""The episodes of a run as every writer sees them: steps, compactions and calls in the order in which they happened.

An episode is a trajectory or one continuation of a boundary; each writer only gives it another form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.calls import kept_request, unit_replies
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.records import CONTINUE, EpisodeRecorded, read_trajectory
from recompact.engine.store.runs import continuation_rows, recorded_phases, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.models.journal import JournaledReply
from recompact.values.chat import Message, ToolSpec, Usage
from recompact.values.context import Context, Turn
from recompact.values.masking import mask_secrets
from recompact.values.outcome import BoundaryId
from recompact.values.trajectory import Boundary, Trajectory


@dataclass(frozen=True)
class ModelCall:
    """One call to a model; `asked` is None where the run did not keep the request."""

    role: str
    provider: str
    model: str
    asked: tuple[Message, ...] | None
    reply: Message
    usage: Usage
    finish: str
    seconds: float


@dataclass(frozen=True)
class Step:
    """One turn and the context it was taken in. `call` is None where another unit made it: a start that arms share."""

    context: Context
    turn: Turn
    call: ModelCall | None

    def answer(self, model: str) -> ModelCall:
        """Its call, or in place of one that another unit made and paid for, what came back."""
        return self.call or ModelCall("agent", "unknown", model, None, self.turn.message, Usage(), "stop", 0.0)


@dataclass(frozen=True)
class Compaction:
    """A boundary, the calls that wrote its summary, and what verification decided about it."""

    boundary: Boundary
    calls: tuple[ModelCall, ...]
    verdict: Verdict | None


@dataclass(frozen=True)
class Episode:
    """One trajectory or continuation. `arm` is PRE or POST of `boundary`, or the label of an evaluation's arm; a call
    of its own among the parts belongs to no step: a compaction that failed, a simulated user, a judge."""

    unit: str
    phase: str
    task: str
    run: int  # or the number of the draw; from 0
    arm: str
    boundary: BoundaryId | None
    groups: Mapping[str, str]
    start: Context
    tools: tuple[ToolSpec, ...]
    parts: tuple[Step | Compaction | ModelCall, ...]
    trajectory: Trajectory

    @property
    def calls(self) -> Iterator[ModelCall]:
        """All calls in order."""
        for part in self.parts:
            if isinstance(part, ModelCall):
                yield part
            elif isinstance(part, Compaction):
                yield from part.calls
            elif part.call is not None:
                yield part.call

    @property
    def model(self) -> str:
        """The agent's model, as the provider names it."""
        return next((call.model for call in self.calls if call.role == "agent"), "")

    @property
    def facts(self) -> dict[str, Any]:
        """What the formats of others have no field for."""
        score = self.trajectory.score
        return {
            "unit": self.unit,
            "phase": self.phase,
            "task": self.task,
            "run" if self.boundary is None else "draw": self.run + 1,
            **({"arm": self.arm} if self.arm else {}),
            **({"boundary": str(self.boundary)} if self.boundary else {}),
            **({"groups": dict(self.groups)} if self.groups else {}),
            "success": score.success,
            "score": score.value,
            **({"score_details": dict(score.details)} if score.details else {}),
            "ending": self.trajectory.ending,
            **({"error": self.trajectory.error} if self.trajectory.error else {}),
            "steps": self.trajectory.steps,
            "shared_steps": self.trajectory.shared,
            "peak_tokens": self.trajectory.peak,
            "usage": {role: usage_facts(usage) for role, usage in self.trajectory.usage.items()},
            "incidents": [[each.step, each.kind, each.text] for each in self.trajectory.incidents],
        }


def usage_facts(usage: Usage) -> dict[str, int]:
    return {"input": usage.input, "output": usage.output, "cached": usage.cached, "calls": usage.calls}


def verdict_facts(compaction: Compaction) -> dict[str, Any]:
    """What is known of a boundary besides its contexts: sizes, and the verdict with H and B where there is one."""
    boundary, verdict = compaction.boundary, compaction.verdict
    sizes = {"tokens_before": boundary.pre.size, "tokens_after": boundary.post.size}
    repairs = {"asked_again": boundary.asked_again, "cut": boundary.cut}
    return {"index": boundary.index, "step": boundary.step, **sizes, **repairs} | (verdict.to_json() if verdict else {})


def read_episodes(store: Store, *, mask: bool = False) -> Iterator[Episode]:
    """All finished episodes of a run, one by one, each trajectory before the continuations of its boundaries."""
    shape: Callable[[Episode], Episode] = mask_episode if mask else lambda episode: episode
    verdicts = _verdicts(store)
    arms = store.metadata.arms
    labels = {arms[label]["key"]: label for label in reversed(store.metadata.arm_order)}  # an arm may have several
    for phase in recorded_phases(store):
        for row in trajectories(store, phase=phase):
            arm = labels.get(row.unit.split("/", 2)[1], "") if labels else ""
            trajectory = read_trajectory(store, row.unit)
            recorded = EpisodeRecorded(store, row.unit, phase, row.run, trajectory, row.groups, arm)
            yield shape(read_episode(recorded, verdicts))
            for draw in continuation_rows(store, row.unit):
                id, trajectory = draw.boundary, read_trajectory(store, draw.name)
                recorded = EpisodeRecorded(store, draw.name, CONTINUE, draw.draw, trajectory, {}, draw.arm, id)
                yield shape(read_episode(recorded, {}))


def _verdicts(store: Store) -> Mapping[BoundaryId, Verdict]:
    if store.metadata.verified is None:
        return {}
    return {verdict.id: verdict for verdict in read_verdicts(store).verdicts}


def read_episode(recorded: EpisodeRecorded, verdicts: Mapping[BoundaryId, Verdict]) -> Episode:
    """What was recorded, with the calls that the journal has of it."""
    store, unit, trajectory = recorded.store, recorded.unit, recorded.trajectory
    replies = unit_replies(store, unit)
    first = next((reply for reply in replies if reply.role == "agent"), None)
    request = kept_request(store, unit, first.ordinal) if first else None
    start = _start(trajectory)
    return Episode(
        unit=unit,
        phase=recorded.phase,
        task=trajectory.task,
        run=recorded.run,
        arm=recorded.arm,
        boundary=recorded.boundary,
        groups=recorded.groups,
        start=start,
        tools=request.tools if request else (),
        parts=tuple(_parts(store, unit, trajectory, start, replies, verdicts)),
        trajectory=trajectory,
    )


def _start(trajectory: Trajectory) -> Context:
    """The context of the first step: the prefix alone, or the one that a continuation began with."""
    if not trajectory.boundaries:
        context = trajectory.context
        return replace(context, turns=context.turns[: len(context.turns) - len(trajectory.turns)])
    first = trajectory.boundaries[0]
    own = _place(trajectory, first)
    return replace(first.pre, turns=first.pre.turns[: len(first.pre.turns) - own])


def _place(trajectory: Trajectory, boundary: Boundary) -> int:
    """After how many of the trajectory's own turns a boundary lies. A continuation from a summary of its own has one
    before its first, whose step is that of the trajectory that it continues."""
    since = len(trajectory.context.turns) - len(boundary.post.turns)
    return 0 if len(trajectory.boundaries) == 1 and since == trajectory.steps else boundary.step


def _parts(
    store: Store,
    unit: str,
    trajectory: Trajectory,
    start: Context,
    replies: list[JournaledReply],
    verdicts: Mapping[BoundaryId, Verdict],
) -> Iterator[Step | Compaction | ModelCall]:
    """Turns and boundaries in order, with the calls of the journal put to those that they belong to."""
    call = partial(_call, store, unit)
    context, place = start, 0  # of the next reply
    boundaries = [(_place(trajectory, boundary), boundary) for boundary in trajectory.boundaries]
    for number in range(trajectory.steps + 1):
        while boundaries and boundaries[0][0] <= number:
            _, boundary = boundaries.pop(0)
            until = next((n for n in range(place, len(replies)) if replies[n].role == "agent"), len(replies))
            calls, place = replies[place:until], until
            yield from (call(reply) for reply in calls if reply.role != "compressor")
            wrote = tuple(call(reply) for reply in calls if reply.role == "compressor")
            yield Compaction(boundary, wrote, verdicts.get(BoundaryId(unit, boundary.index)))
            context = boundary.post
        if number == trajectory.steps:
            break
        turn = trajectory.turns[number]
        answers = (n for n in range(place, len(replies)) if replies[n].role == "agent")
        own = next((n for n in answers if replies[n].reply.message == turn.message), None)
        if own is not None:
            yield from (call(reply) for reply in replies[place:own])
            place = own + 1
        yield Step(context, turn, None if own is None else call(replies[own]))
        context = context.extended(turn)
    yield from (call(reply) for reply in replies[place:])


def _call(store: Store, unit: str, journaled: JournaledReply) -> ModelCall:
    reply = journaled.reply
    asked: tuple[Message, ...] | None = None
    if journaled.role != "agent":  # what the agent was asked is its context
        request = kept_request(store, unit, journaled.ordinal)
        asked = tuple(request.message(store, n) for n in range(len(request.messages))) if request else None
    model = reply.model or journaled.configured
    provider = _provider(store.metadata, journaled.configured)
    return ModelCall(
        journaled.role, provider, model, asked, reply.message, reply.usage, reply.finish, journaled.seconds
    )


def _provider(metadata: RunMetadata, configured: str) -> str:
    if configured in metadata.simulated:
        return "simulated"
    settings = metadata.identity.get("models", {}).get(configured)
    return str(settings.get("api") or "openai") if settings else "unknown"


def mask_episode(episode: Episode) -> Episode:
    """The same episode without what looks like a key, a token or a password."""
    masked: Episode = _mask(episode)
    return masked


def _mask(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Message):
        return _mask_message(value)
    if is_dataclass(value) and not isinstance(value, type | Verdict):
        return replace(value, **{each.name: _mask(getattr(value, each.name)) for each in fields(value)})
    if isinstance(value, Mapping):
        return {key: _mask(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_mask, value))
    return value


@lru_cache(maxsize=10_000)
def _mask_message(message: Message) -> Message:
    """A message that is in many contexts is looked at once."""
    calls = tuple(replace(call, arguments=mask_secrets(call.arguments)) for call in message.calls)
    return replace(message, content=mask_secrets(message.content), calls=calls, thoughts="")


# --- times and names of files, for the formats that want them

NOTE = "A run records durations, not times of day: these times count back from the last change of its file."


@dataclass
class Clock:
    """Seconds since 1970 that go on by the durations of calls, and by a little for what took none that is known: a run
    records how long a call took, not when, so that it can be repeated."""

    now: float

    def spend(self, seconds: float) -> tuple[float, float]:
        """When something of this duration began and ended."""
        begin = self.now
        self.now += max(seconds, 1e-6)
        return begin, self.now


def iso(seconds: float) -> str:
    """
    >>> iso(0.5)
    '1970-01-01T00:00:00.500000+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def unique_names() -> Callable[[str], str]:
    """Gives each text a name of its own that any file system takes.

    >>> name = unique_names()
    >>> name("collect/a b"), name("collect/a/b"), name("..")
    ('collect-a-b', 'collect-a-b.2', 'episode')
    """
    taken: Counter[str] = Counter()

    def name(text: str) -> str:
        plain = re.sub(r"[^\w.-]+", "-", text).strip(".-")[:150] or "episode"
        taken[plain.lower()] += 1
        return plain if taken[plain.lower()] == 1 else name(f"{plain}.{taken[plain.lower()]}")

    return name
