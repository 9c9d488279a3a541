"""The process that hosts one environment, as the harness sees it: started late, killed in time, with all its children.

A host that crashes, hangs, raises or sends something that is not a message fails its own episode and nothing else.
Calls for a model go through the harness, so that they are journaled, limited and counted like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from recompact.environments.host_log import HostLog
from recompact.environments.host_usage import PLACES, excess, overfull
from recompact.environments.lodging import HostSettings, Lodging, lodge
from recompact.environments.process_tree import seen_from_outside
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, HostFailed
from recompact.environments.shaping import Misshapen, shape_line, shape_name, shape_request
from recompact.environments.snapshots.async_channel import AsyncChannel, Garbled, Lifeline, socket_pair
from recompact.environments.snapshots.holders import Holder, Link
from recompact.environments.wire import request_from_json
from recompact.errors import InputError
from recompact.values.chat import Reply, Usage

_CLOSE_PATIENCE = 5.0  # seconds for an environment to close before its host is killed
_LOOK = 0.25  # seconds between two looks at what a host uses
_ASKS = 200  # times that an environment may ask for a model within one verb


class _ExcessError(Exception):
    """A host uses more than it may."""


class HostProcess:
    """The process and the channel to it. It is started by the first call and killed, with its children, at the end."""

    def __init__(self, settings: HostSettings, what: str, ask: AsyncAsk | None = None) -> None:
        self._settings = settings
        self._what = what
        self._ask = ask
        self._link: Link | None = None
        self._waiting = False  # for an answer: a call was made and is not over, or was given up
        self._number = 0  # of the call
        self.lost = False  # it crashed or was killed
        self._log: HostLog | None = None
        self.usage: dict[str, Usage] = {}

    async def call(self, verb: str, files: Sequence[int] = (), **values: Any) -> Any:
        if self.lost:
            raise EnvironmentFailed(f"{self._what}: its host is gone, so {verb} cannot be done")
        if self._link is None:
            self._link = await self._start()
        if self._waiting:
            raise EnvironmentFailed(f"{self._what}: an earlier verb was interrupted, so {verb} cannot be done")
        self._waiting = True
        self._number += 1
        await self._send(self._link, verb, {"verb": verb, "number": self._number, **values}, files)
        for _ in range(_ASKS + 1):
            message = await self._receive(self._link, verb)
            if "ask" in message:
                await self._send(self._link, verb, await self._answer(verb, message))
                continue
            if message.get("number") != self._number or not message.keys() & {"ok", "error"}:
                raise await self._end_garbled(verb, "an answer that nobody had asked for")
            self._waiting = False
            if "error" not in message:
                return message["ok"]
            if message.get("kind") == "NotImplementedError":
                raise NotImplementedError(verb)
            raise EnvironmentFailed(f"{self._what}: {verb} {shape_line(message['error'])}")
        raise await self._end_garbled(verb, f"more than {_ASKS} calls for a model")

    async def refuse(self, verb: str, reason: Misshapen) -> EnvironmentFailed:
        """End a host whose answer is not what its verb gives: it does not keep to the protocol."""
        return await self._end_garbled(verb, f"a wrong answer ({reason})")

    async def branch(self, holder: Holder) -> None:
        """Continue in a process forked from a holder."""
        branch = await holder.branch(self._open_log().writing, self._settings.timeout)
        await self.leave()
        self._link = branch

    @property
    def link(self) -> Link | None:
        return self._link

    async def _start(self) -> _Spawned:
        try:
            return await self._come_up()
        except HostFailed:
            raise
        except EnvironmentFailed as failure:
            raise HostFailed(str(failure)) from failure

    async def _come_up(self) -> _Spawned:
        await PLACES.take()
        try:
            link = self._link = self._spawn()
        except BaseException:
            PLACES.give_back()
            raise
        ready = await self._receive(link, "start of the host")
        if "error" in ready:
            text = f"{self._what}: the suite could not be loaded in its host: {shape_line(ready['error'])}"
            raise HostFailed(text, shape_line(option) if (option := ready.get("option")) else None)
        if type(ready.get("pid")) is int:
            link.host_pid = link.resolve(ready["pid"])
        return link

    def _spawn(self) -> _Spawned:
        channel, theirs = socket_pair()
        lifeline = Lifeline()
        try:
            with theirs:
                log = self._open_log().writing
                lodging = lodge(self._settings, theirs.fileno(), log, lifeline.theirs)
        except BaseException as error:
            channel.close()
            lifeline.close()
            if not isinstance(error, OSError | ValueError):
                raise
            text = f"{self._what}: its host could not be started with {self._settings.python}: {error}"
            raise EnvironmentFailed(text) from error
        finally:
            lifeline.hand_over()
        return _Spawned(lodging, channel, lifeline)

    def _open_log(self) -> HostLog:
        if self._log is None:
            self._log = HostLog()
            self._log.follow()
        return self._log

    async def _send(self, link: Link, verb: str, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        try:
            async with asyncio.timeout(self._settings.timeout):
                await link.channel.send(message, files)
        except TimeoutError:
            raise await self._end_host(f"{verb} took longer than {self._settings.timeout:g} s") from None
        except OSError:
            raise await self._end_crashed(f"was gone before {verb}") from None

    async def _receive(self, link: Link, verb: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._settings.timeout):
                message = await self._next_message(link)
        except TimeoutError:
            raise await self._end_host(f"{verb} took longer than {self._settings.timeout:g} s") from None
        except _ExcessError as error:
            raise await self._end_host(f"{verb}: {error}") from None
        except Garbled as error:
            raise await self._end_garbled(verb, str(error)) from None
        except OSError:
            message = None
        if message is None or "exited" in message:
            raise await self._end_crashed(f"died during {verb}", message)
        return message

    async def _next_message(self, link: Link) -> dict[str, Any] | None:
        """The next message. While waiting for it, what the host uses is checked."""
        limits = self._settings.limits
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    return await link.channel.receive(limits.message)
            reason = excess(link.pids(), limits)
            if reason := reason or await asyncio.to_thread(overfull, link.lodging.private, limits):
                raise _ExcessError(reason)

    async def _answer(self, verb: str, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            role = shape_name(message["ask"], "a role")
            request = shape_request(request_from_json(message["request"]))
        except (Misshapen, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise await self._end_garbled(verb, "a call for a model that is none") from None
        if self._ask is None:
            return {"failure": f"no model is configured for the role {role!r}: set [suite.models]"}
        try:
            reply: Reply = await self._ask(role, request)
        except InputError as error:  # a role that the config does not have is this environment's mistake
            return {"failure": str(error)}
        self.usage[role] = self.usage.get(role, Usage()) + reply.usage
        return {"reply": reply.to_json()}

    async def _end_garbled(self, verb: str, what: str) -> EnvironmentFailed:
        return await self._end_host(f"{verb}: its host sent {what}")

    async def _end_host(self, why: str) -> EnvironmentFailed:
        await self.leave()
        self.lost = True
        return EnvironmentFailed(f"{self._what}: {why} and its host was killed")

    async def _end_crashed(self, how: str, message: Mapping[str, Any] | None = None) -> EnvironmentFailed:
        code = message["exited"] if message else None
        if self._link is not None and code is None:
            code = await self._link.exit_code()
        ended = await self.leave()
        self.lost = True
        last = shape_line(self._log.last_line()) if self._log is not None else ""
        tail = f"; it last said: {last}" if last else ""
        code = code if type(code) is int else ended
        return EnvironmentFailed(f"{self._what}: its host {how} (exit code {code}){tail}")

    async def leave(self) -> int | None:
        """Kill the process as it is; the next call starts another one."""
        link, self._link, self._waiting, self.lost = self._link, None, False, False
        return await link.end() if link is not None else None

    async def close(self) -> None:
        """Let the environment close, if it can be reached, and end."""
        try:
            if self._link is not None and not self._waiting:
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


class _Spawned:
    """A `Link` to a process that this one started."""

    def __init__(self, lodging: Lodging, channel: AsyncChannel, lifeline: Lifeline) -> None:
        self.lodging = lodging
        self.channel = channel
        self.host_pid: int | None = None  # of the host itself, inside a sandbox
        self._lifeline = lifeline
        lodging.enter()

    def resolve(self, inner: int) -> int | None:
        return seen_from_outside(self.lodging.pid, inner)

    def pids(self) -> list[int]:
        return self.lodging.pids()

    async def exit_code(self) -> int | None:
        return await asyncio.to_thread(self.lodging.exit_code)

    async def end(self) -> int | None:
        """Kill all of it: an environment may have left children behind."""
        try:
            await asyncio.shield(asyncio.to_thread(self._end))
        finally:
            self.channel.close()  # after it was killed: once it has ended by itself, its daemons can no longer be found
            self._lifeline.close()
            PLACES.give_back()
        return None

    def _end(self) -> None:
        self.lodging.kill_host(self.host_pid)
        self.lodging.leave()
