"""A config file as a value: what is run, with which models, under which budget. Defaults are those of the paper.

Nothing is built or contacted here; mistakes are named with the file, the line, the key and what would be right.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from annotated_types import Ge, Gt

from recompact.agents.profiles import PROFILES, Profile, profile_named
from recompact.agents.settings import IGNORED, AgentSettings
from recompact.chat import canonical, sha256
from recompact.compressors.protocol import Rendering, Scope
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.loading import HOSTS
from recompact.environments.sandbox import HostLimits, SandboxMode
from recompact.errors import InputError
from recompact.models.endpoint import NO_VARIABLE, Endpoint, Seconds
from recompact.models.registry import MODELS
from recompact.models.secrets import names_variable, redact
from recompact.rollout import OBSERVATION_TOKENS
from recompact.tokens import COUNTERS

Count = Annotated[int, Gt(0)]
Threshold = Annotated[float, Gt(0)]
Amount = Annotated[float, Ge(0)]

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
    top_p: Amount | None = None
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
    top_p: Amount | None = None
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
    top_p: Amount | None = None
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
        while key and not (at := _line(self.text, key)):
            key = key[:-1]
        return at if key else ""

    def error(self, text: str, *key: str) -> ConfigError:
        """A mistake that only shows when something is built, with its place in the file."""
        place = f"{self.line(*key)}[{'.'.join(key[:-1])}] {key[-1]}: " if key else ""
        return ConfigError(self.file or Path("config"), (f"{place}{text}",))


class ConfigError(InputError):
    """Everything that is wrong with a config file, and the config without what is wrong, where one is left."""

    def __init__(self, path: Path, problems: tuple[str, ...], rest: Config | None = None) -> None:
        self.problems = problems
        self.rest = rest
        more = f" ({len(problems) - 1} more: see recompact check {path})" if len(problems) > 1 else ""
        super().__init__(f"{path}: {problems[0]}{more}")


def load_config(path: Path) -> Config:
    """Read and check a config file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no config file {path}; docs/configuration.md shows a first one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> Config:
    """A config from TOML text.

    >>> parse_config("[run]\\nstep_limit = 30", Path("c.toml")).run.step_limit
    30
    >>> parse_config("[run]\\nstep_limt = 30", Path("c.toml"))
    Traceback (most recent call last):
    recompact.config.ConfigError: c.toml: line 2: [run] has no key 'step_limt'; did you mean 'step_limit'?
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, (f"is not valid TOML: {error}",)) from None
    unknown = _unknown_keys(data, Config, (), text)
    problems = [problem for _, problem in unknown]
    _drop(data, [at for at, _ in unknown])
    config, invalid = _validate(data)
    problems += dict.fromkeys(_phrase_error(error, text) for error in invalid)
    if config is None:  # one mistake must not hide another: go on without it
        _drop(data, [tuple(map(str, error["loc"])) for error in invalid])
        config, _ = _validate(data)
    if config is not None:
        config = replace(config, file=path, text=text)
        problems += _contradictions(config, text)
    if problems or config is None:
        raise ConfigError(path, tuple(problems), config)
    return config


def _validate(data: Mapping[str, Any]) -> tuple[Config | None, list[Any]]:
    """A config from the tables of a file, or what is wrong with them."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # JSON mode: strict about types, yet a TOML array may fill a tuple.
        return TypeAdapter(Config).validate_json(json.dumps(data, default=str), strict=True), []
    except ValidationError as error:
        return None, list(error.errors())


def _drop(data: dict[str, Any], places: Collection[tuple[str, ...]]) -> None:
    """Take keys out of tables; for a place inside a value that is not a table, the whole value."""
    for place in places:
        table = data
        for part in place[:-1]:
            if not isinstance(table.get(part), dict):
                break
            table, place = table[part], place[1:]
        table.pop(place[0], None)


def unknown_models(config: Config, others: Collection[str] = ()) -> tuple[str, ...]:
    """Roles whose model is neither a table of the config, nor built in or installed, nor among `others`."""
    problems = []
    roles = [("agent", "model", config.agent.model), ("compressor", "model", config.compressor.model)]
    roles += [("optimizer", "model", config.optimizer.model)]
    roles += [("suite.models", role, name) for role, name in config.suite.models.items()]
    known = [*config.models, *others, *MODELS.names()]
    for table, key, name in roles:
        if name is not None and name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            at = _line(config.text, (*table.split("."), key))
            problems.append(f"{at}[{table}] {key} = {name!r} is not among the models ({', '.join(known)}){hint}")
    return tuple(problems)


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


def _unknown_keys(
    data: Mapping[str, Any], kind: type, at: tuple[str, ...], text: str
) -> list[tuple[tuple[str, ...], str]]:
    """Keys that no dataclass has, each with the nearest known one."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind) if f.compare]
    out: list[tuple[tuple[str, ...], str]] = []
    for key, value in data.items():
        here = (*at, key)
        if key not in names:
            near = difflib.get_close_matches(key, names, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            out.append((here, f"{_line(text, here)}[{'.'.join(at) or 'top level'}] has no key {key!r}; {hint}"))
            continue
        inner = hints[key]
        if is_dataclass(inner) and isinstance(inner, type) and isinstance(value, Mapping):
            out.extend(_unknown_keys(value, inner, here, text))
        elif key == "models" and not at and isinstance(value, Mapping):
            for name, table in value.items():
                if isinstance(table, Mapping):
                    out.extend(_unknown_keys(table, get_args(inner)[1], (*here, name), text))
    return out


def _phrase_error(error: Any, text: str) -> str:
    at = tuple(str(part) for part in error["loc"])
    if at[:2] == ("suite", "host"):
        kinds = " or ".join(json.dumps(name) for name in HOSTS.names())
        return f"{_line(text, at[:2])}[suite] host must be true, false or {kinds}, not {json.dumps(error['input'])}"
    table, key = ".".join(at[:-1]) or "top level", at[-1] if at else ""
    if error["type"] == "missing":
        return f"{_line(text, at[:-1])}[{table}] needs {key!r}"
    message = error["msg"].replace("Input should be", "must be")
    if at[:1] == ("models",) and {"key_env", "extra_body", "options", "base_url"} & set(at):
        return f"{_line(text, at)}[{table}] {key} {message}"  # the value may be a key
    return f"{_line(text, at)}[{table}] {key} {message}, not {json.dumps(error['input'], default=str)}"


def _contradictions(config: Config, text: str) -> list[str]:
    """What the types of the keys cannot show."""
    out = []
    if not re.fullmatch(ALLOCATION, config.verify.allocation):
        at = _line(text, ("verify", "allocation"))
        out.append(f"{at}[verify] allocation = {config.verify.allocation!r} must be {ALLOCATIONS}")
    if config.verify.prior == "audit" and not config.verify.allocation.endswith("racing"):
        at = _line(text, ("verify", "prior"))
        out.append(f'{at}[verify] prior = "audit" is for racing: set allocation = "racing" or "chained:racing"')
    if config.compressor.rendering == "appended" and config.compressor.scope != "prefix":
        at = _line(text, ("compressor", "rendering"))
        out.append(f'{at}[compressor] rendering = "appended" shows the prefix: set scope = "prefix"')
    key = "command" if config.agent.command else "profile"
    if config.agent.external and config.suite.use != "workspace":
        at = _line(text, ("agent", key))
        out.append(f'{at}[agent] {key} plays tasks that are folders: set [suite] use = "workspace"')
    if config.agent.profile not in (None, *PROFILES):
        at = _line(text, ("agent", "profile"))
        out.append(f"{at}[agent] profile = {config.agent.profile!r} is none of {', '.join(PROFILES)}")
    if config.agent.command and not any("{task}" in part for part in _filled_texts(config.agent)):
        at = _line(text, ("agent", "command"))
        out.append(f"{at}[agent] command never learns its task: {{task}} must stand in it, or in variables or files")
    if config.suite.models and not config.suite.host:
        out.append(f"{_line(text, ('suite', 'models'))}[suite] models are for hosted environments: set host = true")
    if isinstance(config.suite.host, str) and ":" not in config.suite.host and config.suite.host not in HOSTS.names():
        kinds = " or ".join(json.dumps(name) for name in HOSTS.names())
        at = _line(text, ("suite", "host"))
        out.append(f"{at}[suite] host must be true, false or {kinds}, not {json.dumps(config.suite.host)}")
    if config.cluster != ClusterSettings() and not isinstance(config.suite.host, str):
        name = json.dumps(HOSTS.names()[0])
        out.append(f"{_line(text, ('cluster',))}[cluster] is for hosts that live on one: set [suite] host = {name}")
    keys = {model.key_env for model in config.models.values() if model.key_env}
    if secret := sorted(keys & set(config.suite.env)):
        at = _line(text, ("suite", "env"))
        out.append(f"{at}[suite] env = {secret[0]!r} is the key of a model, which no environment gets: leave it out")
    for name, model in config.models.items():
        if not names_variable(model.key_env):
            out.append(f"{_line(text, ('models', name, 'key_env'))}[models.{name}] key_env: {NO_VARIABLE}")
        if model.base_url is not None and not re.match(r"https?://[^/]", model.base_url):
            at = _line(text, ("models", name, "base_url"))
            out.append(f"{at}[models.{name}] base_url = {model.base_url!r} must begin with http:// or https://")
        if name in MODELS.names():
            out.append(
                f"{_line(text, ('models', name))}[models.{name}] has the name of a built-in model: choose another"
            )
    assert config.run.counter in COUNTERS
    return out


def _filled_texts(agent: AgentConfig) -> tuple[str, ...]:
    return (*agent.command, *agent.variables.values(), *agent.files.values())


def _line(text: str, at: tuple[str, ...]) -> str:
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
