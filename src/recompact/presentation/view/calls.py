"""The calls to models as a view: what came back, and what exactly was asked where the run has kept it."""

from __future__ import annotations

import json
from typing import Any

from recompact.engine.store.calls import CallRow, KeptRequest, call_rows, count_calls, kept_request
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

Call = dict[str, Any]
"""What a template shows of a call: its row, its reply, how many messages were asked, and the last of them (number,
role, characters, text). `problem` says why these are missing."""


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


def list_calls(store: Store, unit: str, start: int = 0, limit: int = LISTED) -> tuple[tuple[Call, ...], str]:
    """Calls of a unit in brief, or why they cannot be read."""
    try:
        return tuple(_call(store, row, ADDED, NEW, REPLY) for row in call_rows(store, unit, start, limit)), ""
    except InputError as error:
        return (), str(error)


def call_page(store: Store, line: RunLine, parameters: Parameters) -> Page:
    """The whole of one call, up to a size that a browser can show."""
    unit, ordinal = parameters.get("unit", ""), max(1, number_in(parameters, "ordinal")) - 1  # addresses count from 1
    rows = call_rows(store, unit, ordinal, 1)
    if not rows or rows[0].ordinal != ordinal:
        raise InputError(f"{store.path} has no call {ordinal + 1} of {unit!r}: the run may have replaced it since")
    call = _call(store, rows[0], ALL, WHOLE, WHOLE)
    asked = call["asked"]
    tools = [(tool.name, json.dumps(tool.to_json(), indent=2)) for tool in asked.tools] if asked else []
    return "call-page.html.jinja", {"call": call, "tools": tools, "total": count_calls(store, unit)}


def _call(store: Store, row: CallRow, last: int, each: int, reply: int) -> Call:
    """A call with the last messages of its prompt and its reply, up to these numbers of characters."""
    messages: list[tuple[int, str, int, tuple[Piece, ...]]] = []
    asked: KeptRequest | None = None
    try:
        asked = kept_request(store, row.unit, row.ordinal)
        problem = "" if asked else NOT_KEPT
    except InputError as error:
        problem = str(error)
    room, count = ALL, len(asked.messages) if asked else 0
    for number in range(max(0, count - last), count):
        # One at a time, so that at most one of them is in memory in full.
        try:
            message = asked.message(store, number)  # type: ignore[union-attr]
            text = _text(message)
        except (InputError, TypeError, ValueError, KeyError, AttributeError) as error:
            messages, problem = [], f"message {number + 1} cannot be read: {error}"
            break
        messages.append((number + 1, message.role, len(text), shorten(text, min(each, room))))
        room = max(0, room - min(each, len(text)))
    shown = _reply(store, row, reply)
    return {"row": row, "asked": asked, "count": count, "last": messages, "problem": problem, "reply": shown}


def _text(message: Message) -> str:
    calls = [f"-> {call.name}({call.arguments})" for call in message.calls]
    thoughts = f"thoughts: {message.thoughts}" if message.thoughts else ""
    return "\n".join(filter(None, (message.content, *calls, thoughts)))


def _reply(store: Store, row: CallRow, limit: int) -> tuple[Piece, ...]:
    try:
        return shorten(_text(Message.from_json(store.document(row.message))), limit)
    except (InputError, ModelFailure, TypeError, ValueError, KeyError, AttributeError) as error:
        return (Piece(f"cannot be read: {error}", "note"),)
