"""From the name of a model API to a model: built in, installed, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.errors import InputError, OptionError
from recompact.models.endpoint import Endpoint
from recompact.models.protocol import ChatModel
from recompact.registry import Registry, build

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
    plugin = MODELS.find("anthropic" if native else use, directory)
    if isinstance(plugin, ChatModel) and not isinstance(plugin, type):
        if options:
            raise OptionError(f"model {use!r} takes no options", next(iter(options)))
        return plugin
    model = build(plugin, options, endpoint=endpoint) if callable(plugin) else plugin
    if not isinstance(model, ChatModel):
        raise InputError(f"model {use!r} is no model: it needs `name` and `async def reply(request)`")
    return model
