"""The compactions of a session as contexts: what the model saw before each, what stood there after it, what came next.

A harness's file tells less than a run of ours: tools and system prompts are often missing, and a summary may not be
readable. What is there becomes the same values, so that whatever works on a boundary works on a recorded session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from recompact.values.chat import Message, ToolCall
from recompact.values.context import Context, Summary, Turn
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Kept,
    KeptBut,
    KeptFrom,
    KeptKeys,
    NewSession,
    Passage,
    Result,
    Rewind,
)
from recompact.values.tokens import TokenCounter

LATER = 40
"""Turns after a compaction that are kept."""


@dataclass(frozen=True)
class Moment:
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


def moments(events: Iterable[Event], count: TokenCounter) -> Iterator[Moment]:
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
            pending, kept = Moment(pre, post, (), number, event.line), len(view.turns)
        elif isinstance(event, Passage | Call | Result):
            view.take(event)
    yield from _close(view, pending, kept)


def _close(view: _View, pending: Moment | None, kept: int) -> Iterator[Moment]:
    if pending:
        yield _with_later(view, pending, kept)
    if view.turns:
        yield Moment(view.context(), None, ())


def _with_later(view: _View, moment: Moment, kept: int) -> Moment:
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
