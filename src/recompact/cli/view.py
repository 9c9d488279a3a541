"""`recompact view`: look at runs in a browser."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_json, say
from recompact.cli.options import Directory, Json, as_command
from recompact.harnesses.registry import HARNESSES
from recompact.presentation.view.runs import places_of
from recompact.presentation.view.server import serve


@as_command("view", example="view rooms")
def command(
    runs: Annotated[tuple[str, ...], {"metavar": "[RUN...]"}],
    *,
    directory: Directory,
    port: Annotated[
        int, click.IntRange(0, 65535), "Port on loopback (default: any free one).", {"show_default": False}
    ] = 0,
    opened: Annotated[bool, "--open/--no-open", "Open a browser."] = True,
    seconds: Annotated[float | None, "--for", click.FloatRange(min=0), "Stop after this many seconds."],
    as_json: Json,
) -> None:
    """Browse runs: trajectories, compactions, templates and arms, even while a run is being written.

    RUN is a run, a file or a directory; without one, all runs of --dir. Only this machine can reach the viewer, its
    address carries a token, and it never writes anything. Ctrl-C ends it.
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(runs, directory, port, opened, seconds, as_json))


async def _serve(
    runs: tuple[str, ...], directory: Path, port: int, opened: bool, seconds: float | None, as_json: bool
) -> None:
    if not (places := places_of(runs, directory)):
        say(
            f"There are no runs in {', '.join(runs) or directory} yet; they will appear once created.",
            err=True,
        )
    if missing := [str(place.path) for place in places if not place.path.is_file()]:
        from recompact.errors import InputError

        raise InputError(f"there is no run {missing[0]}; `recompact runs` lists the runs")
    async with serve(runs, directory, port, harnesses=sorted(HARNESSES.names())) as address:
        if as_json:
            print_json({"address": address})
        else:
            say(f"Open the runs: {address}")
            say("Ctrl-C ends it. The address works on this machine only, and anyone who has it can read the runs.")
        if opened and not as_json:
            webbrowser.open(address)
        await (asyncio.sleep(seconds) if seconds is not None else asyncio.Event().wait())
