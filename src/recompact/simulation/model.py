"""What the simulated models have in common: replies that follow from the request alone, and the blocks of a text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from random import Random
from typing import Any, ClassVar

from recompact.simulation.parameters import World, draw_world
from recompact.values.chat import Message, Reply, Request, Usage
from recompact.values.tokens import counter


class SimulatedModel(ABC):
    """A `ChatModel` whose randomness comes from the request's seed alone. It behaves as in the second edition of the
    embedded world, or as in a `world` of the third."""

    name: ClassVar[str]
    part: ClassVar[str]  # of a world: the parameters that this model behaves by
    simulated = True

    def __init__(self, behaviour: Any = None, *, world: int | None = None) -> None:
        self.behaviour = behaviour or getattr(World() if world is None else draw_world(world), self.part)

    async def reply(self, request: Request) -> Reply:
        role, seed = self.name.removeprefix("sim-"), request.decoding.seed
        message = self.answer(request.messages, Random(f"{role}/{seed}" if seed is not None else request.digest))
        text = message.content + "".join(call.arguments for call in message.calls)
        usage = Usage(_input_tokens(request), _count(text) + 8 * len(message.calls), 0, 0, 1)
        return Reply(message, usage, model=self.name)

    @abstractmethod
    def answer(self, messages: tuple[Message, ...], rng: Random) -> Message: ...


@lru_cache(maxsize=50_000)
def _count(text: str) -> int:
    return counter()(text)


def _input_tokens(request: Request) -> int:
    """Tokens of a request's messages, with a few for the frame of each."""
    texts = [m.content for m in request.messages] + [c.arguments for m in request.messages for c in m.calls]
    return sum(_count(text) + 4 for text in texts)


def blocks_in(text: str, tag: str, attributes: str = "") -> list[str]:
    """What is between tags in a text, each time that they occur; `attributes` is a pattern."""
    return re.findall(rf"<{tag}{attributes}>\n(.*?)\n</{tag}>", text, re.DOTALL)


def block(text: str, tag: str, attributes: str = "") -> str:
    """What is between tags in a text for the first time; nothing where they do not occur."""
    return next(iter(blocks_in(text, tag, attributes)), "")
