"""Recompact finds out which context compactions hurt an LLM agent, and adapts the compaction prompt from that.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recompact.version import __version__ as __version__

if TYPE_CHECKING:
    from recompact.adaptation.adapt import adapt as adapt
    from recompact.agents.function import LoopEnded as LoopEnded, agent_suite as agent_suite
    from recompact.assembly import open_study as open_study
    from recompact.attribution.findings import findings as findings
    from recompact.attribution.verify import verify as verify
    from recompact.candidate import Candidate as Candidate, Clause as Clause
    from recompact.chat import (
        Decoding as Decoding,
        Message as Message,
        Reply as Reply,
        Request as Request,
        ToolCall as ToolCall,
        ToolSpec as ToolSpec,
        Usage as Usage,
        assistant as assistant,
        system as system,
        user as user,
    )
    from recompact.collection import collect as collect
    from recompact.compactor import Compactor as Compactor
    from recompact.compressors.fifo import Fifo as Fifo
    from recompact.compressors.prompted import Prompted as Prompted
    from recompact.compressors.protocol import (
        Compaction as Compaction,
        CompactionFailed as CompactionFailed,
        Compressor as Compressor,
        CompressorInputs as CompressorInputs,
        CompressorKind as CompressorKind,
    )
    from recompact.config import Config as Config
    from recompact.config_parser import load_config as load_config, parse_config as parse_config
    from recompact.context import Context as Context, Summary as Summary, Turn as Turn
    from recompact.embedded.pocket.suite import PocketSuite as PocketSuite
    from recompact.embedded.simulation import simulated_models as simulated_models
    from recompact.environments.functions import function_suite as function_suite
    from recompact.environments.inprocess import InProcessSuite as InProcessSuite
    from recompact.environments.protocol import (
        Environment as Environment,
        EnvironmentFailed as EnvironmentFailed,
        Observation as Observation,
        Opening as Opening,
        Suite as Suite,
        Task as Task,
    )
    from recompact.errors import InputError as InputError, OptionError as OptionError, RecompactError as RecompactError
    from recompact.evaluation.arm_runs import read_arms as read_arms
    from recompact.evaluation.arms import Arm as Arm
    from recompact.evaluation.evaluate import evaluate as evaluate, open_evaluation as open_evaluation
    from recompact.evaluation.paired import compare as compare
    from recompact.execution.episodes import run_episode as run_episode
    from recompact.execution.scheduler import Unfinished as Unfinished
    from recompact.loops import GatewayClient as GatewayClient, LoopCompaction as LoopCompaction, gateway as gateway
    from recompact.models.endpoint import Endpoint as Endpoint
    from recompact.models.failures import ModelFailure as ModelFailure
    from recompact.models.openai import OpenAIModel as OpenAIModel
    from recompact.models.protocol import ChatModel as ChatModel
    from recompact.outcome import BoundaryId as BoundaryId, Outcome as Outcome, Outcomes as Outcomes
    from recompact.progress import Progress as Progress
    from recompact.rollout import Agent as Agent
    from recompact.store.runs import open_run as open_run
    from recompact.study import Method as Method, Study as Study
    from recompact.template import Template as Template, default_template as default_template
    from recompact.tokens import counter as counter
    from recompact.trajectory import Action as Action, Boundary as Boundary, Score as Score, Trajectory as Trajectory

_PUBLIC = {
    "Action": "trajectory",
    "Agent": "rollout",
    "Arm": "evaluation.arms",
    "Boundary": "trajectory",
    "BoundaryId": "outcome",
    "Candidate": "candidate",
    "ChatModel": "models.protocol",
    "Clause": "candidate",
    "Compaction": "compressors.protocol",
    "CompactionFailed": "compressors.protocol",
    "Compactor": "compactor",
    "Compressor": "compressors.protocol",
    "CompressorInputs": "compressors.protocol",
    "CompressorKind": "compressors.protocol",
    "Config": "config",
    "Context": "context",
    "Decoding": "chat",
    "Endpoint": "models.endpoint",
    "Environment": "environments.protocol",
    "EnvironmentFailed": "environments.protocol",
    "Fifo": "compressors.fifo",
    "GatewayClient": "loops",
    "InProcessSuite": "environments.inprocess",
    "InputError": "errors",
    "LoopCompaction": "loops",
    "LoopEnded": "agents.function",
    "Message": "chat",
    "Method": "study",
    "ModelFailure": "models.failures",
    "Observation": "environments.protocol",
    "OpenAIModel": "models.openai",
    "Opening": "environments.protocol",
    "OptionError": "errors",
    "Outcome": "outcome",
    "Outcomes": "outcome",
    "PocketSuite": "embedded.pocket.suite",
    "Progress": "progress",
    "Prompted": "compressors.prompted",
    "RecompactError": "errors",
    "Reply": "chat",
    "Request": "chat",
    "Score": "trajectory",
    "Study": "study",
    "Suite": "environments.protocol",
    "Summary": "context",
    "Task": "environments.protocol",
    "Template": "template",
    "ToolCall": "chat",
    "ToolSpec": "chat",
    "Trajectory": "trajectory",
    "Turn": "context",
    "Unfinished": "execution.scheduler",
    "Usage": "chat",
    "adapt": "adaptation.adapt",
    "agent_suite": "agents.function",
    "assistant": "chat",
    "collect": "collection",
    "compare": "evaluation.paired",
    "counter": "tokens",
    "default_template": "template",
    "evaluate": "evaluation.evaluate",
    "findings": "attribution.findings",
    "function_suite": "environments.functions",
    "gateway": "loops",
    "load_config": "config_parser",
    "open_evaluation": "evaluation.evaluate",
    "open_run": "store.runs",
    "open_study": "assembly",
    "parse_config": "config_parser",
    "read_arms": "evaluation.arm_runs",
    "run_episode": "execution.episodes",
    "simulated_models": "embedded.simulation",
    "system": "chat",
    "user": "chat",
    "verify": "attribution.verify",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'recompact' has no attribute {name!r}")
    return getattr(import_module(f"recompact.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
