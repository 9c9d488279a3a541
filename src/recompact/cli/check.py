"""`recompact check`: everything that can be known to be wrong before a token is spent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import json_option, print_json, say

if TYPE_CHECKING:
    from recompact.config import Config, ModelConfig
    from recompact.environments.protocol import Episodes


@click.command(name="check")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--connect", is_flag=True, help="Also ask each model for one word.")
@json_option
def command(config: Path, connect: bool, as_json: bool) -> None:
    """Say what is wrong with a config, where, and what would be right.

    Checks keys and values, the suite and its tasks, the template, the compressor, the method, and the models.
    """
    from recompact.config import ConfigError, load_config

    notes: list[str] = []
    try:
        loaded = load_config(config)
    except ConfigError as error:
        problems = list(error.problems)
    else:
        problems = _problems(loaded, notes)
        if connect and not problems:
            problems = asyncio.run(_connect(loaded, notes))
    if as_json:
        print_json({"file": str(config), "problems": problems, "notes": notes})
    else:
        for problem in problems:
            say(f"{config}: {problem}", err=True)
        for note in notes:
            say(note)
        if not problems:
            say(f"{config} is fine.")
    if problems:
        sys.exit(2)


def _problems(config: Config, notes: list[str]) -> list[str]:
    """Everything that a command would stumble over before its first unit of work."""
    from recompact.adaptation.registry import method_in
    from recompact.attribution.determinism import decoding_note
    from recompact.config import unknown_models
    from recompact.environments.sandbox import describe
    from recompact.study import compressor_in, open_suite
    from recompact.template import lint, resolve

    problems = list(unknown_models(config))
    with _noting(problems, "[compressor] template: "):
        notes.extend(f"template: {finding}" for finding in lint(resolve(config.compressor.template, config.directory)))
    with _noting(problems, "[suite] use: "):
        tasks = asyncio.run(_tasks(open_suite(config), config.suite.split))
        notes.append(f"suite {config.suite.use}, split {config.suite.split}: {tasks} tasks")
        if config.suite.host:
            notes.append(describe(config.suite.sandbox, config.suite.network))
        if not tasks:
            problems.append(f"[suite] split = {config.suite.split!r} has no tasks")
    with _noting(problems):
        compressor_in(config)
    with _noting(problems):
        method_in(config)
    keys = [name for name in sorted(config.used_models & config.models.keys()) if _lacks_key(config.models[name])]
    problems += [
        f"[models.{name}] needs its key in the environment variable {config.models[name].key_env}: set it"
        for name in keys
    ]
    if note := decoding_note(config):
        notes.append(f"warning: {note}")
    if not problems:
        with _noting(problems):
            asyncio.run(_build_models(config))
    return problems


@contextmanager
def _noting(problems: list[str], place: str = "") -> Iterator[None]:
    """Add what is wrong to the problems; an error that does not name its place in the config gets this one."""
    from recompact.config import ConfigError
    from recompact.errors import InputError

    try:
        yield
    except ConfigError as error:
        problems.extend(error.problems)
    except InputError as error:
        problems.append(f"{place}{error}")


async def _tasks(episodes: Episodes, split: str) -> int:
    from recompact.environments.protocol import EnvironmentFailed
    from recompact.errors import InputError

    try:
        return len(await episodes.tasks(split))
    except EnvironmentFailed as failure:
        raise InputError(str(failure)) from None


async def _build_models(config: Config) -> None:
    from recompact.study import open_clients

    async with open_clients(config):
        pass


def _lacks_key(model: ModelConfig) -> bool:
    return bool(model.key_env and not os.environ.get(model.key_env) and not _local(model.base_url))


async def _connect(config: Config, notes: list[str]) -> list[str]:
    from recompact.chat import Decoding, Request, user
    from recompact.models.failures import ModelFailure
    from recompact.study import open_clients

    problems = []
    async with open_clients(config, attempts=1) as clients:
        for name, client in clients.items():
            try:
                reply = await client.reply(Request((user("Say ok."),), decoding=Decoding(max_output_tokens=16)))
                notes.append(f"model {name} answered ({reply.model or name})")
            except ModelFailure as failure:
                problems.append(f"[models.{name}] {failure}")
    return problems


def _local(base_url: str | None) -> bool:
    from urllib.parse import urlsplit

    return base_url is not None and urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
