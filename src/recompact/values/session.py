"""An agent's session as a stream of events, the form into which each harness's reader brings its records; and its
compactions as contexts: what the model saw before each, what stood there after it, what came next.

A compaction names by key the earlier events that stay visible, so that no reader has to hold a session in memory. A
harness's file tells less than a run of ours: tools and system prompts are often missing, and a summary may not be
readable. What is there becomes the same values, so that whatever works on a boundary works on a recorded session.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from recompact.values.chat import Message, ToolCall
from recompact.values.context import Context, Summary, Turn
from recompact.values.tokens import TokenCounter

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


LATER = 40
"""Turns after a compaction that are kept."""


@dataclass(frozen=True)
class SessionCompaction:
    """A compaction. `post` is None where the file does not hold its summary in readable form, and `pre` alone, with
    nothing later, is what a session holds at its end."""

    pre: Context
    post: Context | None
    later: tuple[Turn, ...]
    index: int = 0  # from 1; 0 for the end of the session
    line: int = 0


@dataclass
class _Open:
    """A turn that may still get results."""

    keys: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    batch: str = ""

    def turn(self, count: TokenCounter) -> Turn:
        message = Message("assistant", "\n".join(self.texts), tuple(self.calls))
        return Turn.measured(message, tuple(self.results), count)


@dataclass
class _View:
    """What the model sees, as far as the file tells."""

    count: TokenCounter
    prefix: list[tuple[str, Message]] = field(default_factory=list)  # each with its key
    summary: str = ""
    turns: list[_Open] = field(default_factory=list)

    def context(self) -> Context:
        summary = Summary.measured(self.summary, self.count) if self.summary else None
        prefix = tuple(message for _, message in self.prefix)
        return Context(prefix, summary, tuple(turn.turn(self.count) for turn in self.turns))

    def take(self, event: Passage | Call | Result) -> None:
        if isinstance(event, Passage):
            self._passage(event)
        elif isinstance(event, Call):
            turn = self._open(event.batch, event.key)
            turn.calls.append(ToolCall(event.id, event.tool, _arguments(event)))
        elif self.turns:
            self.turns[-1].keys.add(event.key)
            self.turns[-1].results.append(Message("tool", event.text, call_id=event.call))

    def _passage(self, event: Passage) -> None:
        message = Message("user" if event.role == "user" else "system", event.text)
        if event.role == "assistant":
            self._open("", event.key).texts.append(event.text)
        elif not self.turns and not self.summary:
            self.prefix.append((event.key, message))
        elif self.turns:
            self.turns[-1].keys.add(event.key)
            self.turns[-1].results.append(message)
        else:  # said after a summary, before the agent's first word
            self.turns.append(_Open({event.key}, results=[message]))

    def _open(self, batch: str, key: str) -> _Open:
        """The turn that the agent's next word or call belongs to: the last one, unless it has results already."""
        last = self.turns[-1] if self.turns else None
        same_response = last is not None and bool(batch) and batch == last.batch
        if last is None or (last.results and not same_response):
            last = _Open()
            self.turns.append(last)
        last.batch = batch or last.batch
        last.keys.add(key)
        return last


def _arguments(call: Call) -> str:
    try:
        return json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return "{}"


def moments(events: Iterable[Event], count: TokenCounter) -> Iterator[SessionCompaction]:
    """The compactions of a session that wrote a summary, each when the turns after it are known; last, its end.

    >>> from recompact.values.tokens import counter
    >>> from recompact.values.session import KeptNothing
    >>> told = [Passage("user", "Count."), Passage("assistant", "one"), CompactionEvent(KeptNothing(), "said one")]
    >>> each, end = moments([*told, Passage("assistant", "two")], counter("o200k"))
    >>> each.pre.turns[0].message.content, each.post.summary.text, each.later[0].message.content, end.index
    ('one', 'said one', 'two', 0)
    """
    view, pending, kept = _View(count), None, 0
    for event in events:
        if isinstance(event, NewSession):
            yield from _close(view, pending, kept)
            view, pending, kept = _View(count), None, 0
        elif isinstance(event, Rewind):
            view.turns = view.turns[: _place(view.turns, event.key) + 1]
        elif isinstance(event, CompactionEvent) and event.kind == "summary":
            number = pending.index + 1 if pending else 1
            if pending:
                yield _with_later(view, pending, kept)
            pre = view.context()
            _compact(view, event)
            post = view.context() if event.summary is not None else None
            pending, kept = SessionCompaction(pre, post, (), number, event.line), len(view.turns)
        elif isinstance(event, Passage | Call | Result):
            view.take(event)
    yield from _close(view, pending, kept)


def _close(view: _View, pending: SessionCompaction | None, kept: int) -> Iterator[SessionCompaction]:
    if pending:
        yield _with_later(view, pending, kept)
    if view.turns:
        yield SessionCompaction(view.context(), None, ())


def _with_later(view: _View, moment: SessionCompaction, kept: int) -> SessionCompaction:
    return replace(moment, later=tuple(turn.turn(view.count) for turn in view.turns[kept : kept + LATER]))


def _compact(view: _View, event: CompactionEvent) -> None:
    """Take from the view what the compaction dropped, and put its summary there."""
    first = _place(view.turns, event.kept.key) if isinstance(event.kept, KeptFrom) else 0
    view.turns = [turn for n, turn in enumerate(view.turns) if _stays(event.kept, turn.keys, n >= first >= 0)]
    view.prefix = [
        (key, message)
        for key, message in view.prefix
        if message.role == "system" or _stays(event.kept, {key}, isinstance(event.kept, KeptBut))
    ]
    view.summary = "\n".join(filter(None, (event.summary, event.restated))) or view.summary


def _stays(kept: Kept, keys: set[str], after: bool) -> bool:
    if isinstance(kept, KeptFrom):
        return after and kept.key != "" and keys != {""}
    if isinstance(kept, KeptKeys):
        return bool(keys & kept.keys)
    return isinstance(kept, KeptBut) and not keys <= kept.keys


def _place(turns: Sequence[_Open], key: str) -> int:
    """The number of the turn that has this key; -1 where none has."""
    return next((n for n, turn in enumerate(turns) if key in turn.keys), -1)
