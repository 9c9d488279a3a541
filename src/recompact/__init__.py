"""Recompact finds out which context compactions hurt an LLM agent, and adapts the compaction prompt from that.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "Agent": "rollout",
    "Boundary": "trajectory",
    "Context": "context",
    "Decoding": "chat",
    "Endpoint": "models.endpoint",
    "Fifo": "compressors.fifo",
    "InProcessSuite": "environments.inprocess",
    "Message": "chat",
    "Observation": "environments.protocol",
    "OpenAIModel": "models.openai",
    "Opening": "environments.protocol",
    "PocketSuite": "environments.pocket.suite",
    "Prompted": "compressors.prompted",
    "Score": "trajectory",
    "Task": "environments.protocol",
    "Template": "template",
    "ToolSpec": "chat",
    "Trajectory": "trajectory",
    "counter": "tokens",
    "default_template": "template",
    "function_suite": "environments.functions",
    "run_episode": "execution.episodes",
    "simulated_models": "simulation",
}

if TYPE_CHECKING:
    from recompact.chat import Decoding, Message, ToolSpec
    from recompact.compressors.fifo import Fifo
    from recompact.compressors.prompted import Prompted
    from recompact.context import Context
    from recompact.environments.functions import function_suite
    from recompact.environments.inprocess import InProcessSuite
    from recompact.environments.pocket.suite import PocketSuite
    from recompact.environments.protocol import Observation, Opening, Task
    from recompact.execution.episodes import run_episode
    from recompact.models.endpoint import Endpoint
    from recompact.models.openai import OpenAIModel
    from recompact.rollout import Agent
    from recompact.simulation import simulated_models
    from recompact.template import Template, default_template
    from recompact.tokens import counter
    from recompact.trajectory import Boundary, Score, Trajectory

__all__ = [
    "Agent",
    "Boundary",
    "Context",
    "Decoding",
    "Endpoint",
    "Fifo",
    "InProcessSuite",
    "Message",
    "Observation",
    "OpenAIModel",
    "Opening",
    "PocketSuite",
    "Prompted",
    "Score",
    "Task",
    "Template",
    "ToolSpec",
    "Trajectory",
    "__version__",
    "counter",
    "default_template",
    "function_suite",
    "run_episode",
    "simulated_models",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'recompact' has no attribute {name!r}")
    return getattr(import_module(f"recompact.{_PUBLIC[name]}"), name)
