"""A config file as a value: what is run, with which models, under which budget. Defaults are those of the paper.

Nothing is read, built or contacted here: `recompact.engine.config_parser` reads the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from recompact.agents.settings import AgentProgram, AgentSettings, Profile, profile_named
from recompact.compressors.protocol import CompressorSettings
from recompact.engine.rollout import OBSERVATION_TOKENS
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.loading import SUITES
from recompact.environments.sandbox import HostLimits, SandboxMode
from recompact.errors import InputError, OptionError
from recompact.models.endpoint import Amount, Count, Endpoint, Price, RateLimits, RetryPolicy, Seconds
from recompact.models.protocol import MODELS
from recompact.models.secrets import redact
from recompact.values.chat import canonical, sha256
from recompact.values.outcome import Thresholds
from recompact.values.reading import key, lines_of
from recompact.values.texts import command_line

Threshold = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]

TEMPERATURE, TOP_P, EFFORT = "sampling temperature", "sampling by mass", "how much the model reasons, in its own words"

DEFAULT_MODELS = {role: MODELS.default(role) for role in ("agent", "compressor", "optimizer")}
"""The model of each role where a config names none at all."""


@dataclass(frozen=True)
class SuiteConfig:
    """[suite]: which tasks."""

    use: str = key(SUITES.default("suite"), "a suite: built in, installed, file.py:name or package.module:name")
    split: str = key("train", "which split")
    tasks: tuple[str, ...] = key((), "only these ids")
    limit: Count | None = key(None, "only the first N tasks")
    options: dict[str, Any] = key({}, "options of the suite")
    host: bool | str = key(False, 'true: each environment in a process of its own; "ray": on a cluster')
    python: str | None = key(None, "the interpreter of that process")
    timeout: Seconds = key(120.0, "seconds for one call of an environment, after which its episode ends as broken")
    sandbox: SandboxMode = key("auto", "whether a host is sandboxed: where possible, always, or never")
    network: bool = key(False, "whether a sandboxed host has network access")
    env: tuple[str, ...] = key((), "variables that a host gets besides PATH and the locale")
    readable: tuple[str, ...] = key((), "paths that a host may read besides the suite's directory")
    limits: HostLimits = key(HostLimits(), "the memory, time, processes and disk of one host")
    models: dict[str, str] = key({}, "role -> model, for hosted environments that need one")


@dataclass(frozen=True)
class ModelConfig(RetryPolicy, RateLimits, Endpoint):
    """[models.NAME]: where a model is and what may be asked of it."""

    use: str = key("openai", "the API: built in, installed, file.py:name or package.module:name")
    options: dict[str, Any] = key({}, "options of an API of your own")
    price: Price = key(Price(), "money per million tokens")


@dataclass(frozen=True)
class AgentConfig(AgentProgram):
    """[agent]: the frozen agent."""

    model: str = key(DEFAULT_MODELS["agent"], "the agent's model")
    max_output_tokens: Count = key(2048, "tokens of one answer")
    temperature: Amount | None = key(None, TEMPERATURE)
    top_p: Share | None = key(None, TOP_P)
    reasoning_effort: str | None = key(None, EFFORT)
    stop: tuple[str, ...] = key((), "texts that end an answer")
    profile: str | None = key(None, "a known agent in place of our loop")
    readable: tuple[str, ...] = key((), "paths that it may read, such as its installation")
    sandbox: Literal["require", "off"] = key("require", "off: run it with your rights")

    @property
    def external(self) -> bool:
        """Whether the agent is somebody's program, and not our loop."""
        return bool(self.command or self.profile)

    def settings(self, directory: Path) -> AgentSettings:
        """How the program is to be started; its paths are relative to `directory`."""
        known = profile_named(self.profile) if self.profile else Profile()
        command = known.equip(self.command or known.command) if self.profile else self.command
        if command and "/" in command[0] and not command[0].startswith("{"):  # {home} and the like are filled in later
            command = (str(_absolute(directory, command[0])), *command[1:])
        both: dict[str, Any] = {
            name: {**getattr(known, name), **getattr(self, name)} for name in ("variables", "files", "replace")
        }
        both |= {name: (*getattr(known, name), *getattr(self, name)) for name in ("ids", "mask")}
        readable = tuple(_absolute(directory, place) for place in self.readable)
        own = {name: getattr(self, name) for name in ("ignore", "timeout", "limits")}
        return AgentSettings(command, **both, **own, readable=readable, unsafe=self.sandbox == "off")


def _absolute(directory: Path, place: str) -> Path:
    """A path of a config from the root on: a sandbox has another current directory. Links stay: a virtual environment
    has some."""
    return Path(os.path.abspath(directory / Path(place).expanduser()))


_OF_PROGRAMS = ("profile", *(each.name for each in fields(AgentProgram) if each.name not in ("timeout", "limits")))
"""The keys of [agent] that decide the results of a program and mean nothing to our loop."""


@dataclass(frozen=True)
class CompressorConfig(CompressorSettings):
    """[compressor]: what replaces the history, and when."""

    kind: str = key(
        "prompted", "prompted, masking, fifo, llmlingua2, none, …, several with +, file.py:name or module:name"
    )
    options: dict[str, Any] = key({}, "options of that kind")
    budget: Count = key(4096, "tokens of summary and turns before a compaction; the prefix is not counted")
    trigger: str = key("budget", "when to compact: budget, turn, phase, interval:N, tool, file.py:name or module:name")
    soft: Share = key(0.6, "share of the budget from which turn and phase look for a good moment")
    min_calls: Count = key(1, "calls of the agent from one compaction to the next, at least")
    min_gain: Share = key(0.0, "share by which a compaction must shrink the context, or it is refused")
    model: str | None = key(None, "the model that writes summaries; default: the agent's")
    template: str = key("default", "default, checkpoint, structured, observation, or a template directory")
    max_output_tokens: Count = key(8192, "tokens of one summary")
    temperature: Amount | None = key(None, TEMPERATURE)
    top_p: Share | None = key(None, TOP_P)
    reasoning_effort: str | None = key(None, EFFORT)

    def scope_conflict(self, external: bool) -> str:
        """Why the scope cannot go with the rest, for an agent of our own loop or an external one; empty if it can."""
        if self.scope != "observation":
            return ""
        if external:
            return "scope observation is for agents in Recompact's own loop: what others read is theirs to shorten"
        if self.kind not in ("prompted", "none"):
            return f"scope observation is for the kind prompted, not {self.kind}"
        if self.trigger != "budget":
            return "scope observation has its own trigger, an observation over the budget: leave trigger out"
        return ""


@dataclass(frozen=True)
class RunConfig:
    """[run]: how it is run."""

    step_limit: Count = key(50, "steps of one episode")
    concurrency: Count = key(16, "episodes at once")
    seed: int = key(0, "of everything random")
    counter: Literal["o200k", "cl100k", "characters"] = key("o200k", "how tokens are counted")
    directory: str = key("runs", "the directory of runs")
    observation_tokens: Count = key(OBSERVATION_TOKENS, "the agent sees both ends of a longer observation")
    share_prefix: bool = key(True, "arms share their steps up to the first compaction, where that is exact")


@dataclass(frozen=True)
class OptimizerConfig:
    """[optimizer]: the model that diagnoses boundaries and revises templates."""

    model: str | None = key(None, "default: the agent's")
    max_output_tokens: Count = key(16384, "tokens of one answer")
    temperature: Amount | None = key(None, TEMPERATURE)
    top_p: Share | None = key(None, TOP_P)
    reasoning_effort: str | None = key(None, EFFORT)


@dataclass(frozen=True)
class AdaptConfig:
    """[adapt]: how a template is adapted. Defaults are the paper's."""

    method: str = key("causes", "causes, pair, facts, acon-ut, gepa, …, an installed one, file.py:name or module:name")
    options: dict[str, Any] = key({}, "options of that method")
    candidates: Count = key(5, "templates to choose from")
    fit_tasks: Count = key(12, "tasks to run candidates on: those with the most compactions")
    fit_runs: Count = key(1, "runs of each candidate on each of them")
    fit_retries: Annotated[int, Ge(0)] = key(2, "retries of a run whose environment broke")
    redraws: Annotated[int, Ge(0)] = key(3, "new draws of a diagnosis or a candidate that breaks a rule")
    evidence_tokens: Count = key(60_000, "tokens of evidence in one call")


@dataclass(frozen=True)
class CeilingConfig:
    """[ceiling]: what a run may spend before it stops."""

    tokens: Count | None = key(None, "tokens of all models together")
    money: Seconds | None = key(None, "by the models' prices")
    warn: Amount | None = key(10.0, "the forecast of money from which a command warns")


@dataclass(frozen=True)
class VerifyConfig:
    """[verify]: how large an effect makes a boundary harmful, and how draws are spent to find out."""

    hazard: Threshold = key(0.5, "success lost from which a compaction is harmful")
    burden: Threshold = key(5.0, "steps added from which a compaction is harmful")
    allocation: str = key(
        "halving", "how draws are spent: halving, uniform:N, racing, … or file.py:name; chained: before any of them"
    )
    options: dict[str, Any] = key({}, "options of that allocation")

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.hazard, self.burden)


@dataclass(frozen=True)
class Tables:
    """What a config file may say. Anything else in it is refused."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}  # for the tables in it as well

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


@dataclass(frozen=True)
class Config(Tables):
    """A config, with the file that it was read from, if any."""

    file: Path | None = field(default=None, compare=False)
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
        for name in ("cluster", "ceiling", "verify", "optimizer", "adapt", "file", "text"):
            del data[name]
        for name in ("concurrency", "directory", "share_prefix"):  # the last decides by which draws, not by which law
            del data["run"][name]
        for name in ("timeout", "python", "sandbox", "network", "env", "readable", "limits"):
            del data["suite"][name]
        data["suite"]["host"] = bool(self.suite.host)  # where hosts live decides nothing
        for name in ("readable", "timeout", "sandbox", "limits", *(() if self.agent.external else _OF_PROGRAMS)):
            del data["agent"][name]
        if self.run.observation_tokens == OBSERVATION_TOKENS:
            del data["run"]["observation_tokens"]
        if not self.compressor.options:
            del data["compressor"]["options"]
        for name in ("trigger", "soft", "min_calls", "min_gain"):
            if data["compressor"][name] == getattr(CompressorConfig, name):  # as before there was a choice
                del data["compressor"][name]
        keys = ("id", "api", "calls", "send_seed", "merge_roles", "extra_body")
        data["models"] = {
            name: redact({each: model[each] for each in (*keys, *(("use", "options") * (model["use"] != "openai")))})
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

    def line(self, *at: str) -> str:
        """`line n: ` of a key, or of the table that it would stand in; empty where there is neither."""
        lines = lines_of(self.text)
        while at and at not in lines:
            at = at[:-1]
        return f"line {lines[at]}: " if at else ""

    def problem(self, text: str, *at: str) -> str:
        """What is wrong with a key, after its place in the file."""
        return f"{self.line(*at)}[{'.'.join(at[:-1])}] {at[-1]}{text}"

    def error(self, text: str, *at: str) -> ConfigError:
        """A mistake that only shows when something is built, with its place in the file."""
        return self.errors([(text, at)])

    @contextmanager
    def blame(self, *table: str, key: str = "") -> Iterator[None]:
        """Show what is refused inside with its place in the file: the option that it names, or this table or key."""
        try:
            yield
        except OptionError as error:
            raise self.error(str(error), *table, "options", *filter(None, [error.key])) from None
        except InputError as error:
            raise self.error(str(error), *table, *filter(None, [key])) from None

    def errors(self, problems: Sequence[tuple[str, tuple[str, ...]]]) -> ConfigError:
        """Several of them, each text with its key."""
        texts = tuple(self.problem(f": {text}", *at) if at else text for text, at in problems)
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
    for name in sorted(old.keys() | new.keys()):
        a, b = old.get(name), new.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out.extend(differences(a, b, f"{at}{name}."))
        elif json.dumps(a) != json.dumps(b):
            out.append(f"{at}{name}: {json.dumps(a)} -> {json.dumps(b)}")
    return out
