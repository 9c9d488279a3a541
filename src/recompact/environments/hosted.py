"""Environments that live in a process of their own, under their own interpreter, with a kill timer outside.

The harness's end of the socket. A host that crashes, hangs or raises fails its own episode and nothing else; calls for
a model go through the harness, so that they are journaled, limited and counted like all others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.chat import Message, Reply, ToolSpec, Usage
from recompact.environments import host
from recompact.environments.hooks import as_literals
from recompact.environments.protocol import (
    AsyncAsk,
    Behaviour,
    EnvironmentFailed,
    Episode,
    Literals,
    Observation,
    Opening,
    Strategy,
    Task,
)
from recompact.environments.snapshots.async_channel import AsyncChannel, Lifeline, socket_pair
from recompact.environments.snapshots.holders import Held, HeldSnapshot, Holder, HolderGone, Holders, Link
from recompact.environments.snapshots.replay import Log, record, recorded, replay
from recompact.environments.snapshots.strategy import FORK, REPLAY
from recompact.environments.wire import request_from_json
from recompact.trajectory import Action, Score, Snapshot

_log = logging.getLogger(__name__)

_CLOSE_PATIENCE = 5.0  # seconds for an environment to close before its host is killed
_MANY = 2000  # actions or texts that go in one message: few messages, each well within the timeout of a verb


@dataclass(frozen=True)
class HostedSuite:
    """A suite whose environments each get a process. `timeout` is for one verb, in seconds."""

    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    directory: Path = Path()
    python: str = sys.executable
    timeout: float = 120.0
    holders: Holders = field(default_factory=Holders, compare=False, repr=False)

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

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        return await self._said("behaviours", "actions", [action.to_json() for action in actions])

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        said = await self._said("literals", "texts", texts)
        return None if said is None else [as_literals(named) for named in said]

    async def _said(self, verb: str, what: str, items: Sequence[Any]) -> list[Any] | None:
        """What the suite's hook says of each item, many to a message; None where it has no such hook."""
        process = HostProcess(self, f"what the suite says of its {what}")
        said: list[Any] = []
        try:
            for start in range(0, max(1, len(items)), _MANY):
                answer = await process.call(verb, **{what: items[start : start + _MANY]})
                if answer is None:
                    return None
                said += answer
            return said
        finally:
            await process.end()


class HostedEpisode:
    """One environment in a process of its own.

    Where a holder of the same task exists, its opening is known and the process is not started before it is needed:
    most likely the episode will be restored and go on as a branch, and a slow start would have been for nothing.
    """

    def __init__(self, suite: HostedSuite, task: Task, ask: AsyncAsk | None) -> None:
        self._suite = suite
        self._task = task
        self._key = json.dumps([suite.spec, dict(suite.options), str(suite.directory), task.id], sort_keys=True)
        self._process = HostProcess(suite, f"task {task.id}", ask)
        self._running = False
        self._opening: Opening | None = None
        self._strategy: Strategy = "state"
        self._masked = False
        self._log: Log = []
        self._whole = True  # the log begins at the start: not so after the state was put back

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self._process.usage

    async def start(self) -> Opening:
        self._opening = self._suite.holders.opening(self._key)
        return self._opening if self._opening is not None else await self._run()

    async def step(self, action: Action) -> Observation:
        await self._run()
        observation = Observation(*await self._process.call("step", action=action.to_json()))
        self._log.append((action, observation.text))
        return observation

    async def score(self) -> Score:
        await self._run()
        return Score(*await self._process.call("score"))

    async def snapshot(self) -> Snapshot:
        await self._run()
        if self._strategy == FORK:
            holder = await self._hold()
            data = record(self._log, FORK).data
            return HeldSnapshot(FORK, data, holder.id if holder else "")
        try:
            if self._strategy != REPLAY:
                return Snapshot(self._strategy, base64.b64decode(await self._process.call("snapshot")))
        except NotImplementedError:
            pass
        if not self._whole:
            raise EnvironmentFailed(f"task {self._task.id}: its state was put back, so its actions are not all known")
        return record(self._log)

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy in (FORK, REPLAY):
            await self._redo(snapshot)
            return
        await self._run()
        self._whole = False
        state = base64.b64encode(snapshot.data).decode()
        await self._process.call("restore", strategy=snapshot.strategy, state=state)

    async def agrees(self, recorded: str, seen: str) -> bool:
        """Whether two observations are the same, apart from what the environment masks."""
        if recorded == seen or not self._masked:
            return recorded == seen
        one, other = await self._process.call("mask", texts=[recorded, seen])
        return bool(one == other)

    async def close(self) -> None:
        await self._process.close()

    async def _run(self) -> Opening:
        """Start the environment, unless that was done."""
        if self._running:
            assert self._opening is not None
            return self._opening
        promised, task = self._opening, self._task
        known = await self._process.call("open", task=[task.id, task.text, dict(task.groups), dict(task.data)])
        self._strategy, self._masked = known["strategy"], known["masked"]
        data = await self._process.call("start")
        opening = self._opening = Opening(
            tuple(Message.from_json(m) for m in data["prefix"]),
            tuple(ToolSpec.from_json(t) for t in data["tools"]),
            data["text_actions"],
        )
        self._running = True
        if promised is not None and opening != promised:
            raise EnvironmentFailed(
                f"task {task.id}: its opening is not the same at every start, which an environment with"
                ' snapshots = "fork" must see to'
            )
        return opening

    async def _hold(self) -> Holder | None:
        """Leave a frozen copy of the process behind."""
        holders = self._suite.holders
        if holders.limit < 1:
            return None
        assert self._opening is not None
        channel, theirs = socket_pair()
        try:
            with theirs:
                pid = await self._process.call("freeze", [theirs.fileno()])
        except BaseException:
            channel.close()
            raise
        return await holders.add(pid, channel, Held(self._key, list(self._log), self._opening, self._masked))

    async def _redo(self, snapshot: Snapshot) -> None:
        """Go on from the holder that comes nearest to the snapshot; do again what is missing, often all or nothing."""
        log = recorded(snapshot)
        exact = getattr(snapshot, "holder", "")
        while (holder := self._suite.holders.nearest(self._key, log, exact)) is not None:
            try:
                await self._process.branch(holder)
            except HolderGone as reason:
                _log.info("task %s: a holder is given up: %s", self._task.id, reason)
                self._suite.holders.drop(holder)
                continue
            self._running, self._strategy, self._masked = True, FORK, holder.held.masked
            self._opening, self._log, self._whole = holder.held.opening, list(holder.held.log), True
            break
        else:
            if self._log or not self._whole or self._process.lost:
                await self._process.leave()  # only a fresh process can do it all again
                self._running, self._log, self._whole = False, [], True
            await self._run()
        if len(self._log) < len(log):
            await replay(log, self.step, self.agrees, len(self._log))
            if self._strategy == FORK:
                await self._hold_for_the_next()

    async def _hold_for_the_next(self) -> None:
        """What a replay has reached will be wanted again, by the other arm and by further draws."""
        try:
            await self._hold()
        except EnvironmentFailed as refused:
            _log.warning("%s; it will be replayed every time", refused)


class HostProcess:
    """The process and the channel to it. It is started by the first call and killed, with its children, at the end."""

    def __init__(self, suite: HostedSuite, what: str, ask: AsyncAsk | None = None) -> None:
        self._suite = suite
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
        branch = await holder.branch(self._log, self._suite.timeout)
        await self.leave()
        self._link = branch

    async def _start(self) -> Link:
        channel, theirs = socket_pair()
        lifeline = Lifeline()
        command = [self._suite.python, host.__file__, "--suite", self._suite.spec]
        command += ["--options", json.dumps(dict(self._suite.options)), "--parent", str(os.getpid())]
        command += ["--lifeline", str(lifeline.theirs)]
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=theirs.fileno(),
                    stdout=self._log,
                    stderr=self._log,
                    cwd=self._suite.directory,
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
            lifeline.given()
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
            async with asyncio.timeout(self._suite.timeout):
                message = await link.channel.receive()
        except TimeoutError:
            await self.leave()
            self.lost = True
            raise EnvironmentFailed(
                f"{self._what}: {verb} took longer than {self._suite.timeout:g} s and its host was killed"
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
