"""Tool calls for models that have none: as JSON in the plain text of a message.

Tools are described in the system prompt, and calls and results are sent as text. What such a model writes is read back
as a message with the calls that it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from recompact.values.chat import Decoding, Message, Request, ToolCall, ToolSpec

MARKER = "### Tool result"
"""The first line of every tool result. It is a stop sequence too: weak models go on and invent the result.

The system prompt does not name it: a 0.5B model that reads it there begins every answer with it.
"""

FORM = '{"name": "<tool>", "arguments": {<arguments>}}'

_INSTRUCTION = f"""You act by calling tools. To call one, answer with one JSON object of this form and nothing after it:
{FORM}
The result of the call comes back in the next message; wait for it.
Tools (a ? marks an optional argument):"""


def plain(request: Request, *, force_schema: bool = False) -> Request:
    """The same request for a model that knows only text. Without tools only the history's calls and results are
    rewritten.

    `force_schema` also asks the server to let nothing but a call through, unless the request has its own schema.
    """
    messages = tuple(_plain_message(m) for m in request.messages)
    if not request.tools:
        return replace(request, messages=messages)
    tools = tool_text(request.tools)
    if messages and messages[0].role == "system":
        first = messages[0].content
        messages = (Message("system", f"{first}\n\n{tools}" if first else tools), *messages[1:])
    else:
        messages = (Message("system", tools), *messages)
    return Request(messages, (), _decoding(request, force_schema))


def _decoding(request: Request, force_schema: bool) -> Decoding:
    decoding = request.decoding
    if MARKER not in decoding.stop:
        decoding = replace(decoding, stop=(*decoding.stop, MARKER))
    if force_schema and decoding.response_schema is None:
        decoding = replace(decoding, response_schema=call_schema(request.tools))
    return decoding


def _plain_message(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"{MARKER}\n{message.content}")
    if not message.calls:
        return message
    texts = [_call_text(call) for call in message.calls]
    written = texts[0] if len(texts) == 1 else "[" + ",\n ".join(texts) + "]"
    return Message(message.role, f"{message.content}\n{written}" if message.content else written)


def _call_text(call: ToolCall) -> str:
    try:
        arguments: Any = call.parsed()
    except ValueError:
        arguments = call.arguments  # what did not parse is shown as it was written
    return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def tool_text(tools: Iterable[ToolSpec]) -> str:
    """What the system prompt says about the tools: a line each, and a line for each argument that needs words."""
    return "\n".join((_INSTRUCTION, *(line for tool in tools for line in _tool_lines(tool))))


def _tool_lines(tool: ToolSpec) -> Iterator[str]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {_type_text(schema)}" for name, schema in properties.items()
    )
    yield f"- {tool.name}({arguments})" + (f": {tool.description}" if tool.description else "")
    for name, schema in properties.items():
        if isinstance(schema, Mapping) and schema.get("description"):
            yield f"    {name}: {schema['description']}"


def _type_text(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(_type_text(option) for option in schema[key])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_text(schema.get('items'))}"
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def call_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """A JSON schema that lets through exactly one call of one of the tools."""
    shared: dict[str, Any] = {}
    options = []
    for tool in tools:
        parameters = dict(tool.parameters)
        # references inside a tool's schema count from the root, so what they point to moves there
        shared.update(parameters.pop("$defs", {}))
        options.append(
            {
                "type": "object",
                "properties": {"name": {"type": "string", "const": tool.name}, "arguments": parameters},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    return {**schema, "$defs": shared} if shared else schema


# ---- reading

_START = re.compile(r"\{|\[(?=\s*\{)")
_OPENING = re.compile(r"(?:```[\w-]*|<tool_call>|<\|python_tag\|>)\s*\Z")
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_WRAPPERS = ("function", "tool", "tool_call", "call", "action", "tool_calls", "calls")
_MOST_STARTS = 1000  # endless text full of braces must not cost endless time


def parse(content: str, index: int, tools: Iterable[ToolSpec] = ()) -> Message:
    """The assistant message that a text means: its first JSON call, or list of calls, with the prose before it.

    `index` is the place of this message in the conversation, which makes the ids of its calls unique and the same in
    every replay. A name that no tool has is kept (the environment answers it); an object without arguments is a call
    only if its name is a tool's. What holds no call stays content.
    """
    content = content.split(MARKER, 1)[0].rstrip() if MARKER in content else content
    known = frozenset(tool.name for tool in tools)
    begin = _after_thoughts(content)
    for start, value in _objects(content, begin):
        try:
            calls_in_text = _calls(value, known)
        except RecursionError:  # absurdly nested: no call that anyone meant
            continue
        if calls_in_text:
            calls = tuple(ToolCall(f"call_{index}_{n}", *call) for n, call in enumerate(calls_in_text))
            return Message("assistant", _OPENING.sub("", content[:start]).strip(), calls)
    return Message("assistant", content)


def _after_thoughts(content: str) -> int:
    """Where the answer begins: a call that a reasoning model only considers is not a call."""
    end = content.rfind("</think>")
    if end >= 0:
        return end
    return len(content) if content.lstrip().startswith("<think>") else 0


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


# not strict: line ends inside strings are common and harmless
_decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def _objects(text: str, position: int) -> Iterator[tuple[int, Any]]:
    """Every outermost JSON object, or list that begins with one, and where it starts."""
    for _ in range(_MOST_STARTS):
        match = _START.search(text, position)
        if match is None:
            return
        try:
            value, position = _decoder.raw_decode(text, match.start())
        except RecursionError:  # nested without end: whatever follows is inside of it
            return
        except ValueError:
            position = match.start() + 1
        else:
            yield match.start(), value


def _calls(value: Any, known: frozenset[str]) -> list[tuple[str, str]]:
    """(name, arguments) of each call that a value spells out, in any of the shapes that models use."""
    if isinstance(value, list):
        return [call for item in value if isinstance(item, dict) for call in _calls(item, known)]
    if not isinstance(value, dict):
        return []
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    arguments_key = next((key for key in _ARGUMENTS if key in value), None)
    if name and (arguments_key is not None or name in known):
        return [(name, _arguments_text(value[arguments_key] if arguments_key is not None else {}))]
    for key in _WRAPPERS:
        if isinstance(value.get(key), dict | list):
            return _calls(value[key], known)
    return []


def _arguments_text(value: Any) -> str:
    if isinstance(value, str):
        return value  # arguments as a JSON string; if that does not parse, the agent is told so
    return json.dumps({} if value is None else value, ensure_ascii=False)
