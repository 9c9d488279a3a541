"""Reads a config file: TOML in, a `Config` out, or everything that is wrong with it, each mistake with its line.

Keys that do not exist, values of the wrong type and settings that contradict each other are found in one pass.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.agents.settings import PROFILES
from recompact.engine.config import Config, ConfigError, Tables
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.loading import HOSTS
from recompact.errors import InputError
from recompact.models.endpoint import NO_VARIABLE
from recompact.models.protocol import MODELS
from recompact.models.secrets import names_variable
from recompact.values.reading import Place, lines_of, read_small, refuse_deep_keys

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails


def load_config(path: Path) -> Config:
    """Read and check a config file."""
    try:
        text = read_small(path)
    except FileNotFoundError:
        raise InputError(f"there is no config file {path}; `recompact init` writes a first one") from None
    except (OSError, ValueError) as error:
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
        refuse_deep_keys(text)
        data = tomllib.loads(text)
        lines = lines_of(text)
    except RecursionError:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError as error:  # also a number of thousands of digits
        raise ConfigError(path, (f"is not valid TOML: {error}",)) from None
    tables, mistakes = _validate(data, lines)
    if any(not mistake["loc"] for mistake in mistakes):  # the file as a whole: its values are nested too deeply
        raise InputError(f"{path} cannot be read: it is nested too deeply")
    problems = list(dict.fromkeys(_phrase(mistake, lines) for mistake in mistakes))
    if tables is None:  # one mistake must not hide another: go on without it
        _drop(data, map(_place, mistakes))
        tables, _ = _validate(data, lines)
    config = None if tables is None else Config(**vars(tables), file=path, text=text)
    if config is not None:
        problems += [config.problem(text, *at) for at, text in _contradictions(config, data)]
    if problems or config is None:
        raise ConfigError(path, tuple(problems), config)
    return config


@cache
def _adapter() -> TypeAdapter[Tables]:
    from pydantic import TypeAdapter

    return TypeAdapter(Tables)


@cache
def config_schema() -> dict[str, Any]:
    """The JSON schema of a config file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter().json_schema(), "title": "Recompact"}


def _validate(data: Mapping[str, Any], lines: Mapping[Place, int]) -> tuple[Tables | None, list[ErrorDetails]]:
    """The tables of a file, or what is wrong with them in the order of their lines."""
    from pydantic import ValidationError

    try:
        # JSON mode: strict about types, yet a TOML array may fill a tuple; and a run keeps its config as JSON.
        return _adapter().validate_json(json.dumps(data, default=str)), []
    except ValidationError as error:
        return None, sorted(error.errors(), key=lambda each: lines.get(_place(each), 0))


def _drop(data: dict[str, Any], places: Iterable[Place]) -> None:
    """Take keys out of tables; for a place inside a value that is not a table, the whole value."""
    for place in places:
        table = data
        for part in place[:-1]:
            if not isinstance(table.get(part), dict):
                break
            table, place = table[part], place[1:]
        table.pop(place[0], None)


def _place(mistake: ErrorDetails) -> Place:
    at = tuple(map(str, mistake["loc"]))
    return at[:2] if at[:2] == ("suite", "host") else at  # not which of its two types


def _phrase(mistake: ErrorDetails, lines: Mapping[Place, int]) -> str:
    """A mistake with its line, its table and what would be right."""
    at = _place(mistake)
    table, key = ".".join(at[:-1]) or "top level", at[-1] if at else ""
    place = f"line {lines[at]}: [{table}]" if at in lines else f"[{table}]"
    value = json.dumps(mistake["input"], default=str)
    message = mistake["msg"].replace("Input should be", "must be")
    if mistake["type"] == "unexpected_keyword_argument":
        known = _keys_of(at[:-1])
        near = difflib.get_close_matches(key, known, 1, 0.5)
        return f"{place} has no key {key!r}; " + (
            f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        )
    if mistake["type"] == "value_error":
        return f"{place} {key}: {mistake['ctx']['error']}"
    if at == ("suite", "host"):
        return f"{place} host{_no_host(mistake['input'])}"
    if at[:1] == ("models",) and {"key_env", "extra_body", "options", "base_url"} & set(at):
        return f"{place} {key} {message}"  # the value may be a key
    return f"{place} {key} {message}, not {value}"


def _keys_of(table: Place) -> list[str]:
    """The keys that a table may have."""
    schema = config_schema()
    for part in table:
        inner = schema["properties"][part] if "properties" in schema else schema["additionalProperties"]
        schema = config_schema()["$defs"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
    return list(schema["properties"])


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
            text = f" = {name!r} is not among the models ({', '.join(known)}){hint}"
            problems.append(config.problem(text, *table.split("."), key))
    return tuple(problems)


def _places_with_nul(value: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places_with_nul(inner, (*at, key))
    elif isinstance(value, list):
        yield from (place for inner in value for place in _places_with_nul(inner, at))
    elif isinstance(value, str) and "\0" in value:
        yield at


def _contradictions(config: Config, data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What the types of the keys cannot show: the key, and what is wrong with it."""
    suite, agent, compressor = config.suite, config.agent, config.compressor
    for at in _places_with_nul(data):
        yield at, " has a NUL character, which no name, path or address can have"
    if compressor.rendering == "appended" and compressor.scope != "prefix":
        yield ("compressor", "rendering"), ' = "appended" shows the prefix: set scope = "prefix"'
    if agent.profile not in (None, *PROFILES):
        yield ("agent", "profile"), f" = {agent.profile!r} is not one of {', '.join(PROFILES)}"
    if not agent.command and "command" in data.get("agent", {}):
        yield ("agent", "command"), " is empty: name the program and its arguments, or leave the key out"
    texts = (*agent.command, *agent.variables.values(), *agent.files.values())
    if agent.command and not any("{task}" in text for text in texts):
        yield ("agent", "command"), " never learns its task: {task} must stand in it, or in variables or files"
    if suite.models and not suite.host:
        yield ("suite", "models"), " are for hosted environments: set host = true"
    if isinstance(suite.host, str) and ":" not in suite.host and suite.host not in HOSTS.names():
        yield ("suite", "host"), _no_host(suite.host)
    if config.cluster != ClusterSettings() and not isinstance(suite.host, str):
        yield ("cluster", ""), f"is for hosts that live on one: set [suite] host = {json.dumps(HOSTS.names()[0])}"
    if secret := sorted({model.key_env for model in config.models.values() if model.key_env} & set(suite.env)):
        yield ("suite", "env"), f" = {secret[0]!r} is the key of a model, which no environment gets: leave it out"
    for name, model in config.models.items():
        if not names_variable(model.key_env):
            yield ("models", name, "key_env"), f": {NO_VARIABLE}"
        if model.base_url is not None and not re.match(r"https?://[^/]", model.base_url):
            yield ("models", name, "base_url"), f" = {model.base_url!r} must begin with http:// or https://"
        if name in MODELS.names():
            yield ("models", name, ""), "has the name of a built-in model: choose another"


def _no_host(value: object) -> str:
    return f" must be true, false or {' or '.join(map(json.dumps, HOSTS.names()))}, not {json.dumps(value)}"
