"""The messages of a conversation with a model, its requests and replies, and what they cost.

Plain immutable values that know nothing of providers or environments. Each has a canonical JSON form and from it a
digest: the journal keys a call by the digest of its request, the store keeps a message under its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from typing import Any, Literal, NoReturn

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "refusal"]


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def canonical(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, nothing escaped that need not be."""
    return _ENCODER.encode(value)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


DEEPEST = 100
"""Levels of nesting that arguments may have: far more than any tool takes, far fewer than any reader fails at."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([\[{])|[\]}]', re.DOTALL)


def nesting(text: str) -> int:
    """How many levels deep the brackets of a JSON text are, without parsing it.

    >>> nesting('{"a": [1, "[[[["]}'), nesting("[" * 2000)
    (2, 2000)
    """
    level = deepest = 0
    for match in _BRACKETS.finditer(text):
        if match[0][0] == '"':
            continue
        level += 1 if match[1] else -1
        deepest = max(deepest, level)
    return deepest


def too_deep(text: str) -> bool:
    """Whether a JSON text has more levels than arguments may have."""
    return text.count("[") + text.count("{") > DEEPEST < nesting(text)


def whole(text: str) -> str:
    """The text with the replacement character in place of halves of characters, which no encoding can carry.

    >>> whole("a\\ud83d\\ude00b\\udc00")
    'a😀b�'
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class ToolCall:
    """One call as the model wrote it. `arguments` stays raw text, since it may not parse."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> dict[str, Any]:
        """The arguments as an object; raises ValueError with a text that a model can act on."""
        if too_deep(self.arguments):
            raise ValueError(f"the arguments of {self.name} are nested more than {DEEPEST} levels deep")
        try:
            value = _read_json(self.arguments or "{}")
        except ValueError as error:
            raise ValueError(f"the arguments of {self.name} are not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name} must be a JSON object, not {type(value).__name__}")
        return value

    @property
    def readable(self) -> dict[str, Any]:
        """The arguments as an object, whatever they are: what does not parse stands under `input`."""
        try:
            return self.parsed()
        except ValueError:
            return {"input": self.arguments}


def _read_json(text: str) -> Any:
    """A JSON value of finite numbers and whole characters only: what is not JSON elsewhere is not JSON here."""
    value = _DECODER.decode(text)
    return _whole_value(value) if "\\ud" in text.lower() else value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def _whole_value(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_whole_value(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): _whole_value(item) for key, item in value.items()}
    return value


@dataclass(frozen=True)
class Message:
    """One message of a conversation. `call_id` ties a tool's result to the call it answers.

    `thoughts` is JSON that a provider wants back unchanged with its message, such as signed reasoning; nobody reads it.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    thoughts: str = ""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            out["calls"] = [[c.id, c.name, c.arguments] for c in self.calls]
        if self.call_id:
            out["call_id"] = self.call_id
        if self.thoughts:
            out["thoughts"] = self.thoughts
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Message:
        calls = tuple(ToolCall(*c) for c in data.get("calls", ()))
        return Message(data["role"], data["content"], calls, data.get("call_id", ""), data.get("thoughts", ""))

    @cached_property
    def text(self) -> str:
        """The canonical JSON text, which is also what the store keeps."""
        return canonical(self.to_json())

    @cached_property
    def digest(self) -> str:
        return sha256(self.text)

    @cached_property
    def characters(self) -> int:
        """Characters that the model reads or writes."""
        return len(self.content) + sum(len(call.name) + len(call.arguments) for call in self.calls)


@dataclass(frozen=True)
class ToolSpec:
    """A tool as it is described to the model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ToolSpec:
        return ToolSpec(data["name"], data["description"], data["parameters"])

    @cached_property
    def digest(self) -> str:
        return sha256(canonical(self.to_json()))

    @cached_property
    def characters(self) -> int:
        return len(self.name) + len(self.description) + len(str(self.parameters))


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more calls, as the provider counted them. `cached` is part of `input`.

    `estimated` is the number of calls for which our own count stands in for one that the provider did not give.
    `cache_reported` is the input of the calls for which the provider said how much was cached: nothing cached and
    nothing said are different things.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    calls: int = 0
    estimated: int = 0
    cache_reported: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, self.__dict__.values(), other.__dict__.values()))  # its fields, in order

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def cached_share(self) -> float | None:
        """The share of the input that was cached, or None where no provider said."""
        return self.cached / self.cache_reported if self.cache_reported else None

    def to_json(self) -> list[int]:
        """The counts in order, without the last ones where those are 0."""
        counts = [self.input, self.output, self.cached, self.reasoning, self.calls]
        if self.cache_reported:
            return [*counts, self.estimated, self.cache_reported]
        return [*counts, self.estimated] if self.estimated else counts


@dataclass(frozen=True)
class Decoding:
    """Decoding settings. They are part of the frozen agent, and so of a request's digest.

    With `compact_over`, a request of more tokens than that asks for the provider's own compaction, where its API has
    one.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_schema: Mapping[str, Any] | None = None
    compact_over: int | None = None

    @cached_property
    def text(self) -> str:
        present = {k: v for k, v in self.__dict__.items() if v not in (None, ()) and k != "text"}
        return canonical(present)

    def seeded(self, seed: int | None) -> Decoding:
        return Decoding(  # as `replace` does, which takes three times as long: there is one for every call
            self.max_output_tokens,
            self.temperature,
            self.top_p,
            self.reasoning_effort,
            seed,
            self.stop,
            self.response_schema,
            self.compact_over,
        )

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Decoding:
        return Decoding(**{**data, "stop": tuple(data.get("stop", ()))})


def chain_digest(digest: str, messages: Iterable[Message]) -> str:
    """The digest of a conversation, continued from that of its beginning, so that only new messages are hashed."""
    return chain_digests(digest, (message.digest for message in messages))


def chain_digests(digest: str, digests: Iterable[str]) -> str:
    """The same where the digests of the messages are known and their texts need not be."""
    for each in digests:
        digest = sha256(digest + each)
    return digest


@dataclass(frozen=True)
class Request:
    """Everything that decides a reply. `chain` is the digest of its messages, if the caller already has it."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    decoding: Decoding = Decoding()
    chain: str = field(default="", compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        messages = self.chain or chain_digest("", self.messages)
        return sha256("\n".join((messages, *(t.digest for t in self.tools), self.decoding.text)))

    def seeded(self, seed: int) -> Request:
        return Request(self.messages, self.tools, self.decoding.seeded(seed), self.chain)


@dataclass(frozen=True)
class Reply:
    """What a model answered, with the provider's own count of tokens. `notes` say what had to be changed about it
    before it could be kept."""

    message: Message
    usage: Usage = Usage()
    finish: Finish = "stop"
    model: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "message": self.message.to_json(),
            "usage": self.usage.to_json(),
            "finish": self.finish,
            "model": self.model,
        }
        return {**out, "notes": list(self.notes)} if self.notes else out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Reply:
        message = Message.from_json(data["message"])
        return Reply(message, Usage(*data["usage"]), data["finish"], data["model"], tuple(data.get("notes", ())))


def system(content: str) -> Message:
    """A message of the role `system`."""
    return Message("system", content)


def user(content: str) -> Message:
    """A message of the role `user`."""
    return Message("user", content)


def assistant(content: str, *calls: ToolCall) -> Message:
    """A message of the agent, with its calls."""
    return Message("assistant", content, calls)
