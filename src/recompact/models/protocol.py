"""A model is something that answers a request. Everything that asks one asks through this."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from recompact.values.chat import Reply, Request


@runtime_checkable
class ChatModel(Protocol):
    """Text in, text out. Implementations raise the failures of `recompact.models.failures` and nothing else."""

    @property
    def name(self) -> str:
        """The model's name in run files."""
        ...

    async def reply(self, request: Request) -> Reply:
        """Answer a request."""
        ...


def is_simulated(model: ChatModel) -> bool:
    """Whether a model is one of the embedded world: it says so of itself, whatever name it is given."""
    return bool(getattr(model, "simulated", False))
