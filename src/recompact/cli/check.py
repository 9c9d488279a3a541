"""`recompact check`: everything that can be known to be wrong before a token is spent."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import json_option, print_json

if TYPE_CHECKING:
    from recompact.config import Config


@click.command(name="check")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--connect", is_flag=True, help="Also ask each model for one word.")
@json_option
def command(config: Path, connect: bool, as_json: bool) -> None:
    """Say what is wrong with a config, where, and what would be right.

    Checks keys and values, the suite and its tasks, the template, and that the keys of the models are set.
    """
    from recompact.config import ConfigError, load_config

    notes: list[str] = []
    try:
        loaded = load_config(config)
    except ConfigError as error:
        problems = list(error.problems)
    else:
        problems = _problems(loaded, config.parent, notes)
        if connect and not problems:
            problems = asyncio.run(_connect(loaded, config.parent, notes))
    if as_json:
        print_json({"file": str(config), "problems": problems, "notes": notes})
    else:
        for problem in problems:
            click.echo(f"{config}: {problem}", err=True)
        for note in notes:
            click.echo(note)
        if not problems:
            click.echo(f"{config} is fine.")
    if problems:
        sys.exit(2)


def _problems(config: Config, directory: Path, notes: list[str]) -> list[str]:
    from recompact.environments.sandbox import describe
    from recompact.errors import InputError
    from recompact.study import open_suite
    from recompact.template import lint, resolve

    problems: list[str] = []
    try:
        template = resolve(config.compressor.template, directory)
        notes.extend(f"template: {finding}" for finding in lint(template))
    except InputError as error:
        problems.append(f"[compressor] template: {error}")
    try:
        episodes = open_suite(config)
        tasks = asyncio.run(_tasks(episodes, config.suite.split))
        notes.append(f"suite {config.suite.use}, split {config.suite.split}: {tasks} tasks")
        if config.suite.host:
            notes.append(describe(config.suite.sandbox, config.suite.network))
        if not tasks:
            problems.append(f"[suite] split = {config.suite.split!r} has no tasks")
    except InputError as error:
        problems.append(f"[suite] use: {error}")
    for name in sorted(config.used_models & config.models.keys()):
        settings = config.models[name]
        if settings.key_env and not os.environ.get(settings.key_env) and not _local(settings.base_url):
            problems.append(f"[models.{name}] needs its key in the environment variable {settings.key_env}: set it")
    return problems


async def _tasks(episodes: object, split: str) -> int:
    from recompact.environments.protocol import EnvironmentFailed
    from recompact.errors import InputError

    try:
        return len(await episodes.tasks(split))  # type: ignore[attr-defined]
    except EnvironmentFailed as failure:
        raise InputError(str(failure)) from None


async def _connect(config: Config, directory: Path, notes: list[str]) -> list[str]:
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
