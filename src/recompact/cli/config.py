"""`recompact config schema`: what a config may say, for editors."""

from __future__ import annotations

import click

from recompact.cli.console import print_json
from recompact.cli.options import Json, as_command
from recompact.engine.config_parser import config_schema


@as_command("config", cls=click.Group, example="config schema", help="Describe configs to programs.")
def command() -> None:
    pass


@as_command(group=command)
def schema(*, as_json: Json) -> None:
    """Print the JSON schema of a config: every key with its type, its default and what it means.

    Editors use it to complete keys and mark mistakes. It is JSON with and without --json.
    """
    print_json(config_schema())
