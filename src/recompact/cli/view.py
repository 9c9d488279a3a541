"""`recompact view`: look at runs in a browser."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from recompact.cli.console import directory_option, json_option, print_json, say
from recompact.harnesses.registry import HARNESSES
from recompact.presentation.view.runs import places_of
from recompact.presentation.view.server import serve


@click.command(name="view")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@directory_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback (default: any free one).")
@click.option("--open/--no-open", "opened", default=True, show_default=True, help="Open a browser.")
@click.option("--for", "seconds", type=click.FloatRange(min=0), help="Stop after this many seconds.")
@json_option
def command(
    runs: tuple[str, ...], directory: Path, port: int, opened: bool, seconds: float | None, as_json: bool
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
