"""Environments that live in a process of their own, under their own interpreter, with a kill timer outside."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recompact.chat import Message, ToolSpec, Usage
from recompact.environments.hooks import as_literals
from recompact.environments.host_process import HostProcess, HostSettings
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
from recompact.environments.snapshots.async_channel import socket_pair
from recompact.environments.snapshots.holders import HeldEpisode, HeldSnapshot, Holder, HolderGone, Holders
from recompact.environments.snapshots.replay import Log, log_of, record, replay
from recompact.environments.snapshots.strategy import FORK, REPLAY
from recompact.trajectory import Action, Score, Snapshot

_log = logging.getLogger(__name__)

_MANY = 2000  # actions or texts that go in one message: few messages, each well within the timeout of a verb


@dataclass(frozen=True)
class HostedSuite(HostSettings):
    """A suite whose environments each get a process."""

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
        return await self._hook_answers("behaviours", "actions", [action.to_json() for action in actions])

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        answers = await self._hook_answers("literals", "texts", texts)
        return None if answers is None else [as_literals(answer) for answer in answers]

    async def _hook_answers(self, verb: str, what: str, items: Sequence[Any]) -> list[Any] | None:
        """What the suite's hook answers for each item, many to a message; None where it has no such hook."""
        process = HostProcess(self, f"what the suite says of its {what}")
        answers: list[Any] = []
        try:
            for start in range(0, max(1, len(items)), _MANY):
                answer = await process.call(verb, **{what: items[start : start + _MANY]})
                if answer is None:
                    return None
                answers += answer
            return answers
        finally:
            await process.end()


class HostedEpisode:
    """One environment in a process of its own.

    Where a holder of the same task exists, its opening is known and the process is not started before it is needed:
    most likely the episode will be restored and go on as a branch, and a slow start would have been wasted.
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
        traits = await self._process.call("open", task=[task.id, task.text, dict(task.groups), dict(task.data)])
        self._strategy, self._masked = traits["strategy"], traits["masked"]
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
        return await holders.add(pid, channel, HeldEpisode(self._key, list(self._log), self._opening, self._masked))

    async def _redo(self, snapshot: Snapshot) -> None:
        """Go on from the holder that comes nearest to the snapshot; do again what is missing, often all or nothing."""
        log = log_of(snapshot)
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
