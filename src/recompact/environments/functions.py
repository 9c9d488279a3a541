"""The shortest way to a suite: plain functions as tools, and tasks with the answer they expect.

Each function becomes a tool (its signature a JSON schema, its docstring the description); a tool `finish(answer)` is
added. A parameter named `state` is not shown to the agent: it is this episode's own dict.
"""

from __future__ import annotations

import asyncio
import copy
import enum
import inspect
import json
import traceback
import types
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from recompact.environments.protocol import Behaviour, Literals, Observation, Opening, Task, tool as make_tool
from recompact.environments.shaping import from_numpy, shape_json, show_value
from recompact.errors import InputError
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

Tool = Callable[..., Any]
Check = Callable[[str, dict[str, Any]], bool | float]
"""Whether the task was done, or how well (a number from 0 to 1; only 1 is a success), from the answer and the final
state."""

Tasks = Mapping[str, tuple[str, str | Check]]
"""From an id to the text of the task and the expected answer, or a check."""

FINISH = make_tool("finish", "End the task and give the answer.", ["answer"], answer={"type": "string"})

INSTRUCTIONS = "Do the task with the tools you have, one call at a time. When it is done, call finish with the answer."


_SHAPE = (
    'write {"id": ("the text of the task", "the expected answer")}; in place of the answer may be a function that gets'
    " the answer and the state and returns True or False"
)


@dataclass(frozen=True)
class FunctionSuite:
    """A suite made by `function_suite`."""

    name: str
    tools: Sequence[Tool]
    by_split: Mapping[str, Tasks]
    state: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = INSTRUCTIONS
    behaviour: Callable[[Action], Behaviour | None] | None = None  # the hooks of a `Suite`
    literals: Callable[[str], Literals] | None = None

    def splits(self) -> Sequence[str]:
        return tuple(self.by_split)

    def tasks(self, split: str) -> Sequence[Task]:
        return tuple(Task(id, text) for id, (text, _) in self.by_split.get(split, {}).items())

    @property
    def expected(self) -> Tasks:
        """The tasks of all splits."""
        return {id: task for tasks in self.by_split.values() for id, task in tasks.items()}

    def environment(self, task: Task) -> FunctionEnvironment:
        return FunctionEnvironment(self, task)


def function_suite(
    name: str,
    tools: Sequence[Tool],
    tasks: Tasks | Mapping[str, Tasks],
    *,
    splits: Mapping[str, Sequence[str]] | None = None,
    state: Mapping[str, Any] | None = None,
    instructions: str = INSTRUCTIONS,
    behaviour: Callable[[Action], Behaviour | None] | None = None,
    literals: Callable[[str], Literals] | None = None,
) -> FunctionSuite:
    """A suite from functions. `tasks` maps an id to its text and the expected answer, or a check of answer and state.

    All tasks are in the split `train`, unless `splits` says which ids are in which, or `tasks` has such a mapping for
    each split.

    >>> def look(room: str) -> str: return {"kitchen": "a key", "hall": "a coat"}.get(room, "nothing")
    >>> suite = function_suite("rooms", [look], {"key": ("Is the key in the hall or the kitchen?", "kitchen")})
    >>> [tool.name for tool in suite.environment(suite.tasks("train")[0]).start().tools]
    ['look', 'finish']
    """
    if not isinstance(tools, Sequence):
        raise InputError(f"suite {name}: its tools must be a list of functions, as in [look], not {_kind(tools)}")
    if not isinstance(tasks, Mapping):
        raise InputError(f"suite {name}: its tasks must be a dict, not {_kind(tasks)}: {_SHAPE}")
    for tool in tools:
        tool_spec(tool)  # which refuses parameters that no agent can give, before anything runs
        _check_plain(name, tool)
    by_split = _by_split(name, tasks, splits)
    return FunctionSuite(name, tuple(tools), by_split, dict(state or {}), instructions, behaviour, literals)


def _kind(value: object) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__


def _by_split(
    suite: str, tasks: Tasks | Mapping[str, Tasks], splits: Mapping[str, Sequence[str]] | None
) -> dict[str, Tasks]:
    nested = {split: each for split, each in tasks.items() if isinstance(each, Mapping)}
    if nested and (splits is not None or len(nested) < len(tasks)):
        raise InputError(f"suite {suite}: give its tasks by split, or all of them and `splits`, not both")
    by_split: dict[str, Any] = nested or {"train": dict(tasks)}
    if splits is not None:
        for split, ids in splits.items():
            if isinstance(ids, str) or (missing := [id for id in ids if id not in tasks]):
                what = "not a list of ids" if isinstance(ids, str) else f"task {missing[0]!r}, which there is not"
                raise InputError(f"suite {suite}: split {split!r} names {what}")
        by_split = {split: {id: tasks[id] for id in ids} for split, ids in splits.items()}
    for split, each in by_split.items():
        for id, task in each.items():
            if not (isinstance(task, tuple | list) and len(task) == 2 and isinstance(task[0], str)):
                raise InputError(
                    f"suite {suite}: task {id!r} of split {split!r} must be its text and the answer expected,"
                    f" not {_kind(task)}: {_SHAPE}"
                )
            if not isinstance(task[1], str) and not callable(task[1]):
                raise InputError(
                    f"suite {suite}: the answer to task {id!r} must be a str or a function that checks it, not"
                    f" {_kind(task[1])}: {_SHAPE}"
                )
    seen: dict[str, str] = {}
    for split, each in by_split.items():
        for id in each:
            if id in seen and by_split[seen[id]][id] != each[id]:
                raise InputError(f"suite {suite}: splits {seen[id]!r} and {split!r} have different tasks {id!r}")
            seen[id] = split
    return by_split


class FunctionEnvironment:
    """One episode: the state is a dict, so a snapshot is its JSON; where it has none, the calls are replayed."""

    def __init__(self, suite: FunctionSuite, task: Task) -> None:
        self._suite = suite
        self._task = task
        self._tools = {tool.__name__: tool for tool in suite.tools}
        self._state: dict[str, Any] = copy.deepcopy(dict(suite.state))
        self._answer: str | None = None

    def start(self) -> Opening:
        specs = (*(tool_spec(tool) for tool in self._suite.tools), FINISH)
        return Opening((system(self._suite.instructions), user(self._task.text)), specs)

    def step(self, action: Action) -> Observation:
        if action.name == FINISH.name:
            self._answer = str(action.arguments.get("answer", ""))
            return Observation("The task is ended.", done=True)
        tool = self._tools[action.name]
        chosen = enums_of(tool)
        arguments = dict(action.arguments)
        if "state" in inspect.signature(tool).parameters:
            arguments["state"] = self._state
        try:
            inspect.signature(tool).bind(**arguments)
        except TypeError as error:
            return Observation(f"Error: {action.name}: {error}", error=True)
        try:
            arguments |= {name: kind(arguments[name]) for name, kind in chosen.items() if name in arguments}
        except (ValueError, TypeError) as error:
            return Observation(f"Error: {action.name}: {error}", error=True)
        try:
            result = tool(**arguments)
            if inspect.iscoroutine(result):
                result = _run_aside(result)
            text = result if isinstance(result, str) else json.dumps(shape_json(result, "a result"), ensure_ascii=False)
        except Exception as error:  # the agent should read what its tool complains about
            return Observation(f"Error: {type(error).__name__}: {error}{_place(tool, error)}", error=True)
        return Observation(text)

    def score(self) -> Score:
        expected = self._suite.expected[self._task.id][1]
        answer = self._answer or ""
        if callable(expected):
            return _score(expected(answer, self._state), self._task.id, answer)
        return Score.of(answer.strip().casefold() == expected.strip().casefold(), answer=answer)

    def snapshot(self) -> bytes:
        """Never a pickle: a snapshot is stored in the run, and reading a run must not run code."""
        whole = [self._state, self._answer]
        try:
            data = json.dumps(whole).encode()
            same = _same(json.loads(data), whole)
        except (TypeError, ValueError, RecursionError):  # a tool left an open file, a function, …
            same = False
        if not same:
            raise NotImplementedError("the state is not JSON")
        return data

    def restore(self, state: bytes) -> None:
        try:
            self._state, self._answer = json.loads(state)
        except ValueError:
            raise ValueError("this snapshot is not JSON: was it taken by an older version?") from None

    def close(self) -> None:
        pass


def _run_aside(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of an async tool. This thread has a loop already, so another one runs it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _place(tool: Tool, error: Exception) -> str:
    """Where in the tool's own file it went wrong, so that whoever wrote it finds it."""
    file = getattr(getattr(inspect.unwrap(tool), "__code__", None), "co_filename", "")
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" ({PurePath(file).name}:{lines[-1]})" if lines else ""


_NEVER_RUN = (
    (inspect.isasyncgenfunction, "an async generator"),
    (inspect.isgeneratorfunction, "a generator"),
)
"""Functions that only promise a result when they are called."""


def _check_plain(suite: str, tool: Tool) -> None:
    """Refuse a function whose call would not run it: the agent would see the name of a promise, and nothing be done."""
    for is_one, kind in _NEVER_RUN:
        if is_one(tool):
            raise InputError(
                f"suite {suite}: tool {tool.__name__} is {kind}, and calling it does not run it: make it a plain"
                " function that returns its result, such as a list"
            )


def _score(verdict: Any, task: str, answer: str) -> Score:
    """What a check returned, as a score. It is never guessed: a tuple with a reason is true whatever it says."""
    if isinstance(verdict, bool):
        return Score.of(verdict, answer=answer)
    plain = from_numpy(verdict)
    if isinstance(plain, bool | int | float) and 0 <= plain <= 1:
        return Score(plain == 1, float(plain), {"answer": answer})
    if is_async := inspect.iscoroutine(verdict):
        verdict.close()
    number = isinstance(verdict, float) or (isinstance(verdict, int) and verdict.bit_length() <= 64)
    came = repr(verdict) if number else show_value(verdict)
    raise TypeError(
        f"the check of task {task!r} must return a bool, or a number from 0 to 1, not {came}"
        f"{': is it an async function?' * is_async}"
    )


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same types throughout: a tuple that comes back as a list is not the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, tuple, set, frozenset)
_VARIADIC = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name",
    inspect.Parameter.POSITIONAL_ONLY: "can only be given by position",
}


def tool_spec(tool: Callable[..., Any]) -> ToolSpec:
    """A function as a tool. A parameter named `state` is not shown to the agent.

    >>> def look(room: str, floor: int = 0) -> str: "Look into a room."
    >>> tool_spec(look).parameters["properties"]
    {'room': {'type': 'string'}, 'floor': {'type': 'integer', 'default': 0}}
    """
    name = getattr(tool, "__name__", "")
    if not callable(tool) or not name.isidentifier():
        raise InputError(f"a tool must be a function with a name, not {type(tool).__name__} {name}".rstrip())
    hints = _hints(tool)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in inspect.signature(tool).parameters.values():
        if parameter.kind in _VARIADIC:
            stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (
                parameter.kind is parameter.VAR_KEYWORD
            )
            raise InputError(
                f"tool {name}: the parameter {stars}{parameter.name} {_VARIADIC[parameter.kind]}, which no schema can"
                " tell an agent: give it a name and a type of its own"
            )
        if parameter.name == "state":
            continue
        schema = json_schema(hints.get(parameter.name, str))
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            schema |= _default(parameter.default)
        properties[parameter.name] = schema
    description = inspect.getdoc(tool) or name.replace("_", " ")
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": required})


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type hint.

    >>> json_schema(bool | None)
    {'type': ['boolean', 'null']}
    >>> json_schema(list[Literal["a", "b"]])
    {'type': 'array', 'items': {'type': 'string', 'enum': ['a', 'b']}}
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is inspect.Parameter.empty:
        return {}
    if origin in (Union, types.UnionType):
        return _union([json_schema(each) for each in arguments])
    if origin is Literal:
        return _choice(arguments)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choice([each.value for each in kind])
    if hasattr(kind, "__metadata__"):  # Annotated
        return json_schema(arguments[0])
    plain = origin or kind
    if isinstance(plain, type) and issubclass(plain, _LISTS):
        items = json_schema(arguments[0]) if arguments else {}
        return {"type": "array"} | ({"items": items} if items else {})
    if isinstance(plain, type) and issubclass(plain, Mapping):
        values = json_schema(arguments[1]) if len(arguments) == 2 else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return {"type": _JSON_TYPES.get(plain, "string")}


def enums_of(tool: Callable[..., Any]) -> dict[str, type[enum.Enum]]:
    """The parameters that want a member of an Enum, where an agent gives its value."""
    return {
        name: kind
        for name, hint in _hints(tool).items()
        for kind in (hint, *get_args(hint))
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and get_origin(hint) not in _LISTS
    }


def _hints(tool: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(tool)
    except Exception as error:
        name = getattr(tool, "__name__", "")
        raise InputError(f"tool {name}: its type hints cannot be read: {type(error).__name__}: {error}") from None


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    if any(not schema for schema in schemas):
        return {}
    if all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        names = list(dict.fromkeys(schema["type"] for schema in schemas))
        return {"type": names if len(names) > 1 else names[0]}
    return {"anyOf": schemas}


def _choice(values: Any) -> dict[str, Any]:
    kinds = list(dict.fromkeys(_JSON_TYPES.get(type(value), "") for value in values))
    known = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds and all(kinds) else {}
    return known | {"enum": list(values)}


def _default(value: Any) -> dict[str, Any]:
    plain = value.value if isinstance(value, enum.Enum) else value
    try:
        return {"default": json.loads(json.dumps(plain))}
    except (TypeError, ValueError, RecursionError):  # what JSON cannot express cannot be told
        return {}
