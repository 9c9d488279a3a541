"""Environments that live in a process of their own, under their own interpreter, with a kill timer outside.

The harness's end of the pipe. A host that crashes, hangs or raises fails its own episode and nothing else; calls for a
model go through the harness, so that they are journaled, limited and counted like all others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import struct
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.chat import Message, Reply, ToolSpec, Usage
from recompact.environments import host
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, Episode, Observation, Opening, Task
from recompact.environments.replay import STRATEGY as REPLAY
from recompact.environments.replay import Log, record, replay
from recompact.environments.wire import request_from_json
from recompact.trajectory import Action, Score, Snapshot


@dataclass(frozen=True)
class HostedSuite:
    """A suite whose environments each get a process. `timeout` is for one verb, in seconds."""

    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    directory: Path = Path()
    python: str = sys.executable
    timeout: float = 120.0

    @property
    def name(self) -> str:
        return self.spec

    async def tasks(self, split: str) -> Sequence[Task]:
        process = HostProcess(self, "the list of tasks")
        try:
            return [Task(*data) for data in await process.call("tasks", split=split)]
        finally:
            await process.end()

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode:
        return HostedEpisode(self, task, ask)


class HostedEpisode:
    """One environment in a process of its own."""

    def __init__(self, suite: HostedSuite, task: Task, ask: AsyncAsk | None) -> None:
        self._process = HostProcess(suite, f"task {task.id}", ask)
        self._task = task
        self._log: Log = []

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self._process.usage

    async def start(self) -> Opening:
        task = self._task
        await self._process.call("open", task=[task.id, task.text, dict(task.groups), dict(task.data)])
        data = await self._process.call("start")
        return Opening(
            tuple(Message.from_json(m) for m in data["prefix"]),
            tuple(ToolSpec.from_json(t) for t in data["tools"]),
            data["text_actions"],
        )

    async def step(self, action: Action) -> Observation:
        observation = Observation(*await self._process.call("step", action=action.to_json()))
        self._log.append((action, observation.text))
        return observation

    async def score(self) -> Score:
        return Score(*await self._process.call("score"))

    async def snapshot(self) -> Snapshot:
        try:
            return Snapshot("state", base64.b64decode(await self._process.call("snapshot")))
        except NotImplementedError:
            return record(self._log)

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy == REPLAY:
            await replay(snapshot, self.step)
        else:
            await self._process.call("restore", state=base64.b64encode(snapshot.data).decode())

    async def close(self) -> None:
        await self._process.end()


class HostProcess:
    """The process and the pipe to it. It is started by the first call and killed, with its children, at the end."""

    def __init__(self, suite: HostedSuite, what: str, ask: AsyncAsk | None = None) -> None:
        self._suite = suite
        self._what = what
        self._ask = ask
        self._process: asyncio.subprocess.Process | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.usage: dict[str, Usage] = {}

    async def call(self, verb: str, **values: Any) -> Any:
        if self._process is None:
            await self._start()
        await self._send({"verb": verb, **values})
        while True:
            message = await self._receive(verb)
            if "ask" in message:
                await self._send(await self._answer(message))
            elif "error" in message:
                if message["kind"] == "NotImplementedError":
                    raise NotImplementedError(verb)
                raise EnvironmentFailed(f"{self._what}: {verb} raised {message['error']}")
            else:
                return message["ok"]

    async def _start(self) -> None:
        command = [self._suite.python, host.__file__, "--suite", self._suite.spec]
        command += ["--options", json.dumps(dict(self._suite.options)), "--parent", str(os.getpid())]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._log,
                cwd=self._suite.directory,
                start_new_session=True,
                env=_without_secrets(os.environ),
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"{self._what}: its host could not be started with {command[0]}: {error}"
            ) from error
        ready = await self._receive("start of the host")
        if "error" in ready:
            raise EnvironmentFailed(f"{self._what}: the suite could not be loaded in its host: {ready['error']}")

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        data = json.dumps(message).encode()
        try:
            self._process.stdin.write(struct.pack(">I", len(data)) + data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._crashed("was gone") from None

    async def _receive(self, verb: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(self._suite.timeout):
                head = await self._process.stdout.readexactly(4)
                data = await self._process.stdout.readexactly(struct.unpack(">I", head)[0])
        except TimeoutError:
            await self.end()
            raise EnvironmentFailed(
                f"{self._what}: {verb} took longer than {self._suite.timeout:g} s and its host was killed"
            ) from None
        except asyncio.IncompleteReadError:
            await self._process.wait()
            raise self._crashed(f"died during {verb}") from None
        message: dict[str, Any] = json.loads(data)
        return message

    async def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._ask is None:
            return {"failure": f"no model is configured for the role {message['ask']!r}: set [suite.models]"}
        reply: Reply = await self._ask(message["ask"], request_from_json(message["request"]))
        role = message["ask"]
        self.usage[role] = self.usage.get(role, Usage()) + reply.usage
        return {"reply": reply.to_json()}

    def _crashed(self, how: str) -> EnvironmentFailed:
        code = self._process.returncode if self._process else None
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        tail = f"; it last said: {lines[-1][:300]}" if lines else ""
        return EnvironmentFailed(f"{self._what}: its host {how} (exit code {code}){tail}")

    async def end(self) -> None:
        """Kill the whole process group: an environment may have left children behind."""
        if self._process is None:
            self._log.close()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()


def _without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment runs hostile commands: it gets no keys."""
    marks = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    return {k: v for k, v in variables.items() if not any(mark in k.upper() for mark in marks)}
