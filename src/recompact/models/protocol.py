"""A model is something that answers a request. Everything that asks one asks through this. It is found by the name of
its API: built in, installed, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from recompact.models.endpoint import Endpoint
from recompact.registry import Registry
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


class Wrapper:
    """What is around another model bears its name, and is simulated where that one is."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def simulated(self) -> bool:
        return is_simulated(self._model)


def is_simulated(model: ChatModel) -> bool:
    """Whether a model is one of the embedded world: it says so of itself, whatever name it is given."""
    return bool(getattr(model, "simulated", False))


MODELS = Registry(
    "model",
    "recompact.models",
    {
        "openai": "recompact.models.openai:OpenAIModel",
        "anthropic": "recompact.models.anthropic:AnthropicModel",
    },
)


def load_model(use: str, options: Mapping[str, Any], endpoint: Endpoint, directory: Path) -> ChatModel:
    """A model by the name of its API. The plug-in may be a model, or anything that is called with the options (and with
    `endpoint`, if it has such a parameter) and returns one."""
    # `api = "anthropic"` is enough: the client need not be named too.
    native = use == "openai" and endpoint.api == "anthropic"
    name, needs = "anthropic" if native else use, "it needs `name` and `async def reply(request)`"
    model: ChatModel = MODELS.make(name, options, ChatModel, needs, directory, endpoint=endpoint)
    return model
