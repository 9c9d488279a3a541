"""A compressor takes a context that is over its budget and returns a smaller one (the paper's Eq. 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from recompact.errors import RecompactError
from recompact.models.protocol import ChatModel
from recompact.values.chat import Decoding, ToolSpec, Usage
from recompact.values.context import Context
from recompact.values.reading import key
from recompact.values.template import Template
from recompact.values.tokens import TokenCounter

Scope = Literal["history", "prefix", "observation"]
Rendering = Literal["quoted", "appended"]
SCOPES: tuple[Scope, ...] = ("history", "prefix")
"""The scopes of the paper, in which the history is replaced. In the third, one observation is, before it is read."""


@dataclass(frozen=True)
class Compaction:
    """One compaction's result."""

    context: Context
    usage: Usage = Usage()
    asked_again: bool = False
    cut: bool = False
    notes: tuple[str, ...] = ()  # what had to be changed about the replies
    repaired: tuple[str, ...] = ()  # what a check missed and put back

    def following(self, earlier: Compaction) -> Compaction:
        """This one, with what came of the one before it as well."""
        return Compaction(
            self.context,
            earlier.usage + self.usage,
            earlier.asked_again or self.asked_again,
            earlier.cut or self.cut,
            (*earlier.notes, *self.notes),
            (*earlier.repaired, *self.repaired),
        )


@runtime_checkable
class Compressor(Protocol):
    """Replaces history. The prefix and the most recent turn always stay as they are."""

    async def compress(self, context: Context, budget: int) -> Compaction:
        """A smaller context for one that is over its budget."""
        ...


@dataclass(frozen=True, kw_only=True)
class CompressorSettings:
    """The keys of [compressor] that a compressor goes by. Configs, inputs and `Prompted` have those that stand here."""

    scope: Scope = key(
        "history", "what is compressed: history, with or without the prefix in view, or each long observation"
    )
    rendering: Rendering = key("quoted", "with scope prefix: quoted as a block, or appended to the agent's messages")


@dataclass(frozen=True)
class CompressorInputs(CompressorSettings):
    """What a compressor of one episode may be built from. A plug-in that wants it has a parameter called `inputs`."""

    model: ChatModel
    template: Template
    count: TokenCounter
    task: str = ""
    tools: tuple[ToolSpec, ...] = ()
    decoding: Decoding = Decoding(max_output_tokens=8192)
    inner: Compressor | None = None


@dataclass(frozen=True)
class CompressorKind:
    """A way to compress: how one is built for an episode (None compresses nothing), and whether it works by a template,
    so that arms with other templates are other arms. One that `wraps` gets the compressor that it works on as `inner`.
    With `recall`, the agent may search what was dropped, for results of up to so many tokens.
    """

    build: Callable[[CompressorInputs], Compressor | None]
    uses_template: bool = False
    wraps: bool = False
    recall: int = 0


@dataclass(frozen=True)
class InTurn:
    """`first+then`: what follows is only asked where what comes first leaves too little room."""

    first: Compressor
    then: Compressor

    async def compress(self, context: Context, budget: int) -> Compaction:
        compaction = await self.first.compress(context, budget)
        if has_room(compaction.context.size, budget):
            return compaction
        return (await self.then.compress(compaction.context, budget)).following(compaction)


ROOM = 0.1
"""The share of the budget that a compaction should leave free, so that the next one is not due at once."""


def has_room(size: int, budget: int) -> bool:
    return size <= (1 - ROOM) * budget


class CompactionFailed(RecompactError):
    """No usable summary came back. The rollout goes on with the context as it was and records the incident."""

    def __init__(self, text: str, usage: Usage, notes: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.usage = usage
        self.notes = notes


def room_beside_last(context: Context, budget: int) -> int:
    """Tokens left for what replaces the history: the last turn stays, and half the budget is the least that makes
    sense."""
    last = context.turns[-1].tokens if context.turns else 0
    return max(budget - last - sum(pin.tokens for pin in context.pinned), budget // 2)
