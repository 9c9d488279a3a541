"""The record of a rollout: its turns, its boundaries, how it ended and what it cost.

Each boundary holds PRE and POST as they were, so that nothing has to be reconstructed from logs later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from recompact.values.chat import ToolCall, Usage, canonical
from recompact.values.context import Context, Turn

COMPACTION_FAILED = "compaction failed"
"""The kind of incident where no usable summary came back, and the context stayed as it was."""

Ending = Literal["finished", "step limit", "context overflow", "refused", "environment error", "compaction due"]
"""`compaction due`: a start that several arms share, which each of them continues from its first compaction."""

_FAILED: Mapping[str, str] = {
    "finished": "ended by themselves, and their check did not pass",
    "step limit": "ended at the step limit",
    "context overflow": "ended because their context was too long for the model",
    "refused": "ended because the model refused",
    "environment error": "broke with their environment",
}


def why_none_succeeded(endings: Mapping[str, int]) -> str:
    """How trajectories ended of which none succeeded, most frequent first.

    >>> why_none_succeeded({"finished": 1, "step limit": 5})
    'None of 6 succeeded: 5 ended at the step limit, 1 ended by themselves, and their check did not pass.'
    """
    ways = sorted(endings.items(), key=lambda item: -item[1])
    words = ", ".join(f"{number:,} {_FAILED.get(ending, ending)}" for ending, number in ways)
    return f"None of {sum(endings.values()):,} succeeded: {words}."


@dataclass(frozen=True)
class Action:
    """What the agent did in the environment: a tool call with parsed arguments, or plain text (`name` is empty)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @staticmethod
    def of(call: ToolCall) -> Action:
        return Action(call.name, call.parsed())

    def to_json(self) -> list[Any]:
        return [self.name, dict(self.arguments), self.text]

    @property
    def key(self) -> str:
        """The same for the same action, argument for argument."""
        return canonical(self.to_json())

    @staticmethod
    def from_json(data: list[Any]) -> Action:
        return Action(data[0], data[1], data[2])


@dataclass(frozen=True)
class Score:
    """The environment's verdict. `value` lies in [0, 1]; a suite that only passes or fails gives 0 or 1."""

    success: bool
    value: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(success: bool, **details: Any) -> Score:
        return Score(success, float(success), details)

    @property
    def violations(self) -> tuple[str, ...] | None:
        """The rules that were broken on the way, whatever the outcome, if the suite lists them in its details; None
        where it does not look.

        >>> Score.of(True, violations=["paid 80 without asking"]).violations, Score.of(True).violations
        (('paid 80 without asking',), None)
        """
        listed = self.details.get("violations")
        return tuple(map(str, listed)) if isinstance(listed, list | tuple) else None


@dataclass(frozen=True)
class Snapshot:
    """The state of an environment at a boundary. `strategy` says who can restore it; `data` is enough to do so."""

    strategy: str
    data: bytes


@dataclass(frozen=True)
class Boundary:
    """One compaction: the context before (PRE) and after (POST), and the environment at that moment."""

    index: int  # the paper's t, counted within the trajectory from 1
    step: int  # steps taken before it
    pre: Context
    post: Context
    snapshot: Snapshot | None
    actions: tuple[Action, ...]  # executed so far, in order: enough to replay
    asked_again: bool = False  # the first summary was too long, or none
    cut: bool = False  # it was still too long, and was shortened


@dataclass(frozen=True)
class Incident:
    """Something that went wrong without ending the trajectory, such as a compaction that failed."""

    step: int
    kind: str
    text: str


@dataclass(frozen=True)
class Trajectory:
    """One complete rollout."""

    task: str
    turns: tuple[Turn, ...]
    boundaries: tuple[Boundary, ...]
    ending: Ending
    score: Score
    context: Context  # at the end, with the last turn
    usage: Mapping[str, Usage] = field(default_factory=dict)  # by role, as the providers counted
    peak: int = 0  # largest agent input, by the run's own counter
    peak_reported: int = 0  # the same by the provider's count
    incidents: tuple[Incident, ...] = ()
    error: str = ""  # why it ended like this, where that needs explaining
    shared: int = 0  # steps at the beginning that were played once for several arms

    @property
    def steps(self) -> int:
        return len(self.turns)

    def with_incident(self, incident: Incident) -> Trajectory:
        return replace(self, incidents=(*self.incidents, incident))
