"""The process that hosts one environment, as the harness sees it: started late, killed in time, with all its children.

A host that crashes, hangs or raises fails its own episode and nothing else. Calls for a model go through the harness,
so that they are journaled, limited and counted like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.chat import Reply, Usage
from recompact.environments import host
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed
from recompact.environments.snapshots.async_channel import AsyncChannel, Lifeline, socket_pair
from recompact.environments.snapshots.holders import Holder, Link
from recompact.environments.wire import request_from_json

_CLOSE_PATIENCE = 5.0  # seconds for an environment to close before its host is killed


@dataclass(frozen=True)
class HostSettings:
    """How a host is started. `timeout` is for one verb, in seconds."""

    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    directory: Path = Path()
    python: str = sys.executable
    timeout: float = 120.0


class HostProcess:
    """The process and the channel to it. It is started by the first call and killed, with its children, at the end."""

    def __init__(self, settings: HostSettings, what: str, ask: AsyncAsk | None = None) -> None:
        self._settings = settings
        self._what = what
        self._ask = ask
        self._link: Link | None = None
        self._waiting = False  # for an answer: a call was made and is not over, or was given up
        self.lost = False  # it crashed or was killed
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.usage: dict[str, Usage] = {}

    async def call(self, verb: str, files: Sequence[int] = (), **values: Any) -> Any:
        if self.lost:
            raise EnvironmentFailed(f"{self._what}: its host is gone, so {verb} cannot be done")
        if self._link is None:
            self._link = await self._start()
        if self._waiting:
            raise EnvironmentFailed(f"{self._what}: an earlier verb was interrupted, so {verb} cannot be done")
        self._waiting = True
        await self._send(self._link, verb, {"verb": verb, **values}, files)
        while True:
            message = await self._receive(self._link, verb)
            if "ask" in message:
                await self._send(self._link, verb, await self._answer(message))
                continue
            self._waiting = False
            if "error" not in message:
                return message["ok"]
            if message["kind"] == "NotImplementedError":
                raise NotImplementedError(verb)
            raise EnvironmentFailed(f"{self._what}: {verb} raised {message['error']}")

    async def branch(self, holder: Holder) -> None:
        """Go on in a process forked from a holder."""
        branch = await holder.branch(self._log, self._settings.timeout)
        await self.leave()
        self._link = branch

    async def _start(self) -> Link:
        channel, theirs = socket_pair()
        lifeline = Lifeline()
        command = [self._settings.python, host.__file__, "--suite", self._settings.spec]
        command += ["--options", json.dumps(dict(self._settings.options)), "--parent", str(os.getpid())]
        command += ["--lifeline", str(lifeline.theirs)]
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=theirs.fileno(),
                    stdout=self._log,
                    stderr=self._log,
                    cwd=self._settings.directory,
                    start_new_session=True,
                    pass_fds=(lifeline.theirs,),
                    env=_variables(os.environ),
                )
        except BaseException as error:
            channel.close()
            lifeline.close()
            if not isinstance(error, OSError):
                raise
            text = f"{self._what}: its host could not be started with {command[0]}: {error}"
            raise EnvironmentFailed(text) from error
        finally:
            lifeline.hand_over()
        link = self._link = _Spawned(process, channel, lifeline)
        ready = await self._receive(link, "start of the host")
        if "error" in ready:
            raise EnvironmentFailed(f"{self._what}: the suite could not be loaded in its host: {ready['error']}")
        return link

    async def _send(self, link: Link, verb: str, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        try:
            await link.channel.send(message, files)
        except ConnectionError:
            raise await self._crashed(f"was gone before {verb}") from None

    async def _receive(self, link: Link, verb: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._settings.timeout):
                message = await link.channel.receive()
        except TimeoutError:
            await self.leave()
            self.lost = True
            raise EnvironmentFailed(
                f"{self._what}: {verb} took longer than {self._settings.timeout:g} s and its host was killed"
            ) from None
        if message is None or "exited" in message:
            raise await self._crashed(f"died during {verb}", message)
        return message

    async def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._ask is None:
            return {"failure": f"no model is configured for the role {message['ask']!r}: set [suite.models]"}
        reply: Reply = await self._ask(message["ask"], request_from_json(message["request"]))
        role = message["ask"]
        self.usage[role] = self.usage.get(role, Usage()) + reply.usage
        return {"reply": reply.to_json()}

    async def _crashed(self, how: str, message: Mapping[str, Any] | None = None) -> EnvironmentFailed:
        code = await self.leave()
        self.lost = True
        code = message["exited"] if message else code
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        tail = f"; it last said: {lines[-1][:300]}" if lines else ""
        return EnvironmentFailed(f"{self._what}: its host {how} (exit code {code}){tail}")

    async def leave(self) -> int | None:
        """Kill the process as it is; the next call starts another one."""
        link, self._link, self._waiting, self.lost = self._link, None, False, False
        return await link.end() if link is not None else None

    async def close(self) -> None:
        """Let the environment close, if it can be spoken to, and end."""
        try:
            if self._link is not None and not self._waiting:
                with contextlib.suppress(EnvironmentFailed, NotImplementedError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_PATIENCE):
                        await self.call("close")
        finally:
            await self.end()

    async def end(self) -> None:
        await self.leave()
        self._log.close()


class _Spawned:
    """A `Link` to a process that this one started."""

    def __init__(self, process: asyncio.subprocess.Process, channel: AsyncChannel, lifeline: Lifeline) -> None:
        self.process = process
        self.channel = channel
        self._lifeline = lifeline

    async def end(self) -> int | None:
        """Kill the whole process group: an environment may have left children behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self.channel.close()
        self._lifeline.close()
        return self.process.returncode


def _variables(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment runs hostile commands: it gets no keys. Nor does one host among many need a pool of threads,
    which would keep it from being forked."""
    marks = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return single | {k: v for k, v in variables.items() if not any(mark in k.upper() for mark in marks)}
