"""`recompact config schema`: what a config may say, for editors."""

from __future__ import annotations

import click

from recompact.cli.console import json_option, print_json
from recompact.engine.config_parser import config_schema


@click.group(name="config", help="Describe configs to programs.")
def command() -> None:
    pass


@command.command()
@json_option
def schema(as_json: bool) -> None:
    """Print the JSON schema of a config: every key with its type, its default and what it means.

    An editor that knows it completes keys and marks mistakes. It is a JSON document with --json and without.
    """
    print_json(config_schema())
