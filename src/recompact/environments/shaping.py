"""The door between an environment and the harness: every value that a suite or an environment returns passes here.

A value is brought into shape, with each change named in `changes`, or refused with `WrongShape`, which says what was
expected. Nothing of a value's own code is trusted: it may raise, lie about its type or never end.
"""

from __future__ import annotations

import decimal
import fractions
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from recompact.environments.json_shape import (
    VALUE_LIMIT,
    Changes,
    from_numpy,
    is_plain,
    kind_of,
    make_encodable,
    shape_json,
)
from recompact.environments.protocol import Observation, Opening, Strategy, Task
from recompact.values.chat import Message, Request, Role, ToolCall, ToolSpec
from recompact.values.trajectory import Score

TEXT_LIMIT: Final = 64 * 1024 * 1024
"""Characters in one text. What an agent sees of it is bounded by [run] observation_tokens."""

_TASK_LIMIT = 200_000
_MESSAGE_LIMIT = 10_000
_TOOL_LIMIT = 2_000
_ID_LENGTH = 400

_ROLES = get_args(Role)


class WrongShape(Exception):
    """A value that cannot be brought into shape; the text says what was expected and what came."""


def error_text(error: BaseException) -> str:
    """An environment's exception as text, even if its own cannot be read."""
    try:
        text = make_encodable(str.__str__(str(error)), "", [])
    except BaseException as another:  # it has a __str__ of its own
        text = f"(its text raised {kind_of(another)})"
    return f"{kind_of(error)}: {text[:2000]}{'…' if len(text) > 2000 else ''}"


def fields_of(value: Any, count: int) -> list[Any]:
    """The fields of something that came as a JSON list."""
    if not isinstance(value, list) or len(value) != count:
        raise _wrong_shape(f"a list of {count}", value)
    return value


def shape_line(value: Any) -> str:
    """A message from a host, for people: a str without what cannot be encoded, and not too long."""
    if not isinstance(value, str):
        return f"({show_value(value)})"
    return make_encodable(value[:4000], "", [])


def shape_opening(value: Any, changes: Changes) -> Opening:
    """What `start` returned."""
    if not isinstance(value, Opening):
        raise _wrong_shape("an Opening", value)
    prefix = tuple(
        _message(each, changes) for each in _list_items(value.prefix, "its prefix", "messages", _MESSAGE_LIMIT)
    )
    tools = tuple(_tool(each, changes) for each in _list_items(value.tools, "its tools", "ToolSpecs", _TOOL_LIMIT))
    names = [tool.name for tool in tools]
    if twice := _first_repeated(names):
        raise WrongShape(f"each tool once was expected, but there are two tools {twice!r}")
    return Opening(prefix, tools, _flag(value.text_actions, "its text_actions", changes))


def shape_observation(value: Any, changes: Changes) -> Observation:
    """What `step` returned."""
    if not isinstance(value, Observation):
        raise _wrong_shape("an Observation", value)
    return Observation(
        _text(value.text, "its text", changes),
        _flag(value.done, "its done", changes),
        _flag(value.error, "its error", changes),
    )


def shape_score(value: Any, changes: Changes) -> Score:
    """What `score` returned. Details are JSON afterwards; success and value are never guessed."""
    if not isinstance(value, Score):
        raise _wrong_shape("a Score", value)
    success = _flag(value.success, "its success", changes)
    number = _number(value.value, changes)
    if not 0 <= number <= 1:  # NaN is not within them either
        raise WrongShape(f"a value from 0 to 1 was expected, not {number!r}")
    return Score(success, number, _mapping(value.details, "its details", changes))


def shape_snapshot(value: Any) -> bytes:
    """What `snapshot` returned."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong_shape("bytes", value)
    return bytes(value)


def shape_traits(strategy: Any, masked: Any) -> tuple[Strategy, bool]:
    """How an environment in a host is brought back, and whether it masks parts of its observations."""
    if not isinstance(strategy, str) or strategy not in get_args(Strategy) or not isinstance(masked, bool):
        raise WrongShape(f"a strategy ({', '.join(get_args(Strategy))}) was expected")
    return strategy, masked  # type: ignore[return-value]


def shape_tasks(value: Any, *, travels: bool = False) -> tuple[Task, ...]:
    """What `tasks` returned. Tasks are named by their ids, so an id that is odd or given twice is refused.

    `travels` says that the data must be JSON, because the environment is in another process.
    """
    tasks = tuple(_task(each, travels) for each in _list_items(value, "what was returned", "Tasks", _TASK_LIMIT))
    twice = [id for id, count in Counter(task.id for task in tasks).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        names = ", ".join(map(repr, twice[:5]))
        raise WrongShape(f"each task id once was expected, but more than one task has the id {names}{more}")
    return tasks


def shape_request(value: Request) -> Request:
    """What an environment asks a model for, once its JSON has been taken apart."""
    changes: Changes = []
    decoding = value.decoding
    numbers = (decoding.max_output_tokens, decoding.temperature, decoding.top_p)
    wrong: list[Any] = [each for each in numbers if each is not None and type(each) not in (int, float)]
    wrong += [each for each in (*decoding.stop, decoding.reasoning_effort or "") if not isinstance(each, str)]
    if wrong:
        raise _wrong_shape("decoding settings", wrong[0], "for")
    schema = decoding.response_schema
    return Request(
        tuple(_message(each, changes) for each in value.messages),
        tuple(_tool(each, changes) for each in value.tools),
        replace(decoding, response_schema=None if schema is None else _mapping(schema, "its response_schema", changes)),
    )


def shape_name(value: Any, what: str = "its name") -> str:
    """A name that is shown and looked up: of a suite, a split, a group."""
    if not isinstance(value, str):
        raise _wrong_shape("a str", value, f"for {what}")
    text = str.__str__(value)
    if not text or len(text) > _ID_LENGTH or not is_plain(text):
        kind = f"a str of 1 to {_ID_LENGTH} characters, none of them a control character,"
        raise WrongShape(f"{kind} was expected for {what}, not {show_value(text)}")
    return text


def shape_texts(value: Any, count: int) -> list[str]:
    """A list of `count` texts."""
    if not isinstance(value, list) or len(value) != count or not all(isinstance(each, str) for each in value):
        raise _wrong_shape(f"{count} texts", value)
    return value


def _task(value: Any, travels: bool) -> Task:
    if not isinstance(value, Task):
        raise _wrong_shape("a sequence of Tasks", value, "one with")
    id = shape_name(value.id, "the id of a task")
    where, changes = f"task {id!r}: ", Changes()
    try:
        text = _text(value.text, "its text", changes)
        groups = _mapping(value.groups, "its groups", changes)
        data = _mapping(value.data, "its data", changes) if travels else value.data
        if not isinstance(data, Mapping):
            raise _wrong_shape("a mapping", data, "for its data")
    except WrongShape as error:
        raise WrongShape(f"{where}{error}") from None
    if changes:  # an environment could not do its task with something else in place of what the suite wrote there
        raise WrongShape(f"{where}data that JSON can hold was expected, but there is {changes[0]}")
    return Task(id, text, {str(key): str(each) for key, each in groups.items()}, data)


def _message(value: Any, changes: Changes) -> Message:
    if not isinstance(value, Message):
        raise _wrong_shape("messages in its prefix", value)
    role = next((role for role in _ROLES if type(value.role) is str and value.role == role), None)
    if role is None:
        roles = ", ".join(_ROLES)
        raise WrongShape(f"a role ({roles}) was expected for a message of its prefix, not {show_value(value.role)}")
    calls = []
    for call in _list_items(value.calls, "the calls of a message", "ToolCalls", _MESSAGE_LIMIT):
        if not isinstance(call, ToolCall):
            raise _wrong_shape("ToolCalls in a message", call)
        parts = (call.id, call.name, call.arguments)
        calls.append(ToolCall(*(_text(part, "a ToolCall's id, name or arguments", changes) for part in parts)))
    content = _text(value.content, "the content of a message", changes)
    return Message(role, content, tuple(calls), _text(value.call_id, "the call_id of a message", changes))


def _tool(value: Any, changes: Changes) -> ToolSpec:
    if not isinstance(value, ToolSpec):
        raise _wrong_shape("ToolSpecs among its tools", value)
    name = shape_name(value.name, "the name of a tool")
    description = _text(value.description, f"the description of tool {name}", changes)
    return ToolSpec(name, description, _mapping(value.parameters, f"the parameters of tool {name}", changes))


# -- parts -----------------------------------------------------------------------------------------------------------


def _text(value: Any, what: str, changes: Changes) -> str:
    if not isinstance(value, str):
        raise _wrong_shape("a str", value, f"for {what}")
    text = str.__str__(value)
    if len(text) > TEXT_LIMIT:
        raise WrongShape(f"a str of at most {TEXT_LIMIT:,} characters was expected for {what}, not {len(text):,}")
    return make_encodable(text, what, changes)


def _flag(value: Any, what: str, changes: Changes) -> bool:
    if isinstance(value, bool):
        return value
    plain = from_numpy(value)
    if isinstance(plain, bool) or (type(plain) is int and plain in (0, 1)):
        changes.append(f"{kind_of(value)} in place of a bool for {what}")
        return bool(plain)
    raise _wrong_shape("a bool", value, f"for {what}")


def _number(value: Any, changes: Changes) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool | int | float):
        return _as_float(value)
    plain = from_numpy(value)
    if isinstance(plain, bool | int | float):
        changes.append(f"{kind_of(value)} in place of a number for its value")
        return _as_float(plain)
    if isinstance(value, decimal.Decimal | fractions.Fraction):
        changes.append(f"{kind_of(value)} in place of a number for its value")
        return _as_float(value)
    raise _wrong_shape("a number from 0 to 1", value, "for its value")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except Exception:
        return math.nan


def _mapping(value: Any, what: str, changes: Changes) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong_shape("a mapping", value, f"for {what}")
    return dict(shape_json(value if isinstance(value, dict) else _pairs(value, what), what, changes))


def _pairs(value: Mapping[Any, Any], what: str) -> dict[Any, Any]:
    """A custom mapping as a dict."""
    try:
        return dict(itertools.islice(((key, value[key]) for key in value), VALUE_LIMIT))
    except Exception as error:
        raise WrongShape(f"a mapping was expected for {what}, but reading it raised {kind_of(error)}") from None


def _list_items(value: Any, what: str, kind: str, limit: int) -> Sequence[Any]:
    """The items of an iterable, which may never end."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _wrong_shape(f"a sequence of {kind}", value, f"for {what}")
    try:
        items = tuple(itertools.islice(value, limit + 1))
    except Exception as error:
        raise WrongShape(
            f"a sequence of {kind} was expected for {what}, but reading it raised {kind_of(error)}"
        ) from None
    if len(items) > limit:
        raise WrongShape(f"at most {limit:,} {kind} were expected for {what}")
    return items


def _first_repeated(names: Sequence[str]) -> str | None:
    return next((name for number, name in enumerate(names) if name in names[:number]), None)


def _wrong_shape(wanted: str, value: Any, where: str = "") -> WrongShape:
    place = f" {where}" if where.startswith("for") else ""
    came = f"{where} {show_value(value)}" if where and not place else show_value(value)
    hint = ": is it an async function?" if kind_of(value) == "coroutine" else ""
    if kind_of(value) == "coroutine":
        value.close()
    return WrongShape(f"{wanted} was expected{place}, not {came}{hint}")


def show_value(value: Any) -> str:
    """A value in a few words, without calling anything of its own."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if type(value) is str:
        return repr(value[:60]) + ("…" if len(value) > 60 else "")
    return f"{'an' if kind_of(value)[:1].lower() in 'aeiou' else 'a'} {kind_of(value)}"
