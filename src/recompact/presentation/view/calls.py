"""The calls to models as a view: what came back, and what exactly was asked where the run has kept it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.calls import CallRow, call_rows, count_calls
from recompact.engine.store.requests import KeptRequest, kept_request
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.models.failures import ModelFailure
from recompact.presentation.report.document import Piece, shorten
from recompact.presentation.view.runs import Page, Parameters, RunLine, number_in
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


def calls_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The calls of a unit that fit on a page."""
    unit, start = parameters.get("unit", ""), number_in(parameters, "start")
    total = count_calls(store, unit)
    if not total:
        raise InputError(f"{store.path} has no call of {unit!r}: the run may have replaced it since")
    calls, problem = list_calls(store, unit, start)
    start = min(start, total)
    more = total - start - len(calls)
    values = {"unit": unit, "calls": calls, "start": start, "total": total, "more": more, "problem": problem}
    return "calls-page.html.jinja", values


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
    return _call(row, _reply(store, row, REPLY), asked, last=last, problem=problem)


def call_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The whole of one call, up to a size that a browser can show."""
    unit, ordinal = parameters.get("unit", ""), max(1, number_in(parameters, "ordinal")) - 1  # addresses count from 1
    rows = call_rows(store, unit, ordinal, 1)
    if not rows or rows[0].ordinal != ordinal:
        raise InputError(f"{store.path} has no call {ordinal + 1} of {unit!r}: the run may have replaced it since")
    asked, problem = _kept_request(store, rows[0])
    prompt: tuple[MessageView, ...] = ()
    if asked:
        prompt, problem = _messages(store, asked, range(len(asked.messages)), WHOLE)
    tools = asked.tools if asked else ()
    return "call-page.html.jinja", {
        "call": _call(rows[0], _reply(store, rows[0], WHOLE), asked, problem=problem),
        "prompt": prompt,
        "tools": [(tool.name, shorten(json.dumps(tool.to_json(), indent=2), WHOLE // 10)) for tool in tools],
        "decoding": asked.decoding.text if asked else "",
        "total": count_calls(store, unit),
    }


def _call(row: CallRow, reply: tuple[Piece, ...], asked: KeptRequest | None, **more: Any) -> CallView:
    messages, tokens = len(asked.messages) if asked else 0, (row.input, row.output)
    return CallView(row.unit, row.ordinal, row.role, row.model, tokens, row.request, reply, messages, **more)


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
