"""From the name of a model API to a model: built in, installed, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.models.endpoint import Endpoint
from recompact.models.protocol import ChatModel
from recompact.registry import Registry

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
