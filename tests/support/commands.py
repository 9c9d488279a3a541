"""Commands, in this process or in one of their own, and a server with models of the test's: what tests share."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from sim_server import Server, serve

from recompact.cli.main import main
from recompact.models.protocol import ChatModel


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def recompact(
    *arguments: object, columns: int = 100, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Done:
    """The command in this process, because starting one takes longer than what it does."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["recompact", *map(str, arguments)])
        for name, value in {"COLUMNS": str(columns), **(env or {})}.items():
            patch.setenv(name, value)
        patch.chdir(cwd or Path.cwd())
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


async def started(*arguments: str | Path) -> asyncio.subprocess.Process:
    """`recompact` with these arguments, under way."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recompact", *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def finished(*arguments: str | Path) -> str:
    """Run a command to its end and return its last line."""
    process = await started(*arguments)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip().splitlines()[-1]


async def killed(*arguments: str | Path, received: Sized, chance: random.Random, most: int) -> None:
    """Start a command and end it by kill -9 at a random moment: after at most so many more calls have been received.

    Some die while they start, most in the middle of their work.
    """
    before = len(received)
    process = await started(*arguments)
    until = before + (0 if chance.random() < 0.15 else chance.randint(1, most))
    patience = chance.uniform(0.1, 1.0) if until == before else 60.0
    deadline = asyncio.get_running_loop().time() + patience
    while len(received) <= until and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.001)
    assert process.returncode is None
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()


@contextmanager
def served(models: Mapping[str, ChatModel], **settings: Any) -> Iterator[Server]:
    """A server with these models, in a thread of its own."""
    ready, stop = Event(), Event()
    found: list[Server] = []

    async def run() -> None:
        async with serve(dict(models), **settings) as running:
            found.append(running)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(10)
        yield found[0]
    finally:
        stop.set()
        thread.join()


def reading_config(suite: str, base_url: str, *, concurrency: int = 4, model: str = "", more: str = "") -> str:
    """A config in which a reader reads the pages of a suite and a noter writes summaries; `model` says more of both."""
    both = f'base_url = "{base_url}"\nconcurrency = {concurrency}\n{model}'
    return f"""
[suite]
use = "{suite}"
[models.reader]
id = "reader"
{both}
[models.noter]
id = "noter"
{both}
[agent]
model = "reader"
[compressor]
model = "noter"
budget = 500
[run]
step_limit = 20
concurrency = {concurrency}
{more}
"""
