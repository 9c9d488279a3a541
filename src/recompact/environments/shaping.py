"""The door between an environment and the harness: every value that a suite or an environment returns passes here.

What comes out can be stored and sent: plain types, JSON, and texts of whole characters. Anything else is refused with
`WrongShape`, which says what was expected. A host's values pass twice, since what arrives from a host may not be ours.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import itertools
import json
import math
import pathlib
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, get_args

from recompact.environments.protocol import Behaviour, Literals, Observation, Opening, Strategy, Task
from recompact.values.chat import Decoding, Message, Request, Role, ToolCall, ToolSpec, whole
from recompact.values.trajectory import Action, Score

TEXT_LIMIT: Final = 64 * 1024 * 1024
"""Characters in one text. What an agent sees of it is bounded by [run] observation_tokens."""

_JSON_LIMIT = 4_000_000  # characters of one JSON value
_DEPTH_LIMIT = 500  # how deep Python itself can go depends on its version, and runs are read by others
_PAIRS_LIMIT = 20_000  # of a mapping that is no dict, and may never end
_TASK_LIMIT = 200_000
_MESSAGE_LIMIT = 10_000
_TOOL_LIMIT = 2_000
_ID_LENGTH = 400

_AS_TEXT = (
    *(decimal.Decimal, fractions.Fraction, complex, pathlib.PurePath, uuid.UUID),
    *(datetime.date, datetime.time, datetime.timedelta),
)


class WrongShape(Exception):
    """A value that cannot be used; the text says what was expected and what came."""


# -- what the verbs of a suite and of an environment return ----------------------------------------------------------


def shape_opening(value: Any) -> Opening:
    """What `start` returned."""
    _expect(Opening, value)
    prefix = _list_items(value.prefix, "its prefix", "messages", _MESSAGE_LIMIT)
    tools = tuple(map(_tool, _list_items(value.tools, "its tools", "ToolSpecs", _TOOL_LIMIT)))
    if twice := _repeated_names(tool.name for tool in tools):
        raise WrongShape(f"each tool once was expected, but there are two tools {twice[0]!r}")
    return Opening(
        tuple(map(_message, prefix)),
        tools,
        _flag(value.text_actions, "its text_actions"),
        judged_at_limit=_flag(value.judged_at_limit, "its judged_at_limit"),
    )


def shape_observation(value: Any) -> Observation:
    """What `step` returned."""
    _expect(Observation, value)
    return Observation(
        shape_text(value.text, "its text"), _flag(value.done, "its done"), _flag(value.error, "its error")
    )


def shape_score(value: Any) -> Score:
    """What `score` returned. Success and value are never guessed; details that are no JSON become the reason why."""
    _expect(Score, value)
    success, number = _flag(value.success, "its success"), _number(value.value)
    if not 0 <= number <= 1:  # NaN is not within them either
        raise WrongShape(f"a value from 0 to 1 was expected, not {number!r}")
    _expect(Mapping, value.details, "for its details")
    try:
        return Score(success, number, shape_json(value.details, "its details"))
    except WrongShape as reason:
        return Score(success, number, {"unreadable": str(reason)})


def shape_snapshot(value: Any) -> bytes:
    """What `snapshot` returned."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _wrong_shape("bytes", value)
    return bytes(value)


def shape_traits(strategy: Any, masked: Any) -> tuple[Strategy, bool]:
    """How an environment in a host is brought back, and whether it masks parts of its observations."""
    if strategy not in get_args(Strategy) or not isinstance(masked, bool):
        raise WrongShape(f"a strategy ({', '.join(get_args(Strategy))}) was expected")
    return strategy, masked


def shape_tasks(value: Any, *, travels: bool = False) -> tuple[Task, ...]:
    """What `tasks` returned. Tasks are named by their ids, so an id that is odd or given twice is refused.

    `travels` says that the data must be JSON, because the environment is in another process.
    """
    tasks = tuple(_task(each, travels) for each in _list_items(value, "what was returned", "Tasks", _TASK_LIMIT))
    if twice := _repeated_names(task.id for task in tasks):
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        names = ", ".join(map(repr, twice[:5]))
        raise WrongShape(f"each task id once was expected, but more than one task has the id {names}{more}")
    return tasks


def request_to_json(request: Request) -> dict[str, Any]:
    """What an environment asks a model for, as `shape_request` reads it in another process."""
    d = request.decoding
    return {
        "messages": [m.to_json() for m in request.messages],
        "tools": [t.to_json() for t in request.tools],
        "decoding": [
            d.max_output_tokens,
            d.temperature,
            d.top_p,
            d.reasoning_effort,
            list(d.stop),
            d.response_schema,
        ],
    }


def shape_request(data: Mapping[str, Any]) -> Request:
    """What an environment asks a model for, from its JSON."""
    limit, temperature, top_p, effort, stop, schema = data["decoding"]
    wrong: list[Any] = [each for each in (limit, temperature, top_p) if type(each) not in (NoneType, int, float)]
    wrong += [each for each in (*stop, effort or "") if not isinstance(each, str)]
    if wrong:
        raise _wrong_shape("decoding settings", wrong[0])
    if schema is not None:
        schema = _mapping(schema, "its response_schema")
    return Request(
        tuple(_message(Message.from_json(each)) for each in data["messages"]),
        tuple(_tool(ToolSpec.from_json(each)) for each in data["tools"]),
        Decoding(limit, temperature, top_p, effort, None, tuple(stop), schema),
    )


def _task(value: Any, travels: bool) -> Task:
    if not issubclass(type(value), Task):
        raise _wrong_shape("a sequence of Tasks", value, "one with")
    id = shape_name(value.id, "the id of a task")
    try:
        text, groups = shape_text(value.text, "its text"), _mapping(value.groups, "its groups")
        _expect(Mapping, value.data, "for its data")
        # An environment could not do its task with something else in place of what the suite wrote there.
        data = _mapping(value.data, "its data", exact=True) if travels else value.data
    except WrongShape as error:
        raise WrongShape(f"task {id!r}: {error}") from None
    return Task(id, text, {str(key): str(each) for key, each in groups.items()}, data)


def _message(value: Any) -> Message:
    _expect(Message, value)
    if value.role not in get_args(Role):
        raise _wrong_shape(f"a role ({', '.join(get_args(Role))})", value.role, "for a message")
    calls = []
    for call in _list_items(value.calls, "the calls of a message", "ToolCalls", _MESSAGE_LIMIT):
        _expect(ToolCall, call)
        parts = (call.id, call.name, call.arguments)
        calls.append(ToolCall(*(shape_text(part, "a ToolCall's id, name or arguments") for part in parts)))
    content, call_id = shape_text(value.content, "the content of a message"), shape_text(value.call_id, "a call_id")
    return Message(value.role, content, tuple(calls), call_id)


def _tool(value: Any) -> ToolSpec:
    _expect(ToolSpec, value)
    name = shape_name(value.name, "the name of a tool")
    description = shape_text(value.description, f"the description of tool {name}")
    return ToolSpec(name, description, _mapping(value.parameters, f"the parameters of tool {name}"))


# -- parts -----------------------------------------------------------------------------------------------------------


def shape_name(value: Any, what: str = "its name") -> str:
    """A name that is shown and looked up: of a suite, a split, a group."""
    _expect(str, value, f"for {what}")
    text = str.__str__(value)
    if not text or len(text) > _ID_LENGTH or not text.isprintable():
        kind = f"a str of 1 to {_ID_LENGTH} characters, none of them a control character,"
        raise WrongShape(f"{kind} was expected for {what}, not {show_value(text)}")
    return text


def shape_text(value: Any, what: str) -> str:
    """A text of whole characters."""
    _expect(str, value, f"for {what}")
    text = str.__str__(value)
    if len(text) > TEXT_LIMIT:
        raise WrongShape(f"a str of at most {TEXT_LIMIT:,} characters was expected for {what}, not {len(text):,}")
    return whole(text)


def shape_json(value: Any, what: str, *, exact: bool = False) -> Any:
    """Any value as JSON. What JSON has no form for is written as text, unless it must be `exact`."""

    def refuse(value: Any) -> Any:
        raise WrongShape(f"data that JSON can hold was expected for {what}, but there is {show_value(value)}")

    try:
        text = json.dumps(value, default=refuse if exact else _plain, ensure_ascii=False)
        if len(text) > _JSON_LIMIT:
            raise WrongShape(f"at most {_JSON_LIMIT:,} characters of JSON were expected for {what}, not {len(text):,}")
        if (depth := _nesting(text)) > _DEPTH_LIMIT:
            raise WrongShape(f"JSON nested at most {_DEPTH_LIMIT} deep was expected for {what}, not {depth:,}")
        return json.loads(whole(text), parse_constant=str)
    except WrongShape:
        raise
    except Exception as error:  # a key that is no text, a cycle, nesting without end, or what its own code raises
        raise WrongShape(f"JSON was expected for {what}, but {error_text(error)}") from None


def _nesting(text: str) -> int:
    """How deep a JSON text is nested; 0 for one that has too few brackets to be worth a look."""
    if text.count("[") + text.count("{") <= _DEPTH_LIMIT:
        return 0
    brackets = re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    return max(itertools.accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0)


def _plain(value: Any) -> Any:
    """What JSON has no form for, in one that it has. Objects of unknown types have no text that can be trusted to stay
    the same."""
    if isinstance(value, Mapping):
        return dict(itertools.islice(((key, value[key]) for key in value), _PAIRS_LIMIT))
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    if isinstance(value, _AS_TEXT):
        return value.isoformat() if isinstance(value, datetime.datetime) else str(value)
    unpacked = from_numpy(value)
    return f"⟨{_kind(value)}⟩" if unpacked is value else unpacked


def from_numpy(value: Any) -> Any:
    """The plain value of a numpy one, recognised by its type's module so that nothing has to be imported."""
    return value.tolist() if (type(value).__module__ or "").partition(".")[0] == "numpy" else value


def shape_texts(value: Any, count: int) -> list[str]:
    """A list of `count` texts."""
    if not all(isinstance(each, str) for each in fields_of(value, count)):
        raise _wrong_shape(f"{count} texts", value)
    return list(value)


def fields_of(value: Any, count: int) -> list[Any]:
    """The fields of something that came as a JSON list."""
    if not isinstance(value, list) or len(value) != count:
        raise _wrong_shape(f"a list of {count}", value)
    return value


def _flag(value: Any, what: str) -> bool:
    plain = from_numpy(value)
    if isinstance(plain, bool) or (type(plain) is int and plain in (0, 1)):
        return bool(plain)
    raise _wrong_shape("a bool", value, f"for {what}")


def _number(value: Any) -> float:
    plain = from_numpy(value)
    if not isinstance(plain, int | float | decimal.Decimal | fractions.Fraction):
        raise _wrong_shape("a number from 0 to 1", value, "for its value")
    try:
        return float(plain)
    except (ValueError, ArithmeticError):
        return math.nan


def _mapping(value: Any, what: str, *, exact: bool = False) -> dict[str, Any]:
    _expect(Mapping, value, f"for {what}")
    return dict(shape_json(dict(value) if isinstance(value, dict) else _plain(value), what, exact=exact))


def _list_items(value: Any, what: str, kind: str, limit: int) -> Sequence[Any]:
    """The items of an iterable, which may never end."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _wrong_shape(f"a sequence of {kind}", value, f"for {what}")
    items = tuple(itertools.islice(value, limit + 1))
    if len(items) > limit:
        raise WrongShape(f"at most {limit:,} {kind} were expected for {what}")
    return items


def _repeated_names(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _expect(kind: type, value: Any, where: str = "") -> None:
    """Refuse a value of another type, also one that only says it has this one."""
    if not issubclass(type(value), kind):
        name = "mapping" if kind is Mapping else kind.__name__
        raise _wrong_shape(f"{'an' if name[0] in 'AEIOU' else 'a'} {name}", value, where)


def _wrong_shape(wanted: str, value: Any, where: str = "") -> WrongShape:
    place = f" {where}" if where.startswith("for") else ""
    came = f"{where} {show_value(value)}" if where and not place else show_value(value)
    if hint := ": is it an async function?" * (_kind(value) == "coroutine"):
        value.close()
    return WrongShape(f"{wanted} was expected{place}, not {came}{hint}")


# -- what a suite says about its own actions and texts ---------------------------------------------------------------

BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)


def behaviours_of(suite: object, actions: Sequence[Action]) -> list[Behaviour | None] | None:
    """What each action is for, by the suite's `behaviour`."""
    hook = getattr(suite, "behaviour", None)
    if hook is None:
        return None
    behaviours: list[Behaviour | None] = []
    for action in actions:
        behaviour = hook(action)
        if behaviour is not None and behaviour not in BEHAVIOURS:
            raise ValueError(f"behaviour of {action.name!r} is {behaviour!r}: return {', '.join(BEHAVIOURS)} or None")
        behaviours.append(behaviour)
    return behaviours


def literals_of(suite: object, texts: Sequence[str]) -> list[Literals] | None:
    """The literals of each text by kind, by the suite's `literals`."""
    hook = getattr(suite, "literals", None)
    if hook is None:
        return None
    return [as_literals(hook(text)) for text in texts]


def as_literals(answer: Any) -> Literals:
    """The answer of a suite's `literals`, with each literal once.

    >>> as_literals({"tokens": ["a1", "a1"], "signatures": ()})
    {'tokens': ('a1',), 'signatures': ()}
    """
    if not isinstance(answer, Mapping) or not all(isinstance(values, list | tuple) for values in answer.values()):
        raise ValueError(f"literals must be a mapping of lists, like {{'tokens': [...]}}, not {type(answer).__name__}")
    return {str(kind): tuple(dict.fromkeys(map(str, values))) for kind, values in answer.items()}


# -- texts for people ------------------------------------------------------------------------------------------------


def show_value(value: Any) -> str:
    """A value in a few words, without calling anything of its own."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if type(value) is str:
        return repr(value[:60]) + ("…" if len(value) > 60 else "")
    return f"{'an' if _kind(value)[:1].lower() in 'aeiou' else 'a'} {_kind(value)}"


def shape_line(value: Any) -> str:
    """A message from a host, for people: a str of whole characters that is not too long."""
    return whole(value[:4000]) if isinstance(value, str) else f"({show_value(value)})"


def error_text(error: BaseException) -> str:
    """An environment's exception as text, even if its own cannot be read."""
    try:
        text = whole(str(error))
    except BaseException as another:  # it has a __str__ of its own
        text = f"(its text raised {_kind(another)})"
    return f"{_kind(error)}: {text[:2000]}{'…' if len(text) > 2000 else ''}"


def _kind(value: Any) -> str:
    return type(value).__name__
