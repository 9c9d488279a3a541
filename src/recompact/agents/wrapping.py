"""One run of an agent where its user would run it: its requests are answered, and its history is compacted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.agents.episode import AgentEpisode
from recompact.agents.process import AgentDirectories, AgentProcess
from recompact.agents.running import Command, Launch
from recompact.agents.server import AgentCallbacks, Exchange
from recompact.agents.settings import AgentSettings
from recompact.environments.protocol import AsyncAsk, NoHooks, Task
from recompact.values.chat import Message
from recompact.values.receipt import Receipt
from recompact.values.trajectory import Boundary, Score, Trajectory


@dataclass(frozen=True)
class WorkInPlace:
    """Wherever the agent is. That it ended by itself is all that is known."""

    def lay_out(self, workspace: Path) -> None: ...

    def judge(self, workspace: Path, answer: str) -> Score:
        return Score.of(True)


SILENCE = 15.0  # seconds without a request, after which an agent's user should know


@dataclass(eq=False)
class Hearing:
    """Starts an agent and hears whether it asks its model at the gateway. Where it does not within `patience` seconds,
    `silent` gets the gateway's address."""

    settings: AgentSettings
    silent: Callable[[str], None]
    patience: float = SILENCE
    requests: int = 0

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> AgentProcess:
        def arrive(exchange: Exchange) -> Exchange:
            self.requests += 1
            return callbacks.arrive(exchange)

        def misuse(reason: str) -> None:
            self.requests += 1
            callbacks.misuse(reason)

        heard = AgentCallbacks(arrive, misuse, callbacks.refuse)
        agent = await Command(self.settings)(directories, task, heard)
        asyncio.get_running_loop().call_later(self.patience, self._tell, agent)
        return agent

    def _tell(self, agent: AgentProcess) -> None:
        if not self.requests and not agent.ended.done():
            self.silent(agent.url)


@dataclass(frozen=True)
class WrappedAgent(NoHooks):
    """The agent as a suite of one task."""

    settings: AgentSettings
    task: Task
    launch: Launch
    name: str = field(default="wrap", init=False)

    async def tasks(self, split: str) -> Sequence[Task]:
        return [self.task]

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> AgentEpisode:
        return AgentEpisode(self.settings, task, WorkInPlace(), ask, self.launch)


def transcript(trajectory: Trajectory, receipts: Sequence[Receipt] = ()) -> Iterator[dict[str, Any]]:
    """A trajectory as messages in OpenAI's form, with each compaction marked, as `recompact audit` reads it.

    Beside a compaction's mark are its sizes, its receipt, and the numbers, from 1, of the earlier messages that stayed
    visible.
    """
    prefix = list(range(1, len(trajectory.context.prefix) + 1))
    for message in trajectory.context.prefix:
        yield _message(message)
    written = len(prefix)
    of_turns: list[range] = []  # the numbers of each turn's messages
    pending = list(trajectory.boundaries)
    for number in range(len(trajectory.turns) + 1):  # the last compaction may come after the last turn
        while pending and pending[0].step <= number:
            boundary = pending.pop(0)
            latest = of_turns[len(of_turns) - len(boundary.post.turns) :]
            marked = _compaction(boundary, [*prefix, *(each for turn in latest for each in turn)])
            slips = [{"receipt": each.to_json()} for each in receipts[boundary.index - 1 : boundary.index]]
            yield marked | (slips[0] if slips else {})
            written += 1
        for turn in trajectory.turns[number : number + 1]:
            yield from map(_message, turn.messages)
            of_turns.append(range(written + 1, written + len(turn.messages) + 1))
            written += len(turn.messages)


def transcript_of_calls(calls: Iterable[tuple[Sequence[Message], Message]]) -> Iterator[dict[str, Any]]:
    """The same from requests and replies of an agent that was stopped, so that no trajectory was recorded.

    Where a request does not go on with the one before, the first message that is new is the summary.
    """
    seen: list[Message] = []  # what the model has seen last, with its reply
    numbers: list[int] = []  # of those messages in the transcript
    written = 0
    for request, reply in calls:
        same = _common_length(seen, request)
        rest = list(request[same:])
        if same < len(seen) and rest:
            kept = next((n for n in range(len(seen) - same, 0, -1) if rest[1 : n + 1] == seen[-n:]), 0)
            numbers = [*numbers[:same], *numbers[len(numbers) - kept :]]
            yield {"role": "user", "content": rest[0].content, "compaction": True, "kept": numbers}
            written += 1
            numbers = [*numbers[:same], written, *numbers[same:]]
            rest = rest[1 + kept :]
        for message in (*rest, reply):
            yield _message(message)
            written += 1
            numbers.append(written)
        seen = [*request, reply]


def _common_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _compaction(boundary: Boundary, kept: list[int]) -> dict[str, Any]:
    summary = boundary.post.summary
    return {
        "role": "user",
        "content": summary.text if summary else "",
        "compaction": True,
        "kept": kept,
        "tokens_before": boundary.pre.size,
        "tokens_after": boundary.post.size,
    }


def _message(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return out | ({"tool_call_id": message.call_id} if message.call_id else {})
