"""An agent that we do not own as an episode: what it asks its model is answered by the rollout, step by step.

The rollout's model is the agent's model, and its environment is everything else: the agent's program, its tools and its
workspace. An action is delivered as the model's reply; what the agent sends back with its next request is the
observation. So contexts, compactions, journal and records are those of every other episode. A boundary is restored by
starting the program again and delivering the recorded actions while its tools run again; what differs ends the branch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from recompact.agents.conversation import Thread, Threads
from recompact.agents.normalizer import Manifest, Normalizer, difference
from recompact.agents.process import AgentDirectories, mount_points
from recompact.agents.running import Command, Launch, RunningAgent
from recompact.agents.server import AgentCallbacks, Exchange
from recompact.agents.settings import HOME, KEPT_CHARACTERS, SIDE_CALLS, STEADY_KEY, TEMPORARY, WORKSPACE, AgentSettings
from recompact.environments.files import TreeLimits, TreeRefused, in_thread, tree_excess
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, Observation, Opening, Task
from recompact.environments.sandbox import remove_mount_points
from recompact.environments.snapshots import VOLATILE, excerpts, masker
from recompact.values.chat import Message, Request, ToolCall, Usage, canonical
from recompact.values.trajectory import Action, Score, Snapshot

STRATEGY = "agent"
"""Snapshots of agents: what they did, to be repeated."""

SIDE = "side"
"""The role of calls that are not part of an agent's main conversation."""

_LOOK = 0.25  # seconds between two looks at what an agent uses that is at work
_DISK_LOOK = 2.0  # between two at what it wrote, and at one that waits for its model, whose daemons may go on
_REPEATS = 20  # times that an agent may send the same request again
_REFUSED = "the gateway refused a request"
_REVIVALS = 2  # times that an agent that was killed is brought back

_log = logging.getLogger(__name__)


class WorkspaceTask(Protocol):
    """What an agent works on, and how the result is judged."""

    def lay_out(self, workspace: Path) -> None: ...

    def judge(self, workspace: Path, answer: str) -> Score:
        """The score of a workspace. Raises `EnvironmentFailed` where there is no verdict."""
        ...


@dataclass(frozen=True)
class LogEntry:
    """One action of an agent: what came back, and what it changed in the workspace."""

    action: Action
    observation: str
    change: Mapping[str, str]

    def to_json(self) -> list[Any]:
        return [self.action.to_json(), self.observation, dict(self.change)]

    @staticmethod
    def from_json(data: list[Any]) -> LogEntry:
        return LogEntry(Action.from_json(data[0]), data[1], data[2])


class _KilledError(Exception):
    """Somebody killed the agent's process."""


class _OverfullError(Exception):
    """The agent uses more than it may."""


class AgentEpisode:
    """One run of an agent on one task."""

    def __init__(
        self,
        settings: AgentSettings,
        task: Task,
        work: WorkspaceTask,
        ask: AsyncAsk | None,
        launch: Launch | None = None,
        single: bool = False,
    ) -> None:
        self._settings, self._task, self._work, self._ask = settings, task, work, ask
        self._launch, self._single = launch or Command(settings), single
        self._what = f"task {task.id}"
        mask = masker((*VOLATILE, *settings.mask))
        assert mask is not None
        self._mask = mask
        self.changes: Counter[str] = Counter()
        self.masked: list[tuple[str, str]] = []  # where a replay was the same only after masking
        self._usage: dict[str, Usage] = {}
        self._sides: dict[str, list[Message]] = {}  # the replies to side calls, by thread
        self._recorded_sides: Mapping[str, list[Message]] = {}  # those of the run that is replayed
        self._log: list[LogEntry] = []
        self._answer = ""
        self._refused = ""  # why the agent has failed, whatever the check would say
        self._revivals = 0
        self._directories: AgentDirectories | None = None
        self._agent: RunningAgent | None = None
        self._watching: asyncio.Task[None] | None = None
        self._excess: _OverfullError | None = None  # why it was killed while nobody waited for it
        self._first: tuple[Message, ...] = ()
        self._pending: Exchange | None = None

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self._usage

    # -- the verbs -----------------------------------------------------------------------------------------------

    def expect(self, snapshot: Snapshot) -> None:
        """Know, before the start, where the episode will be brought: an agent may make side calls at once."""
        sides = _document(snapshot)["sides"]
        self._recorded_sides = {
            name: [Message.from_json(message) for message in messages] for name, messages in sides.items()
        }

    async def start(self) -> Opening:
        await self._begin()
        assert self._pending is not None
        # A loop of somebody else's gets what the model said, and no more calls are made than it asked for.
        return Opening(self._first, self._pending.request.tools, text_actions=True, empty_actions=self._single)

    async def step(self, action: Action) -> Observation:
        for _ in range(_REVIVALS + 1):
            try:
                return await self._step(action)
            except _KilledError as error:
                if self._revivals >= _REVIVALS:
                    raise EnvironmentFailed(f"{self._what}: {error}") from None
                self._revivals += 1
                _log.warning("%s: %s; it is started again", self._what, error)
                await self._revive()
        raise AssertionError("the last attempt returns or raises")

    async def score(self) -> Score:
        assert self._directories is not None
        await self._stop()  # whatever it left behind must not change what is judged
        if self._refused:
            return Score.of(False, reason=self._refused)
        try:
            return await asyncio.to_thread(self._work.judge, self._directories.workspace, self._answer)
        except EnvironmentFailed as error:
            raise EnvironmentFailed(f"{self._what}: {error}") from None

    async def snapshot(self) -> Snapshot:
        data = {
            "first": [message.to_json() for message in self._first],
            "entries": [entry.to_json() for entry in self._log],
            "sides": {name: [m.to_json() for m in messages] for name, messages in sorted(self._sides.items())},
        }
        return Snapshot(STRATEGY, canonical(data).encode("utf-8", "surrogatepass"))

    async def restore(self, snapshot: Snapshot) -> None:
        """Deliver what was recorded, and compare what comes back; only a fresh episode can be brought there."""
        self.expect(snapshot)
        data = _document(snapshot)
        self._compare_first([Message.from_json(message) for message in data["first"]])
        await self._replay([LogEntry.from_json(entry) for entry in data["entries"]])

    async def close(self) -> None:
        await self._stop()
        if self._directories is not None:
            await asyncio.to_thread(self._directories.remove)
            self._directories = None

    # -- running it ----------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start the agent in a fresh workspace, and wait for its first request."""
        if self._directories is None:
            self._directories = AgentDirectories.new()
        await asyncio.to_thread(self._work.lay_out, self._directories.workspace)
        self._mount_points = await asyncio.to_thread(mount_points, self._settings, self._directories)
        limits = TreeLimits(self._settings.limits.disk)
        self._manifest = Manifest(self._directories.workspace, self._settings.ignore, limits)
        try:
            await in_thread(self._manifest.change)
        except TreeRefused as refused:
            raise EnvironmentFailed(f"{self._what}: its workspace cannot be looked at: {refused}") from None
        self._normalizer = Normalizer(self._settings.replace, self._settings.ids, self._places(self._directories))
        self._threads = Threads(self._mask, self._single)
        self._arrivals: asyncio.Queue[Exchange | BaseException] = asyncio.Queue()
        self._exchanges: dict[str, Exchange] = {}
        self._kept: dict[str, int] = {}  # characters of the last request of each conversation
        self._asking: set[asyncio.Task[None]] = set()
        self._side_calls = 0
        self._next_look = self._next_disk_look = time.monotonic() + _LOOK
        self._calls = 0
        self._sides = {}
        self._agent = await self._launch(
            self._directories,
            self._task.text,
            AgentCallbacks(self._arrive, self._report_misuse, self._note_refusal),
        )
        self._excess = None
        if self._settings.timeout != math.inf:
            self._watching = asyncio.create_task(self._watch(self._agent))
        try:
            arrival = await self._arrival("its first request")
        except _OverfullError as error:
            raise self._failure(str(error)) from None
        if arrival is None:
            ended = f"it ended with exit code {self._agent.ended.result()} before it asked its model for anything"
            refusals = {c: times for c, times in self.changes.items() if c.startswith(_REFUSED)}
            raise self._failure(
                "; ".join([ended, *(f"{change} ({times} times)" for change, times in refusals.items())])
            )
        self._pending = arrival
        self._first = tuple(self._steady_message(message) for message in arrival.request.messages)

    def _places(self, directories: AgentDirectories) -> Mapping[str, str]:
        """What an agent with its user's rights sees as it is, paths and its key, and the model must not see change."""
        if not self._settings.unsafe:
            return {}
        # Not /tmp itself: programs use the machine's own as well. First, since the other two may lie below /tmp/agent.
        own = {directories.temporary: f"{TEMPORARY}/agent", directories.workspace: WORKSPACE, directories.home: HOME}
        return {str(place): steady for place, steady in own.items()} | {directories.key: STEADY_KEY}

    async def _stop(self) -> None:
        agent, self._agent = self._agent, None
        self._pending = None
        if self._watching is not None:
            self._watching.cancel()
        if agent is None:
            return
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        try:
            await agent.end()
        finally:
            remove_mount_points(self._mount_points)

    async def _revive(self) -> None:
        """Bring an agent that was killed back to where it was."""
        entries, first, sides = self._log, list(self._first), self._sides
        await self._stop()
        assert self._directories is not None
        await asyncio.to_thread(self._directories.clear)
        self._log, self._recorded_sides = [], {**self._recorded_sides, **sides}
        await self._begin()
        self._compare_first(first)
        await self._replay(entries)

    async def _step(self, action: Action) -> Observation:
        exchange = self._pending
        if exchange is None:
            raise EnvironmentFailed(f"{self._what}: the agent has ended, so nothing can be delivered to it")
        change: Mapping[str, str] = {}
        try:
            if self._excess is not None:
                raise self._excess
            self._deliver(exchange, action)
            arrival = await self._arrival("its next request")
            if arrival is None:
                self._check_exit()
                text, self._pending = "The agent has ended.", None
            else:
                text, self._pending = self._observe(exchange, arrival), arrival
            change = await in_thread(self._manifest.change)
        except (_OverfullError, TreeRefused) as error:  # the agent's doing: its task is failed, not its environment
            assert self._directories is not None
            workspace = "its workspace cannot be looked at: " if isinstance(error, TreeRefused) else ""
            reason = str(error).replace(str(self._directories.workspace), WORKSPACE)  # the same text every time
            self._refused, self._pending = f"{workspace}{reason}", None
            text = f"The agent was stopped: {self._refused}."
        self._log.append(LogEntry(action, text, change))
        return Observation(text, done=self._pending is None)

    def _deliver(self, exchange: Exchange, action: Action) -> None:
        """Answer a request with an action, as the model's reply."""
        assert self._threads.main is not None
        if not action.name:
            self._answer = action.text
            self._threads.main.call_id = ""
            exchange.deliver(Message("assistant", self._normalizer.own(action.text)))
            return
        self._calls += 1
        id = f"call_{self._calls:04d}"
        arguments = json.dumps(self._normalizer.own(dict(action.arguments)), ensure_ascii=False)
        self._threads.main.call_id = id
        exchange.deliver(Message("assistant", "", (ToolCall(id, action.name, arguments),)))

    def _observe(self, before: Exchange, now: Exchange) -> str:
        """What an agent has added to its conversation since its last request, except for the reply it was given."""
        assert self._threads.main is not None
        old, new = before.request.messages, now.request.messages
        begin = len(old)
        if not self._threads.alike(new[:begin], old):
            self.changes["the agent changed earlier messages of its conversation"] += 1
            id = self._threads.main.call_id
            begin = next((n for n, message in enumerate(new) if message.call_id == id), len(new))
        texts = [message.content for message in new[begin:] if message.role != "assistant"]
        return self._normalizer.steady("\n\n".join(texts))

    def _steady_message(self, message: Message) -> Message:
        return Message(message.role, self._normalizer.steady(message.content), message.calls, message.call_id)

    async def _arrival(self, what: str) -> Exchange | None:
        """The next request of the main conversation, or None where the agent has ended."""
        assert self._agent is not None
        assert self._directories is not None
        deadline = time.monotonic() + self._settings.timeout
        look = None if self._settings.timeout == math.inf else _LOOK
        getting = asyncio.ensure_future(self._arrivals.get())
        try:
            while True:
                done, _ = await asyncio.wait(
                    (getting, self._agent.ended), timeout=look, return_when=asyncio.FIRST_COMPLETED
                )
                if done == {self._agent.ended}:
                    self._next_look = 0.0  # one last check: its usage may have ended it
                await self._look()
                if getting in done:
                    arrival = getting.result()
                    if isinstance(arrival, BaseException):
                        raise arrival
                    return arrival
                if self._agent.ended in done:
                    return None
                if time.monotonic() > deadline:
                    raise self._failure(f"{what} took longer than {self._settings.timeout:g} s ([agent] timeout)")
        finally:
            getting.cancel()

    async def _watch(self, agent: RunningAgent) -> None:
        """Kill an agent that uses too much while nobody waits for it: its model is asked. The next step tells why."""
        while self._excess is None:
            await asyncio.sleep(_DISK_LOOK)
            try:
                await self._look()
            except _OverfullError as excess:
                self._excess = excess
                await asyncio.to_thread(agent.kill)

    async def _look(self) -> None:
        """See, now and then, whether the agent uses more than it may."""
        assert self._agent is not None
        assert self._directories is not None
        if self._excess is not None:
            raise self._excess
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        disk = now > self._next_disk_look
        if disk:
            self._next_disk_look = now + _DISK_LOOK
        if reason := await asyncio.to_thread(self._agent.excess):
            raise _OverfullError(reason)
        limit = self._settings.limits.disk
        if disk and (excess := await asyncio.to_thread(tree_excess, self._directories.root, limit)):
            raise _OverfullError(f"it wrote {excess} ([agent.limits] disk)")

    def _check_exit(self) -> None:
        assert self._agent is not None
        code = self._agent.ended.result()
        if code == 0:
            return
        if code < 0 or code > 128:
            raise _KilledError(f"the agent's process was killed (exit code {code})")
        raise self._failure(f"it ended with exit code {code}")

    def _failure(self, reason: str) -> EnvironmentFailed:
        last = self._agent.last_line if self._agent is not None else ""
        return EnvironmentFailed(f"{self._what}: the agent: {reason}" + (f"; it last said: {last}" if last else ""))

    # -- what arrives at the gateway -----------------------------------------------------------------------------

    def _report_misuse(self, reason: str) -> None:
        self._arrivals.put_nowait(self._failure(reason))

    def _note_refusal(self, reason: str) -> None:
        """Whoever sent it may not be the agent, so it is counted and no more."""
        self.changes[f"{_REFUSED}: {reason}"] += 1

    def _arrive(self, exchange: Exchange) -> Exchange:
        """Assign a request to its thread. The same one again gets the answer of the first."""
        if exchange.mended:
            self.changes["a request of the agent had halves of characters, which were replaced"] += 1
        thread = self._threads.thread_of(exchange.request, exchange.headers)
        earlier = self._exchanges.get(thread.name)
        if earlier is not None and self._threads.alike(earlier.request.messages, exchange.request.messages):
            earlier.repeats += 1
            if earlier.repeats > _REPEATS:
                self._report_misuse(f"it sent the same request more than {_REPEATS} times")
            return earlier
        self._kept[thread.name] = sum(message.characters for message in exchange.request.messages)
        if sum(self._kept.values()) > KEPT_CHARACTERS:
            self._report_misuse(f"its conversations have more than {KEPT_CHARACTERS:,} characters together")
            return exchange
        main = thread is self._threads.main
        if earlier is not None and not earlier.answer.done():
            self._report_misuse("it went on with a conversation before its last request was answered")
        self._exchanges[thread.name] = exchange
        thread.messages = exchange.request.messages
        thread.requests += 1
        if main:
            self._arrivals.put_nowait(exchange)
        else:
            task = asyncio.ensure_future(self._answer_aside(thread, exchange))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return exchange

    async def _answer_aside(self, thread: Thread, exchange: Exchange) -> None:
        """Answer a call that is not part of the main conversation: from the record, or by the same model."""
        try:
            message = await self._side_reply(thread, exchange.request)
        except Exception as error:
            self._arrivals.put_nowait(error)
            return
        self._sides.setdefault(thread.name, []).append(message)
        if len(message.calls) > 1:  # agents would run them at the same time, in an order of their own
            self.changes["of several calls in a side reply only the first was delivered"] += 1
            message = Message(message.role, message.content, message.calls[:1])
        thread.call_id = message.calls[0].id if message.calls else ""
        exchange.deliver(message)

    async def _side_reply(self, thread: Thread, request: Request) -> Message:
        recorded = self._recorded_sides.get(thread.name, [])
        if thread.requests <= len(recorded):
            return recorded[thread.requests - 1]
        self._side_calls += 1
        if self._side_calls > SIDE_CALLS:
            raise self._failure(f"it made more than {SIDE_CALLS} calls outside its main conversation")
        if self._ask is None:
            raise self._failure("it made a call outside its main conversation, and there is no model for it")
        reply = await self._ask(f"{SIDE}/{thread.name}", Request(request.messages, request.tools))
        self._usage[SIDE] = self._usage.get(SIDE, Usage()) + reply.usage
        return reply.message

    # -- replay --------------------------------------------------------------------------------------------------

    def _compare_first(self, recorded: Sequence[Message]) -> None:
        if not self._threads.alike(self._first, recorded):
            texts = ["\n".join(f"[{m.role}] {m.content}" for m in messages) for messages in (recorded, self._first)]
            before, now = excerpts(self._mask(texts[0]), self._mask(texts[1]), width=200)
            raise EnvironmentFailed(
                f"{self._what}: replay differs at the agent's first request: recorded {before!r}, now {now!r}"
            )

    async def _replay(self, entries: Sequence[LogEntry]) -> None:
        for number, entry in enumerate(entries, 1):
            await self.step(entry.action)
            seen = self._log[-1]
            where = f"{self._what}: replay differs at action {number} ({entry.action.name or 'text'})"
            if (before := self._mask(entry.observation)) != (now := self._mask(seen.observation)):
                was, became = excerpts(before, now, width=200)
                raise EnvironmentFailed(f"{where}: recorded {was!r}, now {became!r}")
            if text := difference(entry.change, seen.change):
                raise EnvironmentFailed(f"{where}: the workspace differs: {text}")
            if entry.observation != seen.observation:
                self.masked.append(excerpts(entry.observation, seen.observation))
            # what was recorded is what the model saw
            self._log[-1] = entry


def _document(snapshot: Snapshot) -> Any:
    return json.loads(snapshot.data.decode("utf-8", "surrogatepass"))
