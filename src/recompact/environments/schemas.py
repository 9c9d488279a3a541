"""A Python function as a tool: its signature becomes a JSON schema, its docstring the description."""

from __future__ import annotations

import enum
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from recompact.errors import InputError
from recompact.values.chat import ToolSpec

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
