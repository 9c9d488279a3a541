"""The fork strategy in the harness: which holders exist, and how a live branch is started from one.

A branch starts from the holder that is furthest along the log of a snapshot. Holders are bounded in number and memory;
the least recently used goes first, and a replay takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from recompact.environments.process_tree import kill_all, proportional, resident, seen_from_outside
from recompact.environments.protocol import Opening
from recompact.environments.snapshots.async_channel import AsyncChannel, Garbled, Lifeline, socket_pair
from recompact.environments.snapshots.replay import Log
from recompact.values.trajectory import Snapshot

_END_PATIENCE = 5.0  # seconds for a holder to end a branch, before the branch is killed from here

_MEASURE_EVERY = 16  # holders: what one shares with others becomes its own when they end


class HolderGone(Exception):
    """This holder gave no branch; the text says why. Another holder or a replay may do."""


@dataclass(frozen=True)
class HeldSnapshot(Snapshot):
    """A snapshot whose exact state a process of this harness holds. What is stored of it is enough for a replay."""

    holder: str = field(default="", compare=False)


class Link(Protocol):
    """A process with an environment in it: the channel to it, and how it is ended."""

    @property
    def channel(self) -> AsyncChannel: ...

    @property
    def lodging(self) -> Lodging: ...

    def pids(self) -> list[int]:
        """Its processes, without those that are holders."""
        ...

    def resolve(self, inner: int) -> int | None:
        """The pid, as the harness sees it, of its process that calls itself `inner`."""
        ...

    async def exit_code(self) -> int | None:
        """How it ended by itself, where that can be known."""
        ...

    async def end(self) -> int | None:
        """Kill it with all its children; returns its exit code where that is known."""
        ...


@dataclass(frozen=True)
class HeldEpisode:
    """What is known of the episode that a holder froze."""

    task: str  # the suite and the task, by name
    log: Log
    opening: Opening
    masked: bool


class Lodging(Protocol):
    """Where a holder lives: the sandbox and the private directories of the host that it was forked from."""

    private: Path

    def enter(self) -> None:
        """An episode runs in it now."""
        ...

    def leave(self) -> None:
        """That episode has ended."""
        ...

    def add_holder(self, pid: int) -> None: ...

    def drop_holder(self, pid: int) -> None: ...

    def below(self, pid: int) -> list[int]:
        """A process and what it started, except holders and what continues from them."""
        ...

    def stop(self, pid: int) -> list[int]:
        """Stop those before they are killed, so that they start no others meanwhile."""
        ...


class Holder:
    """One frozen process, as the harness sees it. It lives until it is retired and its last branch has ended."""

    def __init__(self, pid: int, channel: AsyncChannel, held: HeldEpisode, lodging: Lodging) -> None:
        self.id = uuid.uuid4().hex
        self.pid = pid
        self.held = held
        self.lodging = lodging
        lodging.add_holder(pid)
        self.used = 0
        self._channel = channel
        self._branches = 0
        self._retired = False
        self._closed = False

    async def branch(self, log: int, timeout: float) -> Branch:
        """A live process that continues from here and writes its errors to `log`."""
        if self._retired:
            raise HolderGone("it was dropped")
        channel, theirs = socket_pair()
        lifeline = Lifeline()
        self._branches += 1
        self.lodging.enter()
        try:
            async with asyncio.timeout(timeout):
                with theirs:
                    await self._channel.send({"fork": True}, [theirs.fileno(), log, lifeline.theirs])
                answer = await channel.receive()
            if answer is None or "ok" not in answer:
                raise HolderGone(str("it died" if answer is None else answer.get("error", "its branch died at once")))
            inner = answer["ok"]
            pid = seen_from_outside(self.pid, inner) if type(inner) is int else None
            if pid is None:
                raise HolderGone("its branch is no process of its own")
        except BaseException as error:
            channel.close()
            lifeline.close()  # which also ends a branch that came too late
            self.leave()
            if isinstance(error, TimeoutError):
                raise HolderGone(f"it did not answer within {timeout:g} s") from None
            if isinstance(error, OSError | Garbled):
                raise HolderGone(str(error)) from None
            raise
        finally:
            lifeline.hand_over()
        return Branch(self, pid, inner, channel, lifeline)

    def kill(self, pid: int) -> None:
        self._channel.tell({"kill": pid})

    def leave(self) -> None:
        """Called when a branch has ended."""
        self._branches -= 1
        self.lodging.leave()
        self._close_if_idle()

    def retire(self) -> None:
        """Start no more branches. The process stays until the last live one has ended."""
        self._retired = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._retired and not self._branches and not self._closed:
            self._closed = True
            self._channel.close()
            self.lodging.drop_holder(self.pid)


class Branch:
    """A `Link` to a process that a holder forked."""

    def __init__(self, holder: Holder, pid: int, inner: int, channel: AsyncChannel, lifeline: Lifeline) -> None:
        self.holder = holder
        self.pid = pid
        self.lodging = holder.lodging
        self._inner = inner  # its pid as it and its holder see it
        self.channel = channel
        self._lifeline = lifeline

    def pids(self) -> list[int]:
        return self.lodging.below(self.pid)

    def resolve(self, inner: int) -> int | None:
        return seen_from_outside(self.pid, inner)

    async def exit_code(self) -> int | None:
        return None  # its holder says so when it is ended

    async def end(self) -> int | None:
        code = None
        pids = self.lodging.stop(self.pid)
        self.holder.kill(self._inner)
        try:
            async with asyncio.timeout(_END_PATIENCE):
                last = await self.channel.drain()
            status = re.search(rb'\{"exited": (-?\d+)\}$', last)
            code = int(status[1]) if status else None
        except TimeoutError:
            pass
        kill_all(pids)  # its holder kills its group; this reaches those that have left the group
        self.channel.close()
        self._lifeline.close()
        self.holder.leave()
        return code


class Holders:
    """All holders of a suite. `memory` is in bytes; a page that n holders share counts 1/n for each."""

    def __init__(self, limit: int = 64, memory: int | None = None) -> None:
        self.limit = limit
        self.memory = memory if memory is not None else _a_third_of_memory()
        self._holders: dict[str, Holder] = {}
        self._clock = itertools.count(1)
        self._measured: dict[int, int] = {}
        self._unmeasured = 0  # how many came since then
        weakref.finalize(self, _retire_all, self._holders)

    @property
    def count(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[Holder]:
        return iter(tuple(self._holders.values()))

    async def add(self, pid: int, channel: AsyncChannel, held: HeldEpisode, lodging: Lodging) -> Holder:
        holder = Holder(pid, channel, held, lodging)
        holder.used = next(self._clock)
        self._holders[holder.id] = holder
        sizes = await self._sizes()
        while self.count > self.limit or sum(sizes.get(each.pid, 0) for each in self) > self.memory:
            self.drop(min(self, key=lambda each: each.used))
        return holder

    async def _sizes(self) -> dict[int, int]:
        """Memory by pid, as exact as the decision needs: the exact figure takes milliseconds for each process."""
        pids = [each.pid for each in self]
        at_most = {pid: resident(pid) for pid in pids}
        if sum(at_most.values()) <= self.memory:
            return at_most
        self._unmeasured += 1
        sizes = {pid: self._measured.get(pid, size) for pid, size in at_most.items()}
        if sum(sizes.values()) > self.memory or self._unmeasured > _MEASURE_EVERY:
            sizes = self._measured = await asyncio.to_thread(_proportional_sizes, pids)
            self._unmeasured = 0
        return sizes

    def nearest(self, task: str, log: Sequence[object], exact: str = "") -> Holder | None:
        """The holder named `exact`, or else the one whose log is the longest prefix of this log."""
        holder = self._holders.get(exact)
        if holder is None:
            fitting = (h for h in self if h.held.task == task and h.held.log == list(log[: len(h.held.log)]))
            holder = max(fitting, key=lambda h: (len(h.held.log), h.used), default=None)
        if holder is not None:
            holder.used = next(self._clock)
        return holder

    def opening(self, task: str) -> Opening | None:
        """The opening of this task, where a holder has it and the episode need not be started."""
        return next((holder.held.opening for holder in self if holder.held.task == task), None)

    def drop(self, holder: Holder) -> None:
        if self._holders.pop(holder.id, None) is not None:
            holder.retire()

    def close(self) -> None:
        """Let all of them go."""
        for holder in self:
            self.drop(holder)


def _retire_all(holders: dict[str, Holder]) -> None:
    for holder in holders.values():
        holder.retire()


def _proportional_sizes(pids: Sequence[int]) -> dict[int, int]:
    return {pid: proportional(pid) for pid in pids}


def _a_third_of_memory() -> int:
    """A third of the machine's memory, or of the container's where that is less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 * 1024**3
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        memory = min(memory, int(file.read()))
    return memory // 3
