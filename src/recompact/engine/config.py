"""A config file as a value: what is run, with which models, under which budget. Defaults are those of the paper.

Nothing is read, built or contacted here: `recompact.engine.config_parser` reads the file.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from recompact.agents.profiles import Profile, profile_named
from recompact.agents.settings import IGNORED, AgentSettings
from recompact.compressors.protocol import Rendering, Scope
from recompact.engine.rollout import OBSERVATION_TOKENS
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.sandbox import HostLimits, SandboxMode
from recompact.errors import InputError
from recompact.models.endpoint import Endpoint, Seconds
from recompact.models.secrets import redact
from recompact.values.chat import canonical, sha256
from recompact.values.texts import command_line

Count = Annotated[int, Gt(0)]
Threshold = Annotated[float, Gt(0)]
Amount = Annotated[float, Ge(0), Lt(math.inf)]
Share = Annotated[float, Ge(0), Le(1)]

ALLOCATION = r"(chained:)?(halving|racing|uniform(:[1-9]\d*)?)|chained"
ALLOCATIONS = "halving, uniform:N, racing, chained, or chained: and one of them"
"""Ways to spend draws: the names as a pattern, and in words."""

DEFAULT_MODELS = {"agent": "sim-agent", "compressor": "sim-compressor", "optimizer": "sim-optimizer"}
"""The model of each role where a config names none at all: the embedded ones."""


@dataclass(frozen=True)
class SuiteConfig:
    """[suite]: which tasks."""

    use: str = "pocket"  # a built-in suite, file.py:name or module:name
    split: str = "train"
    tasks: tuple[str, ...] = ()  # only these ids
    limit: Count | None = None  # only the first N
    options: dict[str, Any] = field(default_factory=dict)
    host: bool | str = False  # each environment in a process of its own; or where, such as "ray"
    python: str | None = None  # the interpreter of that process
    timeout: Seconds = 120.0  # for one verb of a hosted environment
    sandbox: SandboxMode = "auto"  # whether a host is sandboxed: where it can be, always, or never
    network: bool = False  # whether a sandboxed host may use it
    env: tuple[str, ...] = ()  # variables that a host gets besides PATH and the locale
    readable: tuple[str, ...] = ()  # places that a host may read besides the suite's directory
    limits: HostLimits = field(default_factory=HostLimits)  # of one host
    models: dict[str, str] = field(default_factory=dict)  # role -> model, for environments that ask for one


@dataclass(frozen=True)
class PriceConfig:
    """Money per million tokens."""

    input: Amount = 0.0
    output: Amount = 0.0
    cached: Amount | None = None


@dataclass(frozen=True)
class ModelConfig(Endpoint):
    """[models.NAME]: where a model is and what may be asked of it."""

    use: str = "openai"  # the API: built in, installed, file.py:name or module:name
    options: dict[str, Any] = field(default_factory=dict)  # for that API only
    attempts: Count = 8
    retry_wait: Seconds = 1.0  # the first wait, at most; it doubles
    max_wait: Seconds = 120.0  # at most this much of a server's Retry-After is heeded
    concurrency: Count = 16
    requests_per_minute: Seconds | None = None
    tokens_per_minute: Seconds | None = None
    price: PriceConfig = field(default_factory=PriceConfig)


@dataclass(frozen=True)
class AgentConfig:
    """[agent]: the frozen agent."""

    model: str = DEFAULT_MODELS["agent"]
    max_output_tokens: Count = 2048
    temperature: Amount | None = None
    top_p: Share | None = None
    reasoning_effort: str | None = None
    stop: tuple[str, ...] = ()
    profile: str | None = None  # a known agent, in place of our loop
    command: tuple[str, ...] = ()  # or any other; with a profile, its command with other arguments
    variables: dict[str, str] = field(default_factory=dict)  # of either, like all that follow
    files: dict[str, str] = field(default_factory=dict)
    readable: tuple[str, ...] = ()
    replace: dict[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    ignore: tuple[str, ...] = IGNORED
    timeout: Seconds = 600.0  # from one request to the next
    sandbox: Literal["require", "off"] = "require"
    limits: HostLimits = field(default_factory=HostLimits)

    @property
    def external(self) -> bool:
        """Whether the agent is somebody's program, and not our loop."""
        return bool(self.command or self.profile)

    def settings(self, directory: Path) -> AgentSettings:
        """How the program is to be started; its paths are relative to `directory`."""
        known = profile_named(self.profile) if self.profile else Profile(())
        command = self.command or known.command
        if command and "/" in command[0] and not command[0].startswith("{"):  # {home} and the like are filled in later
            command = (str(_absolute(directory, command[0])), *command[1:])
        return AgentSettings(
            command=command,
            variables={**known.variables, **self.variables},
            files={**known.files, **self.files},
            readable=tuple(_absolute(directory, place) for place in self.readable),
            replace={**known.replace, **self.replace},
            ids=(*known.ids, *self.ids),
            mask=(*known.mask, *self.mask),
            ignore=self.ignore,
            timeout=self.timeout,
            unsafe=self.sandbox == "off",
            limits=self.limits,
        )


def _absolute(directory: Path, place: str) -> Path:
    """A path of a config from the root on: a sandbox has another current directory. Links stay: a virtual environment
    has some."""
    return Path(os.path.abspath(directory / Path(place).expanduser()))


_OF_PROGRAMS = ("profile", "command", "variables", "files", "replace", "ids", "mask", "ignore")
"""The keys of [agent] that decide the results of a program and mean nothing to our loop."""


@dataclass(frozen=True)
class CompressorConfig:
    """[compressor]: what replaces the history, and when."""

    kind: str = "prompted"  # or fifo, llmlingua2, none, an installed one, file.py:name or module:name
    options: dict[str, Any] = field(default_factory=dict)  # for that kind only
    budget: Count = 4096
    model: str | None = None  # default: the agent's
    template: str = "default"
    scope: Scope = "history"
    rendering: Rendering = "quoted"
    max_output_tokens: Count = 8192
    temperature: Amount | None = None
    top_p: Share | None = None
    reasoning_effort: str | None = None


@dataclass(frozen=True)
class RunConfig:
    """[run]: how it is run."""

    step_limit: Count = 50
    concurrency: Count = 16  # episodes at once
    seed: int = 0
    counter: Literal["o200k", "cl100k", "characters"] = "o200k"
    directory: str = "runs"
    observation_tokens: Count = OBSERVATION_TOKENS  # the agent sees both ends of a longer observation


@dataclass(frozen=True)
class OptimizerConfig:
    """[optimizer]: the model that diagnoses boundaries and revises templates."""

    model: str | None = None  # default: the agent's
    max_output_tokens: Count = 16384
    temperature: Amount | None = None
    top_p: Share | None = None
    reasoning_effort: str | None = None


@dataclass(frozen=True)
class AdaptConfig:
    """[adapt]: how a template is adapted. Defaults are the paper's."""

    method: str = "pair"  # or facts, acon-ut, gepa, …, an installed one, file.py:name or module:name
    options: dict[str, Any] = field(default_factory=dict)  # for that method only
    candidates: Count = 5
    fit_tasks: Count = 12  # those with the most compactions
    fit_runs: Count = 1  # of each candidate on each of them
    fit_retries: Annotated[int, Ge(0)] = 2  # of a run whose environment broke
    selection: Literal["paper", "racing"] = "paper"
    replays: Count = 3  # at most, of each candidate at each boundary that it answers, before it races
    redraws: Annotated[int, Ge(0)] = 3  # of a diagnosis or a candidate that breaks a rule
    evidence_tokens: Count = 60_000  # of one call


@dataclass(frozen=True)
class CeilingConfig:
    """[ceiling]: what a run may spend before it stops."""

    tokens: Count | None = None
    money: Seconds | None = None
    warn: Amount | None = 10.0  # a command says so when more money than this is forecast


@dataclass(frozen=True)
class VerifyConfig:
    """[verify]: how large an effect makes a boundary harmful, and how draws are spent to find out."""

    hazard: Threshold = 0.5  # success lost
    burden: Threshold = 5.0  # steps added
    allocation: str = "halving"  # or uniform:N, racing, chained, chained:racing
    prior: Literal["published", "audit"] = "published"  # racing only: "audit" starts from what trajectories show
    half: Literal["even", "up"] = "even"  # how halving rounds half of an odd number; even as in the paper's table


@dataclass(frozen=True)
class Config:
    """A whole config file."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
    models: dict[str, ModelConfig] = field(default_factory=dict)
    agent: AgentConfig = field(default_factory=AgentConfig)
    compressor: CompressorConfig = field(default_factory=CompressorConfig)
    run: RunConfig = field(default_factory=RunConfig)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    ceiling: CeilingConfig = field(default_factory=CeilingConfig)
    verify: VerifyConfig = field(default_factory=VerifyConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    adapt: AdaptConfig = field(default_factory=AdaptConfig)

    file: Path | None = field(default=None, compare=False)  # where it was read from
    text: str = field(default="", compare=False, repr=False)

    @property
    def directory(self) -> Path:
        """What paths in the config are relative to."""
        return self.file.parent if self.file else Path()

    @property
    def compressor_model(self) -> str:
        return self.compressor.model or self._default_model("compressor")

    @property
    def optimizer_model(self) -> str:
        return self.optimizer.model or self._default_model("optimizer")

    def _default_model(self, role: str) -> str:
        """The agent's; the agent that is simulated by default has its simulated companions."""
        return DEFAULT_MODELS[role] if self.agent.model == DEFAULT_MODELS["agent"] else self.agent.model

    def identity(self) -> dict[str, Any]:
        """What decides results. Addresses, limits, prices and ceilings may change between two halves of a run.

        So may [verify]: it chooses among draws and judges them, but no draw depends on it.
        """
        data = asdict(self)
        for key in ("cluster", "ceiling", "verify", "optimizer", "adapt", "file", "text"):
            del data[key]
        for key in ("concurrency", "directory"):
            del data["run"][key]
        for key in ("timeout", "python", "sandbox", "network", "env", "readable", "limits"):
            del data["suite"][key]
        data["suite"]["host"] = bool(self.suite.host)  # where hosts live decides nothing
        for key in ("readable", "timeout", "sandbox", "limits", *(() if self.agent.external else _OF_PROGRAMS)):
            del data["agent"][key]
        if self.run.observation_tokens == OBSERVATION_TOKENS:
            del data["run"]["observation_tokens"]
        if not self.compressor.options:
            del data["compressor"]["options"]
        kept = ("id", "api", "calls", "send_seed", "merge_roles", "extra_body")
        data["models"] = {
            name: redact({key: model[key] for key in (*kept, *(("use", "options") * (model["use"] != "openai")))})
            for name, model in data["models"].items()
            if name in self.deciding_models
        }
        return data

    @property
    def deciding_models(self) -> set[str]:
        """The models whose answers a trajectory consists of."""
        return {self.agent.model, self.compressor_model, *self.suite.models.values()}

    @property
    def used_models(self) -> set[str]:
        return self.deciding_models | {self.optimizer_model}

    def line(self, *key: str) -> str:
        """`line n: ` of a key, or of the table that it would stand in; empty where there is neither."""
        while key and not (at := line_of(self.text, key)):
            key = key[:-1]
        return at if key else ""

    def error(self, text: str, *key: str) -> ConfigError:
        """A mistake that only shows when something is built, with its place in the file."""
        return self.errors([(text, key)])

    def errors(self, problems: Sequence[tuple[str, tuple[str, ...]]]) -> ConfigError:
        """Several of them, each text with its key."""
        places = (f"{self.line(*key)}[{'.'.join(key[:-1])}] {key[-1]}: " if key else "" for _, key in problems)
        texts = tuple(f"{place}{text}" for place, (text, _) in zip(places, problems, strict=True))
        return ConfigError(self.file or Path("config"), texts)


class ConfigError(InputError):
    """Everything that is wrong with a config file, and the config without what is wrong, where one is left."""

    def __init__(self, path: Path, problems: tuple[str, ...], rest: Config | None = None) -> None:
        self.problems = problems
        self.rest = rest
        more = f" ({len(problems) - 1} more: see {command_line('check', path)})" if len(problems) > 1 else ""
        super().__init__(f"{path}: {problems[0]}{more}")


def config_hash(config: Config) -> str:
    return sha256(canonical(config.identity()))


def differences(old: Mapping[str, Any], new: Mapping[str, Any], at: str = "") -> list[str]:
    """Where two identities differ, as `key: old -> new`."""
    out: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out.extend(differences(a, b, f"{at}{key}."))
        elif json.dumps(a) != json.dumps(b):
            out.append(f"{at}{key}: {json.dumps(a)} -> {json.dumps(b)}")
    return out


def line_of(text: str, at: tuple[str, ...]) -> str:
    """`line n: ` of a key, found in the text since the TOML reader keeps no positions; empty where it is not plain."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = [part.strip().strip("\"'") for part in header[1].split(".")]
            if tuple(table) == at:
                return f"line {number}: "
        elif (entry := re.match(r"\s*([\w\"'.-]+)\s*=", line)) and (*table, entry[1].strip("\"'")) == at:
            return f"line {number}: "
    return ""
