"""How the harness talks to the host of one environment, which is started late and killed in time.

It keeps the end of what the host prints. A host that crashes, hangs, raises or sends something that is not a message
fails its own episode and nothing else. Calls for a model go through the harness, so that they are journaled, limited
and counted like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Any

from recompact.environments.async_channel import MalformedMessage
from recompact.environments.host_process import HostProcess, HostSettings, start_host
from recompact.environments.host_usage import PLACES, disk_excess, excess, memory_excess
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, HostFailed
from recompact.environments.shaping import WrongShape, shape_line, shape_name, shape_request
from recompact.errors import InputError
from recompact.values.chat import Reply, Usage

_TAIL = 4000  # bytes that are kept
_BURST = 1 << 20  # bytes that are read at once; whoever prints more waits
_PAUSE = 0.05  # seconds between two bursts


class HostLog:
    """The end of what a host prints. It is read slowly, so that a flood holds up nobody but the host itself."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._tail = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._burst = 0

    def follow(self) -> None:
        """Read it from now on, in the running loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._reading, self._read)

    def _read(self) -> None:
        part = self._part()
        self._burst += len(part)
        assert self._loop is not None
        if self._burst > _BURST or not part:
            self._loop.remove_reader(self._reading)
            self._burst = 0
            self._loop.call_later(_PAUSE, self._go_on)

    def _go_on(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.add_reader(self._reading, self._read)

    def _part(self) -> bytes:
        try:
            part = os.read(self._reading, 1 << 16)
        except BlockingIOError:
            return b""
        self._tail = (self._tail + part)[-_TAIL:]
        return part

    def last_line(self) -> str:
        read = 0
        while read < _BURST and (part := self._part()):
            read += len(part)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._reading)
        self._loop = None
        os.close(self._reading)
        os.close(self.writing)


_CLOSE_PATIENCE = 5.0  # seconds for an environment to close before its host is killed
_LOOK = 0.25  # seconds between two looks at what a host uses that is at work
_IDLE_LOOK = 2.0  # seconds between two looks at any other, whose daemons may go on
_ASKS = 200  # times that an environment may ask for a model within one verb


class _ExcessError(Exception):
    """A host uses more than it may."""


class HostClient:
    """Calls verbs of a host. The first call starts its process; at the end it is killed with its children."""

    def __init__(self, settings: HostSettings, what: str, ask: AsyncAsk | None = None) -> None:
        self._settings = settings
        self._what = what
        self._ask = ask
        self._process: HostProcess | None = None
        self._waiting = False  # for an answer: a call was made and is not over, or was given up
        self._number = 0  # of the call
        self.lost = False  # it crashed or was killed
        self._excess = ""  # why it was killed while nobody waited for it
        self._watching: asyncio.Task[None] | None = None
        self._log: HostLog | None = None
        self.usage: dict[str, Usage] = {}

    async def call(self, verb: str, **values: Any) -> Any:
        if self.lost:
            raise EnvironmentFailed(f"{self._what}: its host is gone, so {verb} cannot be done")
        if self._process is None:
            self._process = await self._start()
        if self._waiting:
            raise EnvironmentFailed(f"{self._what}: an earlier verb was interrupted, so {verb} cannot be done")
        self._waiting = True
        self._number += 1
        await self._send(self._process, verb, {"verb": verb, "number": self._number, **values})
        for _ in range(_ASKS + 1):
            message = await self._receive(self._process, verb)
            if "ask" in message:
                await self._send(self._process, verb, await self._answer(verb, message))
                continue
            if message.get("number") != self._number or not message.keys() & {"ok", "error"}:
                raise await self._end_malformed(verb, "an answer that was not asked for")
            self._waiting = False
            if "error" not in message:
                return message["ok"]
            if message.get("kind") == "NotImplementedError":
                raise NotImplementedError(verb)
            if reason := await self._excess_of(self._process):  # it may be told as "No space left on device"
                raise await self._end_host(f"{verb}: {reason}")
            raise EnvironmentFailed(f"{self._what}: {verb} {shape_line(message['error'])}")
        raise await self._end_malformed(verb, f"more than {_ASKS} calls for a model")

    async def refuse(self, verb: str, reason: WrongShape) -> EnvironmentFailed:
        """End a host whose answer is not what its verb gives: it does not keep to the protocol."""
        return await self._end_malformed(verb, f"a wrong answer ({reason})")

    async def _start(self) -> HostProcess:
        try:
            return await self._come_up()
        except HostFailed:
            raise
        except EnvironmentFailed as failure:
            raise HostFailed(str(failure)) from failure

    async def _come_up(self) -> HostProcess:
        await PLACES.take()
        try:
            process = self._process = start_host(self._settings, self._open_log().writing)
        except BaseException as error:
            PLACES.give_back()
            if not isinstance(error, OSError | ValueError):
                raise
            text = f"{self._what}: its host could not be started with {self._settings.python}: {error}"
            raise EnvironmentFailed(text) from error
        self._watching = asyncio.create_task(self._watch(process))
        ready = await self._receive(process, "start of the host")
        process.note_ready()
        if "error" in ready:
            text = f"{self._what}: the suite could not be loaded in its host: {shape_line(ready['error'])}"
            raise HostFailed(text, shape_line(option) if (option := ready.get("option")) else None)
        return process

    def _open_log(self) -> HostLog:
        if self._log is None:
            self._log = HostLog()
            self._log.follow()
        return self._log

    async def _send(self, process: HostProcess, verb: str, message: Mapping[str, Any]) -> None:
        if self._excess:  # it is being killed, and might still answer
            raise await self._end_host(f"{verb}: {self._excess}")
        try:
            async with asyncio.timeout(self._settings.timeout):
                await process.channel.send(message)
        except TimeoutError:
            raise await self._end_host(f"{verb} took longer than {self._settings.timeout:g} s") from None
        except OSError:
            raise await self._end_crashed(f"was gone before {verb}", verb) from None

    async def _receive(self, process: HostProcess, verb: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._settings.timeout):
                message = await self._next_message(process)
        except TimeoutError:
            raise await self._end_host(f"{verb} took longer than {self._settings.timeout:g} s") from None
        except _ExcessError as error:
            raise await self._end_host(f"{verb}: {error}") from None
        except MalformedMessage as error:
            raise await self._end_malformed(verb, str(error)) from None
        except OSError:
            message = None
        if message is None:
            raise await self._end_crashed(f"died during {verb}", verb)
        return message

    async def _next_message(self, process: HostProcess) -> dict[str, Any] | None:
        """The next message. While waiting for it, what the host uses is checked."""
        limits = self._settings.limits
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    return await process.channel.receive(limits.message)
            if reason := await self._excess_of(process):
                raise _ExcessError(reason)

    async def _watch(self, process: HostProcess) -> None:
        """Kill a host that uses too much while nobody waits for it: between two verbs, or while a model is asked. The
        verb that finds it gone tells why."""
        while not self._excess:
            await asyncio.sleep(_IDLE_LOOK)
            if reason := await self._excess_of(process):
                self._excess = reason
                await asyncio.to_thread(process.kill)

    async def _excess_of(self, process: HostProcess) -> str:
        limits = self._settings.limits
        used = excess(process.pids(), limits, process.scratch)
        return used or await asyncio.to_thread(disk_excess, process.private, limits)

    async def _answer(self, verb: str, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            role = shape_name(message["ask"], "a role")
            request = shape_request(message["request"])
        except (WrongShape, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise await self._end_malformed(verb, "a malformed call for a model") from None
        if self._ask is None:
            return {"failure": f"no model is configured for the role {role!r}: set [suite.models]"}
        try:
            reply: Reply = await self._ask(role, request)
        except InputError as error:  # a role that the config does not have is this environment's mistake
            return {"failure": str(error)}
        self.usage[role] = self.usage.get(role, Usage()) + reply.usage
        return {"reply": reply.to_json()}

    async def _end_malformed(self, verb: str, what: str) -> EnvironmentFailed:
        return await self._end_host(f"{verb}: its host sent {what}")

    async def _end_host(self, why: str) -> EnvironmentFailed:
        await self.leave()
        self.lost = True
        return EnvironmentFailed(f"{self._what}: {why} and its host was killed")

    async def _end_crashed(self, how: str, verb: str) -> EnvironmentFailed:
        if not self._excess and self._process is not None and self._process.out_of_memory():
            self._excess = memory_excess(self._settings.limits)  # the kernel was sooner than our look
        if self._excess:
            return await self._end_host(f"{verb}: {self._excess}")
        code = await self._process.exit_code() if self._process is not None else None
        await self.leave()
        self.lost = True
        last = shape_line(self._log.last_line()) if self._log is not None else ""
        tail = f"; it last said: {last}" if last else ""
        return EnvironmentFailed(f"{self._what}: its host {how} (exit code {code}){tail}")

    async def leave(self) -> None:
        """Kill the process as it is; the next call starts another one."""
        process, self._process, self._waiting, self.lost, self._excess = self._process, None, False, False, ""
        if self._watching is not None:
            self._watching.cancel()
        if process is not None:
            try:
                await process.end()
            finally:
                PLACES.give_back()

    async def close(self) -> None:
        """Let the environment close, if it can be reached, and end."""
        try:
            if self._process is not None and not self._waiting:
                with contextlib.suppress(EnvironmentFailed, NotImplementedError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_PATIENCE):
                        await self.call("close")
        finally:
            await self.end()

    async def end(self) -> None:
        await self.leave()
        if self._log is not None:
            self._log.close()
            self._log = None
