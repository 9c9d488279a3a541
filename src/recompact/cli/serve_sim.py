"""`recompact serve-sim`: the simulated models for any client that speaks OpenAI's APIs, without a key."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import click

from recompact.cli.console import json_option, print_json
from recompact.simulation import simulated_models
from recompact.simulation.faults import Faults
from recompact.simulation.server import serve


@click.command(name="serve-sim")
@click.option("--port", type=click.IntRange(0, 65535), default=18160, show_default=True, help="0 takes any free port.")
@click.option("--faults", default=None, help="Faults to inject, with a rate: 429,500,cut@0.33 or transient@0.1.")
@click.option("--latency", type=click.FloatRange(min=0), default=0.0, help="Seconds before each answer.")
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), help="Append a JSON line per request and reply."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=3600.0, show_default=True, help="Stop after this time."
)
@json_option
def command(port: int, faults: str | None, latency: float, record: Path | None, seconds: float, as_json: bool) -> None:
    """Serve the simulated models as an OpenAI-compatible server on loopback (Chat Completions and Responses).

    Any key is accepted. Stops by itself, on Ctrl-C and on SIGTERM.

    \b
    Faults: 429, 429-ms, 500, 503, hang, cut, cut-midway, broken-json, empty, trickle (all of these: transient),
    bad-arguments, overflow (with these: all).
    """
    asyncio.run(_serve(port, faults, latency, record, seconds, as_json))


async def _serve(
    port: int, faults: str | None, latency: float, record: Path | None, seconds: float, as_json: bool
) -> None:
    # imported here because help must answer at once
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    chosen = Faults.parse(faults) if faults else None
    async with serve(simulated_models(), port=port, faults=chosen, latency=latency, record_path=record) as server:
        if as_json:
            print_json({"base_url": server.base_url, "models": list(server.models)})
        else:
            click.echo(f"base URL: {server.base_url}")
            click.echo(f"models:   {', '.join(server.models)} (simulated; any key)")
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    if not as_json:
        click.echo(f"served {server.received.total()} requests, {server.replied.total()} answered.")
