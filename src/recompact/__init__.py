"""Recompact finds out which context compactions hurt an LLM agent, and adapts the compaction prompt from that.

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recompact.version import __version__ as __version__

if TYPE_CHECKING:
    from recompact.adaptation.adapt import Adaptation as Adaptation, adapt as adapt
    from recompact.adaptation.method import Method as Method, MethodInputs as MethodInputs
    from recompact.agents.client import LoopEnded as LoopEnded
    from recompact.attribution.allocation import Allocation as Allocation
    from recompact.attribution.boundary_view import BoundaryView as BoundaryView, boundary_view as boundary_view
    from recompact.attribution.judgement import Verification as Verification, read_verdicts as read_verdicts
    from recompact.attribution.verify import verify as verify
    from recompact.compressors.fifo import Fifo as Fifo
    from recompact.compressors.prompted import Prompted as Prompted
    from recompact.compressors.protocol import (
        Compaction as Compaction,
        CompactionFailed as CompactionFailed,
        Compressor as Compressor,
        CompressorInputs as CompressorInputs,
        CompressorKind as CompressorKind,
    )
    from recompact.engine.assembly import open_study as open_study
    from recompact.engine.collection import collect as collect
    from recompact.engine.compactor import Compactor as Compactor
    from recompact.engine.config import Config as Config
    from recompact.engine.config_parser import load_config as load_config, parse_config as parse_config
    from recompact.engine.execution.scheduler import Unfinished as Unfinished
    from recompact.engine.loops import (
        GatewayClient as GatewayClient,
        LoopCompaction as LoopCompaction,
        gateway as gateway,
    )
    from recompact.engine.rollout import Agent as Agent, run_episode as run_episode
    from recompact.engine.store.adaptations import AdaptationRecorded as AdaptationRecorded
    from recompact.engine.store.records import EpisodeRecorded as EpisodeRecorded
    from recompact.engine.store.runs import open_run as open_run
    from recompact.engine.store.store import Store as Store
    from recompact.engine.store.verdicts import Verdict as Verdict, VerdictsRecorded as VerdictsRecorded
    from recompact.engine.study import Study as Study
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
    from recompact.evaluation.arm_runs import ArmRuns as ArmRuns, read_arms as read_arms
    from recompact.evaluation.arms import Arm as Arm
    from recompact.evaluation.evaluate import (
        EvaluationPlan as EvaluationPlan,
        evaluate as evaluate,
        open_evaluation as open_evaluation,
    )
    from recompact.evaluation.paired import Comparison as Comparison, compare as compare
    from recompact.harnesses.exporting import Export as Export
    from recompact.harnesses.registry import export as export
    from recompact.models.endpoint import Endpoint as Endpoint
    from recompact.models.failures import ModelFailure as ModelFailure
    from recompact.models.openai import OpenAIModel as OpenAIModel
    from recompact.models.protocol import ChatModel as ChatModel
    from recompact.simulation import simulated_models as simulated_models
    from recompact.suites.pocket.suite import PocketSuite as PocketSuite
    from recompact.suites.workspace.function_agents import agent_suite as agent_suite
    from recompact.values.candidate import Candidate as Candidate, Clause as Clause
    from recompact.values.chat import (
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
    from recompact.values.context import Context as Context, Summary as Summary, Turn as Turn
    from recompact.values.events import ContextCompacted as ContextCompacted, on as on
    from recompact.values.outcome import (
        BoundaryId as BoundaryId,
        Draw as Draw,
        Outcome as Outcome,
        Outcomes as Outcomes,
    )
    from recompact.values.progress import Progress as Progress
    from recompact.values.receipt import Receipt as Receipt
    from recompact.values.template import Template as Template, default_template as default_template
    from recompact.values.tokens import counter as counter
    from recompact.values.trajectory import (
        Action as Action,
        Boundary as Boundary,
        Score as Score,
        Trajectory as Trajectory,
    )

_PUBLIC = {
    "adaptation.adapt": "Adaptation adapt",
    "adaptation.method": "Method MethodInputs",
    "agents.client": "LoopEnded",
    "attribution.allocation": "Allocation",
    "attribution.boundary_view": "BoundaryView boundary_view",
    "attribution.judgement": "Verification read_verdicts",
    "attribution.verify": "verify",
    "compressors.fifo": "Fifo",
    "compressors.prompted": "Prompted",
    "compressors.protocol": "Compaction CompactionFailed Compressor CompressorInputs CompressorKind",
    "engine.assembly": "open_study",
    "engine.collection": "collect",
    "engine.compactor": "Compactor",
    "engine.config": "Config",
    "engine.config_parser": "load_config parse_config",
    "engine.execution.scheduler": "Unfinished",
    "engine.loops": "GatewayClient LoopCompaction gateway",
    "engine.rollout": "Agent run_episode",
    "engine.store.adaptations": "AdaptationRecorded",
    "engine.store.records": "EpisodeRecorded",
    "engine.store.runs": "open_run",
    "engine.store.store": "Store",
    "engine.store.verdicts": "Verdict VerdictsRecorded",
    "engine.study": "Study",
    "environments.functions": "function_suite",
    "environments.inprocess": "InProcessSuite",
    "environments.protocol": "Environment EnvironmentFailed Observation Opening Suite Task",
    "errors": "InputError OptionError RecompactError",
    "evaluation.arm_runs": "ArmRuns read_arms",
    "evaluation.arms": "Arm",
    "evaluation.evaluate": "EvaluationPlan evaluate open_evaluation",
    "evaluation.paired": "Comparison compare",
    "harnesses.exporting": "Export",
    "harnesses.registry": "export",
    "models.endpoint": "Endpoint",
    "models.failures": "ModelFailure",
    "models.openai": "OpenAIModel",
    "models.protocol": "ChatModel",
    "simulation": "simulated_models",
    "suites.pocket.suite": "PocketSuite",
    "suites.workspace.function_agents": "agent_suite",
    "values.candidate": "Candidate Clause",
    "values.chat": "Decoding Message Reply Request ToolCall ToolSpec Usage assistant system user",
    "values.context": "Context Summary Turn",
    "values.events": "ContextCompacted on",
    "values.outcome": "BoundaryId Draw Outcome Outcomes",
    "values.progress": "Progress",
    "values.receipt": "Receipt",
    "values.template": "Template default_template",
    "values.tokens": "counter",
    "values.trajectory": "Action Boundary Score Trajectory",
}
"""Where the public names are: module by module."""
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'recompact' has no attribute {name!r}")
    return getattr(import_module(f"recompact.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
