"""Recompact finds out which context compactions hurt an LLM agent, and adapts the compaction prompt from that.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recompact.version import __version__

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
    "PocketSuite": "embedded.pocket.suite",
    "Prompted": "compressors.prompted",
    "Score": "trajectory",
    "Task": "environments.protocol",
    "Template": "template",
    "ToolSpec": "chat",
    "Trajectory": "trajectory",
    "adapt": "adaptation.adapt",
    "collect": "collection",
    "compare": "evaluation.paired",
    "counter": "tokens",
    "default_template": "template",
    "evaluate": "evaluation.evaluate",
    "findings": "attribution.findings",
    "function_suite": "environments.functions",
    "load_config": "config",
    "open_evaluation": "evaluation.evaluate",
    "open_run": "store.runs",
    "open_study": "study",
    "parse_arms": "evaluation.arms",
    "parse_config": "config",
    "read_arms": "evaluation.arm_runs",
    "run_episode": "execution.episodes",
    "simulated_models": "embedded.simulation",
    "verify": "attribution.verify",
}

if TYPE_CHECKING:
    from recompact.adaptation.adapt import adapt
    from recompact.attribution.findings import findings
    from recompact.attribution.verify import verify
    from recompact.chat import Decoding, Message, ToolSpec
    from recompact.collection import collect
    from recompact.compressors.fifo import Fifo
    from recompact.compressors.prompted import Prompted
    from recompact.config import load_config, parse_config
    from recompact.context import Context
    from recompact.embedded.pocket.suite import PocketSuite
    from recompact.embedded.simulation import simulated_models
    from recompact.environments.functions import function_suite
    from recompact.environments.inprocess import InProcessSuite
    from recompact.environments.protocol import Observation, Opening, Task
    from recompact.evaluation.arm_runs import read_arms
    from recompact.evaluation.arms import parse_arms
    from recompact.evaluation.evaluate import evaluate, open_evaluation
    from recompact.evaluation.paired import compare
    from recompact.execution.episodes import run_episode
    from recompact.models.endpoint import Endpoint
    from recompact.models.openai import OpenAIModel
    from recompact.rollout import Agent
    from recompact.store.runs import open_run
    from recompact.study import open_study
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
    "adapt",
    "collect",
    "compare",
    "counter",
    "default_template",
    "evaluate",
    "findings",
    "function_suite",
    "load_config",
    "open_evaluation",
    "open_run",
    "open_study",
    "parse_arms",
    "parse_config",
    "read_arms",
    "run_episode",
    "simulated_models",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'recompact' has no attribute {name!r}")
    return getattr(import_module(f"recompact.{_PUBLIC[name]}"), name)
