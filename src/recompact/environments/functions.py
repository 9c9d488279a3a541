"""The shortest way to a suite: plain functions as tools, and tasks with the answer they expect.

Each function becomes a tool (its signature the parameters, its docstring the description); a tool `finish(answer)` is
added. A parameter named `state` is not shown to the agent: it is a dict of this episode's own.
"""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from recompact.chat import ToolSpec, system, user
from recompact.environments.protocol import Behaviour, Literals, Observation, Opening, Task
from recompact.trajectory import Action, Score

Tool = Callable[..., Any]
Check = Callable[[str, dict[str, Any]], bool]
"""From the answer and the final state to whether the task was done."""

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}

FINISH = ToolSpec(
    "finish",
    "End the task and give the answer.",
    {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
)

INSTRUCTIONS = "Do the task with the tools you have, one call at a time. When it is done, call finish with the answer."


@dataclass(frozen=True)
class FunctionSuite:
    """A suite with one split, `train`, made by `function_suite`."""

    name: str
    tools: Sequence[Tool]
    expected: Mapping[str, tuple[str, str | Check]]
    state: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = INSTRUCTIONS
    behaviour: Callable[[Action], Behaviour | None] | None = None  # the hooks of a `Suite`
    literals: Callable[[str], Literals] | None = None

    def splits(self) -> Sequence[str]:
        return ("train",)

    def tasks(self, split: str) -> Sequence[Task]:
        return tuple(Task(id, text) for id, (text, _) in self.expected.items()) if split == "train" else ()

    def environment(self, task: Task) -> FunctionEnvironment:
        return FunctionEnvironment(self, task)


def function_suite(
    name: str,
    tools: Sequence[Tool],
    tasks: Mapping[str, tuple[str, str | Check]],
    *,
    state: Mapping[str, Any] | None = None,
    instructions: str = INSTRUCTIONS,
    behaviour: Callable[[Action], Behaviour | None] | None = None,
    literals: Callable[[str], Literals] | None = None,
) -> FunctionSuite:
    """A suite from functions. `tasks` maps an id to its text and the answer expected, or a check of answer and state.

    >>> def look(room: str) -> str: return {"kitchen": "a key", "hall": "a coat"}.get(room, "nothing")
    >>> suite = function_suite("rooms", [look], {"key": ("Is the key in the hall or the kitchen?", "kitchen")})
    >>> [tool.name for tool in suite.environment(suite.tasks("train")[0]).start().tools]
    ['look', 'finish']
    """
    return FunctionSuite(name, tuple(tools), dict(tasks), dict(state or {}), instructions, behaviour, literals)


class FunctionEnvironment:
    """One episode: the state is a dict, so a snapshot is its pickle; where it has none, the calls are replayed."""

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
        arguments = dict(action.arguments)
        if "state" in inspect.signature(tool).parameters:
            arguments["state"] = self._state
        try:
            inspect.signature(tool).bind(**arguments)
        except TypeError as error:
            return Observation(f"Error: {action.name}: {error}", error=True)
        try:
            result = tool(**arguments)
        except Exception as error:  # the agent is to read what its tool complains about
            return Observation(f"Error: {type(error).__name__}: {error}", error=True)
        return Observation(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))

    def score(self) -> Score:
        expected = self._suite.expected[self._task.id][1]
        answer = self._answer or ""
        if callable(expected):
            return Score.of(bool(expected(answer, self._state)), answer=answer)
        return Score.of(answer.strip().casefold() == expected.strip().casefold(), answer=answer)

    def snapshot(self) -> bytes:
        try:
            return pickle.dumps((self._state, self._answer))
        except (pickle.PicklingError, TypeError, AttributeError) as error:  # a tool left an open file, a function, …
            raise NotImplementedError(f"the state cannot be pickled: {error}") from error

    def restore(self, state: bytes) -> None:
        self._state, self._answer = pickle.loads(state)

    def close(self) -> None:
        pass


def tool_spec(tool: Tool) -> ToolSpec:
    """A function's signature and docstring as a tool."""
    hints = get_type_hints(tool)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(tool).parameters.items():
        if name == "state":
            continue
        kind = hints.get(name, str)
        origin = getattr(kind, "__origin__", kind)
        properties[name] = {"type": _JSON_TYPES.get(origin, "string")}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    description = inspect.getdoc(tool) or tool.__name__.replace("_", " ")
    return ToolSpec(tool.__name__, description, {"type": "object", "properties": properties, "required": required})
