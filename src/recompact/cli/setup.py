"""`recompact setup`: install a benchmark that needs its own interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_json, say
from recompact.cli.options import Json, as_command
from recompact.environments.installations import SetupFailed, SetupRequest, installations
from recompact.environments.loading import INSTALLATIONS

SETUPS = ("appworld", "tau2-retail")
"""Suites whose installation has a function `setup`; a list, since looking for it would import them all."""


@as_command("setup", example="setup tau2-retail")
def command(
    name: Annotated[str, click.Choice(SETUPS)],
    *,
    python: Annotated[str | None, "The interpreter for the virtual environment."],
    source: Annotated[
        Path | None,
        "--from",
        click.Path(exists=True, path_type=Path),
        "Use this instead of a download: AppWorld's data bundle, or a checkout of tau2-bench.",
    ],
    as_json: Json,
) -> None:
    """Install the benchmark NAME with its data, where RECOMPACT_HOME says (else ~/.local/share/recompact).

    What is already installed stays. Exit code 1: something is still missing; the message names it.
    """
    installation = INSTALLATIONS.find(name)
    place = installations() / name
    problem = None
    try:
        installation.setup(
            SetupRequest(place, python, source), (lambda text: None) if as_json else lambda text: say(f"{name}: {text}")
        )
        problem = installation.missing()
    except SetupFailed as failure:
        problem = str(failure)
    if as_json:
        print_json({"suite": name, "place": str(place), "ready": problem is None, "missing": problem})
    elif problem is None:
        say(f"{name} is ready in {place}.")
    else:
        click.echo(f"recompact: {name} is not ready: {problem}", err=True)
    if problem is not None:
        raise SystemExit(1)
