"""An agent that is a function in this process: it gets a client for its model, and its calls are answered step by step.

It runs in a thread with the rights of its caller. A thread cannot be killed: at the end of an episode its next call
raises `LoopEnded`, and a function that makes none keeps running.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompact.agents.client import InProcessClient
from recompact.agents.process import AgentDirectories
from recompact.agents.running import AgentCallbacks
from recompact.agents.server import USAGE, Exchange
from recompact.values.chat import Reply, Request

AgentFunction = Callable[[str, Path, InProcessClient], Awaitable[object] | object]
"""Gets the task's text, its workspace and a client; may be asynchronous. What it returns is ignored."""

_END = 10.0  # seconds for a function to notice that its episode is over

_log = logging.getLogger(__name__)


class LoopEnded(BaseException):
    """The episode is over, and nothing more is answered. No `except Exception` catches it, so that loops that
    retry end too."""


def name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


@dataclass(frozen=True)
class Function:
    """Starts a function in its own thread."""

    function: AgentFunction

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> FunctionAgent:
        return FunctionAgent(self.function, task, directories.workspace, callbacks)


class FunctionAgent:
    """A running function."""

    def __init__(self, function: AgentFunction, task: str, workspace: Path, callbacks: AgentCallbacks) -> None:
        self._function, self._callbacks = function, callbacks
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.last_line = ""
        client = InProcessClient(self._ask)
        self._thread = threading.Thread(target=self._run, args=(task, workspace, client), name="agent", daemon=True)
        self._thread.start()

    def excess(self) -> str:
        return ""

    async def end(self) -> None:
        self._closing.set()
        await asyncio.to_thread(self._thread.join, _END)
        if self._thread.is_alive():
            _log.warning("%s goes on in its thread although its episode is over", name_of(self._function))

    def _run(self, task: str, workspace: Path, client: InProcessClient) -> None:
        code = 0
        try:
            result = self._function(task, workspace, client)
            if inspect.isawaitable(result):
                asyncio.run(_await_result(result))
        except LoopEnded:
            pass
        except BaseException as error:
            code, self.last_line = 1, f"{type(error).__name__}: {error}"[:300]
        with contextlib.suppress(RuntimeError):  # the harness may be gone
            self._loop.call_soon_threadsafe(self._note_end, code)

    def _note_end(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)

    def _ask(self, request: Request, headers: Mapping[str, str]) -> Future[Reply]:
        return asyncio.run_coroutine_threadsafe(self._answer(request, headers), self._loop)

    async def _answer(self, request: Request, headers: Mapping[str, str]) -> Reply:
        if self._closing.is_set():
            raise LoopEnded
        exchange = self._callbacks.arrive(Exchange(request, headers))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((exchange.answer, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
        if not exchange.answer.done():
            raise LoopEnded
        return Reply(exchange.answer.result(), USAGE)


async def _await_result(result: Awaitable[object]) -> object:
    return await result
