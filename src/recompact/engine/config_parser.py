"""Reads a config file: TOML in, a `Config` out, or everything that is wrong with it, each mistake with its line.

Keys that do not exist, values of the wrong type and settings that contradict each other are found in one pass.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from recompact.agents.profiles import PROFILES
from recompact.engine.config import ALLOCATION, ALLOCATIONS, AgentConfig, Config, ConfigError, line_of
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.loading import HOSTS
from recompact.errors import InputError
from recompact.models.endpoint import NO_VARIABLE
from recompact.models.registry import MODELS
from recompact.models.secrets import names_variable
from recompact.values.tokens import COUNTERS


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
    recompact.engine.config.ConfigError: c.toml: line 2: [run] has no key 'step_limt'; did you mean 'step_limit'?
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
            at = line_of(config.text, (*table.split("."), key))
            problems.append(f"{at}[{table}] {key} = {name!r} is not among the models ({', '.join(known)}){hint}")
    return tuple(problems)


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
            out.append((here, f"{line_of(text, here)}[{'.'.join(at) or 'top level'}] has no key {key!r}; {hint}"))
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
        return f"{line_of(text, at[:2])}[suite] host must be true, false or {kinds}, not {json.dumps(error['input'])}"
    table, key = ".".join(at[:-1]) or "top level", at[-1] if at else ""
    if error["type"] == "missing":
        return f"{line_of(text, at[:-1])}[{table}] needs {key!r}"
    message = error["msg"].replace("Input should be", "must be")
    if at[:1] == ("models",) and {"key_env", "extra_body", "options", "base_url"} & set(at):
        return f"{line_of(text, at)}[{table}] {key} {message}"  # the value may be a key
    return f"{line_of(text, at)}[{table}] {key} {message}, not {json.dumps(error['input'], default=str)}"


def _contradictions(config: Config, text: str) -> list[str]:
    """What the types of the keys cannot show."""
    out = []
    if not re.fullmatch(ALLOCATION, config.verify.allocation):
        at = line_of(text, ("verify", "allocation"))
        out.append(f"{at}[verify] allocation = {config.verify.allocation!r} must be {ALLOCATIONS}")
    if config.verify.prior == "audit" and not config.verify.allocation.endswith("racing"):
        at = line_of(text, ("verify", "prior"))
        out.append(f'{at}[verify] prior = "audit" is for racing: set allocation = "racing" or "chained:racing"')
    if config.compressor.rendering == "appended" and config.compressor.scope != "prefix":
        at = line_of(text, ("compressor", "rendering"))
        out.append(f'{at}[compressor] rendering = "appended" shows the prefix: set scope = "prefix"')
    key = "command" if config.agent.command else "profile"
    if config.agent.external and config.suite.use != "workspace":
        at = line_of(text, ("agent", key))
        out.append(f'{at}[agent] {key} plays tasks that are folders: set [suite] use = "workspace"')
    if config.agent.profile not in (None, *PROFILES):
        at = line_of(text, ("agent", "profile"))
        out.append(f"{at}[agent] profile = {config.agent.profile!r} is none of {', '.join(PROFILES)}")
    if not config.agent.command and "command" in tomllib.loads(text).get("agent", {}):
        at = line_of(text, ("agent", "command"))
        out.append(f"{at}[agent] command is empty: name the program and its arguments, or leave the key out")
    if config.agent.command and not any("{task}" in part for part in _filled_texts(config.agent)):
        at = line_of(text, ("agent", "command"))
        out.append(f"{at}[agent] command never learns its task: {{task}} must stand in it, or in variables or files")
    if config.suite.models and not config.suite.host:
        out.append(f"{line_of(text, ('suite', 'models'))}[suite] models are for hosted environments: set host = true")
    if isinstance(config.suite.host, str) and ":" not in config.suite.host and config.suite.host not in HOSTS.names():
        kinds = " or ".join(json.dumps(name) for name in HOSTS.names())
        at = line_of(text, ("suite", "host"))
        out.append(f"{at}[suite] host must be true, false or {kinds}, not {json.dumps(config.suite.host)}")
    if config.cluster != ClusterSettings() and not isinstance(config.suite.host, str):
        name = json.dumps(HOSTS.names()[0])
        out.append(f"{line_of(text, ('cluster',))}[cluster] is for hosts that live on one: set [suite] host = {name}")
    keys = {model.key_env for model in config.models.values() if model.key_env}
    if secret := sorted(keys & set(config.suite.env)):
        at = line_of(text, ("suite", "env"))
        out.append(f"{at}[suite] env = {secret[0]!r} is the key of a model, which no environment gets: leave it out")
    for name, model in config.models.items():
        if not names_variable(model.key_env):
            out.append(f"{line_of(text, ('models', name, 'key_env'))}[models.{name}] key_env: {NO_VARIABLE}")
        if model.base_url is not None and not re.match(r"https?://[^/]", model.base_url):
            at = line_of(text, ("models", name, "base_url"))
            out.append(f"{at}[models.{name}] base_url = {model.base_url!r} must begin with http:// or https://")
        if name in MODELS.names():
            out.append(
                f"{line_of(text, ('models', name))}[models.{name}] has the name of a built-in model: choose another"
            )
    assert config.run.counter in COUNTERS
    return out


def _filled_texts(agent: AgentConfig) -> tuple[str, ...]:
    return (*agent.command, *agent.variables.values(), *agent.files.values())
