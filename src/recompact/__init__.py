"""Recompact finds out which context compactions hurt an LLM agent, and adapts the compaction prompt from that.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "Context": "context",
    "Message": "chat",
    "Observation": "environments.protocol",
    "Opening": "environments.protocol",
    "Score": "trajectory",
    "Task": "environments.protocol",
    "Template": "template",
    "ToolSpec": "chat",
    "Trajectory": "trajectory",
}

if TYPE_CHECKING:
    from recompact.chat import Message, ToolSpec
    from recompact.context import Context
    from recompact.environments.protocol import Observation, Opening, Task
    from recompact.template import Template
    from recompact.trajectory import Score, Trajectory

__all__ = [
    "Context",
    "Message",
    "Observation",
    "Opening",
    "Score",
    "Task",
    "Template",
    "ToolSpec",
    "Trajectory",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'recompact' has no attribute {name!r}")
    return getattr(import_module(f"recompact.{_PUBLIC[name]}"), name)
