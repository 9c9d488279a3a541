"""An agent's session as a stream of events, the form into which each harness's reader brings its records.

A compaction names by key the earlier events that stay visible, so that no reader has to hold a session in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Role = Literal["user", "assistant", "system", "attachment"]
Kind = Literal["summary", "clearing"]  # a clearing empties old results and writes no summary
Standing = Literal["main", "subagent", "fork"]


@dataclass(frozen=True, slots=True)
class Info:
    """What a record says about the session; an empty field says nothing new."""

    session: str = ""
    version: str = ""
    project: str = ""
    model: str = ""
    standing: Standing | None = None
    parent: str = ""  # the session that this one continues or was started by
    score: float | None = None  # what a grader gave the session's outcome
    task: str = ""  # what it was graded on, the same for every attempt at it


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that the model saw or wrote. An attachment is file content that the harness put into the context."""

    role: Role
    text: str
    key: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the main agent. Calls of one response share a batch."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    cwd: str = ""
    batch: str = ""
    key: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a call returned; `failed` is None where the harness does not say."""

    call: str
    text: str
    failed: bool | None = None
    key: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class KeptNothing:
    """Nothing before the compaction stays visible."""


@dataclass(frozen=True, slots=True)
class KeptFrom:
    """Everything from this key on stays visible."""

    key: str


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """Exactly these stay visible."""

    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class KeptBut:
    """Everything that was visible stays, except these."""

    keys: frozenset[str]


Kept = KeptNothing | KeptFrom | KeptKeys | KeptBut


@dataclass(frozen=True, slots=True)
class CompactionEvent:
    """A compaction. `summary` is None where the file does not hold it in readable form."""

    kept: Kept
    summary: str | None
    restated: str = ""  # older messages that are repeated beside the summary
    kind: Kind = "summary"
    tokens_before: int | None = None
    tokens_after: int | None = None
    trigger: str = ""
    identity: str = ""  # the same in every file that holds a copy of this compaction
    key: str = ""
    line: int = 0
    system_stays: bool = False  # system messages stay visible besides: they are prompts, with which each request begins


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the context in tokens, as the harness reported it at this point; and of what the model read then, how
    much came from a prompt cache and how much was new, where the harness says so."""

    tokens: int
    read: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True)
class Rewind:
    """The session continues from an earlier event: what came after that event is an abandoned branch."""

    key: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """What follows is another session: some files hold several."""


Event = NewSession | Info | Passage | Call | Result | CompactionEvent | Size | Rewind


@dataclass
class Tally:
    """What a reader could not use, counted: nothing is left out silently."""

    records: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # record types that this reader does not know
    broken: int = 0  # records that are not JSON, or lack the shape of their type
    long: int = 0  # lines longer than the limit
    cut: int = 0  # the last line is incomplete: normal for a session that is still running, or that was killed
    subagent: int = 0  # records of subagents inside the file of the main agent
    orphans: int = 0  # results without a call
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Tail:
    """What a harness leaves word for word when it compacts: the last turns, as many as fit into `tokens` but at least
    `turns` of them, and the latest of what the user said, up to `said` tokens."""

    turns: int = 1
    tokens: int = 0
    said: int = 0


class Unreadable(Exception):
    """A file, or a part of one, cannot be read. The text says why."""


@dataclass(frozen=True)
class Transcript:
    """A file, folder or member that holds sessions. `events` reads them from the start."""

    path: Path
    member: str
    harness: str
    size: int  # bytes
    modified: float  # when the file was changed last, in seconds
    events: Callable[[Tally], Iterator[Event]]
    tail: Tail | None = None  # None where it is not known how this harness cuts


Reason = Literal["link", "special", "unreadable", "foreign", "empty"]


@dataclass(frozen=True)
class SkippedFile:
    """A file that was not read: a link, a pipe or device, JSON of no known format, no record at all, or unreadable."""

    path: Path
    reason: Reason
    why: str = ""  # of an unreadable one
