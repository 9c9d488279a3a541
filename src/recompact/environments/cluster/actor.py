"""The inside of an actor: on its node it is to its hosts what the harness is on one machine.

Each environment has its own process there, sandboxed as it would be here, with the kill timer beside it. Calls for a
model are returned to the driver as questions, so that they are journaled, limited and counted where all others are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from recompact.environments.host_process import HostSettings
from recompact.environments.hosted import HostedSuite
from recompact.environments.own_directory import remove_unused
from recompact.environments.protection import describe
from recompact.environments.protocol import EnvironmentFailed, Episode, HostFailed, Task
from recompact.errors import InputError
from recompact.values.chat import Reply, Request, Usage
from recompact.values.trajectory import Snapshot
from recompact.version import __version__


@dataclass(frozen=True)
class RemoteSuite:
    """What an actor needs to know of a suite. A relative directory is resolved from where the actor starts."""

    settings: HostSettings
    own_python: bool  # hosts run under the interpreter that the settings name, not the actor's
    grader: Mapping[str, Any] | None = None  # options of the suite that grades

    def suite(self) -> HostedSuite:
        here = vars(self.settings) | {"directory": Path.cwd() / self.settings.directory}
        if not self.own_python:
            here["python"] = sys.executable
        suite = HostedSuite(**here)
        return suite if self.grader is None else suite.graded_by(self.grader)


@dataclass(frozen=True)
class ActorLocation:
    """Where an actor lives, and with what."""

    node: str
    machine: str
    pid: int
    version: str
    python: str
    protection: str  # of its hosts


@dataclass(frozen=True)
class VerbResult:
    """What came of a verb: a value, a failure of the environment, a host that did not come up on this node, or a
    question that has to be answered first."""

    kind: Literal["value", "failed", "no host", "question"]
    value: Any = None
    usage: Mapping[str, Usage] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)


class HostActor:
    """Has environments, each under a number from the driver. None holds up another: everything is awaited."""

    def __init__(self, hosted: RemoteSuite, node: str) -> None:
        self._hosted = hosted
        self._node = node
        self._episodes: dict[int, _ActorEpisode] = {}

    @cached_property
    def _suite(self) -> HostedSuite:
        return self._hosted.suite()

    async def ready(self) -> ActorLocation:
        """Where it is. Raises if hosts cannot run here as the settings require."""
        protection = describe(self._suite.sandbox, self._suite.network, self._suite.limits)
        place = (self._node or _node_id(), socket.gethostname(), os.getpid())
        return ActorLocation(*place, __version__, sys.version.split()[0], protection)

    async def tasks(self, split: str) -> VerbResult:
        """The ids that the suite has here."""
        try:
            return VerbResult("value", [task.id for task in await self._suite.tasks(split)])
        except EnvironmentFailed as failure:
            return VerbResult("failed", str(failure))

    async def start(self, number: int, task: Task, asks: bool) -> VerbResult:
        episode = self._episodes[number] = _ActorEpisode(self._suite, task, asks)
        return await episode.do("start")

    async def do(self, number: int, verb: str, *values: Any) -> VerbResult:
        return await self._episodes[number].do(verb, *values)

    async def restore(self, number: int, snapshot: Snapshot, data: bytes | None = None) -> VerbResult:
        """Bring an environment back; the bytes of a large snapshot come separately."""
        snapshot = snapshot if data is None else replace(snapshot, data=data)
        return await self._episodes[number].do("restore", snapshot)

    async def answer(self, number: int, reply: Reply | None, mistake: str = "") -> VerbResult:
        return await self._episodes[number].answer(reply, mistake)

    async def close(self, number: int) -> VerbResult:
        episode = self._episodes.pop(number, None)
        return await episode.close() if episode is not None else VerbResult("value")

    async def end(self) -> None:
        """Leave nothing behind on this node."""
        await asyncio.gather(*(self.close(number) for number in list(self._episodes)), return_exceptions=True)
        remove_unused()  # an actor is killed, and does nothing on exit


class _ActorEpisode:
    """One environment, and its verb under way."""

    def __init__(self, suite: HostedSuite, task: Task, asks: bool) -> None:
        self._episode: Episode = suite.episode(task, self._ask if asks else None)
        self._work: asyncio.Task[Any] | None = None
        self._question: asyncio.Future[tuple[str, Request]] | None = None
        self._reply: asyncio.Future[Reply] | None = None

    async def do(self, verb: str, *values: Any) -> VerbResult:
        self._work = asyncio.ensure_future(getattr(self._episode, verb)(*values))
        return await self._result()

    async def answer(self, reply: Reply | None, mistake: str) -> VerbResult:
        assert self._reply is not None
        if reply is None:
            self._reply.set_exception(InputError(mistake))
        else:
            self._reply.set_result(reply)
        return await self._result()

    async def _result(self) -> VerbResult:
        """The end of the verb under way, or the question that it asks first."""
        assert self._work is not None
        self._question = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._work, self._question}, return_when=asyncio.FIRST_COMPLETED)
        if not self._work.done():
            return VerbResult("question", self._question.result())
        self._question.cancel()
        try:
            return self._report("value", self._work.result())
        except HostFailed as failure:
            return self._report("no host", str(failure))
        except EnvironmentFailed as failure:
            return self._report("failed", str(failure))

    def _report(self, kind: Literal["value", "failed", "no host"], value: Any) -> VerbResult:
        return VerbResult(kind, value, dict(self._episode.usage), dict(self._episode.changes))

    async def _ask(self, role: str, request: Request) -> Reply:
        assert self._question is not None
        self._reply = asyncio.get_running_loop().create_future()
        self._question.set_result((role, request))
        return await self._reply

    async def close(self) -> VerbResult:
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError, EnvironmentFailed):
                await self._work
        await self._episode.close()
        return self._report("value", None)


def _node_id() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())
