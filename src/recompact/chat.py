"""The messages of a conversation with a model, its requests and replies, and what they cost.

Plain immutable values that know nothing of providers or environments. Each has a canonical JSON form and from it a
digest: the journal keys a call by the digest of its request, the store keeps a message under its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "refusal"]


def canonical(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, nothing escaped that need not be."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class ToolCall:
    """One call as the model wrote it. `arguments` stays raw text, since it may not parse."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> dict[str, Any]:
        """The arguments as an object; raises ValueError with a text that a model can act on."""
        try:
            value = json.loads(self.arguments or "{}")
        except json.JSONDecodeError as error:
            raise ValueError(f"the arguments of {self.name} are not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name} must be a JSON object, not {type(value).__name__}")
        return value


@dataclass(frozen=True)
class Message:
    """One message of a conversation. `call_id` ties a tool's result to the call it answers."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            out["calls"] = [[c.id, c.name, c.arguments] for c in self.calls]
        if self.call_id:
            out["call_id"] = self.call_id
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Message:
        calls = tuple(ToolCall(*c) for c in data.get("calls", ()))
        return Message(data["role"], data["content"], calls, data.get("call_id", ""))

    @cached_property
    def text(self) -> str:
        """The canonical JSON text, which is also what the store keeps."""
        return canonical(self.to_json())

    @cached_property
    def digest(self) -> str:
        return sha256(self.text)


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


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more calls, as the provider counted them. `cached` is part of `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.calls + other.calls,
        )

    @property
    def total(self) -> int:
        return self.input + self.output

    def to_json(self) -> list[int]:
        return [self.input, self.output, self.cached, self.reasoning, self.calls]


@dataclass(frozen=True)
class Decoding:
    """Decoding settings. They are part of the frozen agent, and so of a request's digest."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_schema: Mapping[str, Any] | None = None

    @cached_property
    def text(self) -> str:
        present = {k: v for k, v in self.__dict__.items() if v not in (None, ()) and k != "text"}
        return canonical(present)

    def seeded(self, seed: int) -> Decoding:
        return replace(self, seed=seed)


def chain_digest(digest: str, messages: Iterable[Message]) -> str:
    """The digest of a conversation, continued from that of its beginning, so that only new messages are hashed."""
    for message in messages:
        digest = sha256(digest + message.digest)
    return digest


@dataclass(frozen=True)
class Request:
    """Everything that decides a reply. `chain` is the digest of its messages, where the caller has it already."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    decoding: Decoding = Decoding()
    chain: str = field(default="", compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        messages = self.chain or chain_digest("", self.messages)
        return sha256("\n".join((messages, *(t.digest for t in self.tools), self.decoding.text)))


@dataclass(frozen=True)
class Reply:
    """What a model answered, with the provider's own count of tokens."""

    message: Message
    usage: Usage = Usage()
    finish: Finish = "stop"
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "message": self.message.to_json(),
            "usage": self.usage.to_json(),
            "finish": self.finish,
            "model": self.model,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Reply:
        return Reply(Message.from_json(data["message"]), Usage(*data["usage"]), data["finish"], data["model"])


def system(content: str) -> Message:
    return Message("system", content)


def user(content: str) -> Message:
    return Message("user", content)


def assistant(content: str, *calls: ToolCall) -> Message:
    return Message("assistant", content, calls)
