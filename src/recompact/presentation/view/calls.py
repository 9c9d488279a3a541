"""The calls to models as a view: what came back, and what exactly was asked where the run has kept it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from recompact.engine.store.calls import CallRow, call_rows, count_calls
from recompact.engine.store.requests import KeptRequest, kept_request
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.models.failures import ModelFailure
from recompact.presentation.report.document import Piece, shorten
from recompact.presentation.view.runs import RunLine
from recompact.values.chat import Message

REPLY = 1_500  # characters of a reply in a list
NEW = 800  # characters of a message of a prompt, in a list
ADDED = 4  # last messages of a prompt, in a list
LISTED = 50  # calls on a page
WHOLE = 200_000  # characters of one message on the page of its call
ALL = 1_000_000  # characters of all messages there
NOT_KEPT = "This run does not have the request, only its digest."


@dataclass(frozen=True)
class MessageView:
    """A message of a prompt; `number` counts from 1."""

    number: int
    role: str
    size: int  # characters
    text: tuple[Piece, ...]


@dataclass(frozen=True)
class CallView:
    """A journaled call: who was asked, what came back, and the end of what was asked. `problem` says why that is not
    shown."""

    unit: str
    ordinal: int
    role: str
    model: str
    tokens: tuple[int, int]
    digest: str
    reply: tuple[Piece, ...]
    messages: int = 0  # of the prompt
    last: tuple[MessageView, ...] = ()
    problem: str = ""

    @property
    def number(self) -> int:
        return self.ordinal + 1

    @property
    def before(self) -> int:
        """Messages of the prompt before those that are shown."""
        return self.messages - len(self.last)


@dataclass(frozen=True)
class CallsPage:
    """The calls of a unit that fit on a page."""

    line: RunLine
    unit: str
    calls: tuple[CallView, ...]
    start: int
    total: int
    problem: str

    @property
    def more(self) -> int:
        return self.total - self.start - len(self.calls)


@dataclass(frozen=True)
class CallPage:
    """One call in full."""

    line: RunLine
    call: CallView
    prompt: tuple[MessageView, ...]
    tools: tuple[tuple[str, tuple[Piece, ...]], ...]
    decoding: str
    total: int  # calls of the unit


def calls_page(store: Store, line: RunLine, unit: str, start: int) -> CallsPage:
    """The calls of a unit from `start` on."""
    total = count_calls(store, unit)
    if not total:
        raise InputError(f"{store.path} has no call of {unit!r}: the run may have replaced it since")
    calls, problem = list_calls(store, unit, start)
    return CallsPage(line, unit, calls, min(start, total), total, problem)


def list_calls(store: Store, unit: str, start: int = 0, limit: int = LISTED) -> tuple[tuple[CallView, ...], str]:
    """Calls of a unit in brief, or why they cannot be read."""
    try:
        return tuple(call_view(store, row) for row in call_rows(store, unit, start, limit)), ""
    except InputError as error:
        return (), str(error)


def call_view(store: Store, row: CallRow) -> CallView:
    """One call in brief: the last messages of its prompt, and its reply."""
    asked, problem = _kept_request(store, row)
    last: tuple[MessageView, ...] = ()
    if asked:
        first = max(0, len(asked.messages) - ADDED)
        last, problem = _messages(store, asked, range(first, len(asked.messages)), NEW)
    return CallView(
        unit=row.unit,
        ordinal=row.ordinal,
        role=row.role,
        model=row.model,
        tokens=(row.input, row.output),
        digest=row.request,
        reply=_reply(store, row, REPLY),
        messages=len(asked.messages) if asked else 0,
        last=last,
        problem=problem,
    )


def call_page(store: Store, line: RunLine, unit: str, ordinal: int) -> CallPage:
    """The whole of one call, up to a size that a browser can show."""
    rows = call_rows(store, unit, ordinal, 1)
    if not rows or rows[0].ordinal != ordinal:
        raise InputError(f"{store.path} has no call {ordinal + 1} of {unit!r}: the run may have replaced it since")
    row = rows[0]
    asked, problem = _kept_request(store, row)
    prompt: tuple[MessageView, ...] = ()
    if asked:
        prompt, problem = _messages(store, asked, range(len(asked.messages)), WHOLE)
    call = CallView(
        *(unit, ordinal, row.role, row.model, (row.input, row.output), row.request, _reply(store, row, WHOLE)),
        messages=len(asked.messages) if asked else 0,
        problem=problem,
    )
    tools = asked.tools if asked else ()
    described = tuple((tool.name, shorten(json.dumps(tool.to_json(), indent=2), WHOLE // 10)) for tool in tools)
    return CallPage(line, call, prompt, described, asked.decoding.text if asked else "", count_calls(store, unit))


def _kept_request(store: Store, row: CallRow) -> tuple[KeptRequest | None, str]:
    try:
        asked = kept_request(store, row.unit, row.ordinal)
    except InputError as error:
        return None, str(error)
    return asked, "" if asked else NOT_KEPT


def _messages(
    store: Store, asked: KeptRequest, numbers: Iterable[int], limit: int
) -> tuple[tuple[MessageView, ...], str]:
    """Messages read one at a time, so that at most one of them is in memory in full; none where one cannot be read."""
    shown, room = [], ALL
    for number in numbers:
        try:
            message = asked.message(store, number)
            text = _text(message)
        except (InputError, TypeError, ValueError, KeyError, AttributeError) as error:
            return (), f"message {number + 1} cannot be read: {error}"
        shown.append(MessageView(number + 1, message.role, len(text), shorten(text, min(limit, room))))
        room = max(0, room - min(limit, len(text)))
    return tuple(shown), ""


def _text(message: Message) -> str:
    calls = [f"-> {call.name}({call.arguments})" for call in message.calls]
    thoughts = f"thoughts: {message.thoughts}" if message.thoughts else ""
    return "\n".join(filter(None, (message.content, *calls, thoughts)))


def _reply(store: Store, row: CallRow, limit: int) -> tuple[Piece, ...]:
    try:
        return shorten(_text(Message.from_json(store.document(row.message))), limit)
    except (InputError, ModelFailure, TypeError, ValueError, KeyError, AttributeError) as error:
        return (Piece(f"cannot be read: {error}", "note"),)
