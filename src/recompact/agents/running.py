"""How an agent is started, wherever it runs, and what an episode then knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from recompact.agents.process import AgentDirectories, AgentProcess
from recompact.agents.server import Exchange, Gateway
from recompact.agents.settings import AgentSettings


@dataclass(frozen=True)
class AgentCallbacks:
    """Who hears of what an agent does: `arrive` gets each exchange and may return an earlier one that this one
    repeats; `misuse` gets the reason where an agent does what none may do, and `refuse` why a request is not taken for
    the agent's."""

    arrive: Callable[[Exchange], Exchange]
    misuse: Callable[[str], None]
    refuse: Callable[[str], None]


class RunningAgent(Protocol):
    """An agent that was started. Where it ends by itself, `ended` is its exit code."""

    @property
    def ended(self) -> asyncio.Future[int]: ...

    @property
    def last_line(self) -> str: ...

    def excess(self) -> str:
        """What it uses too much of, or nothing."""
        ...

    async def end(self) -> None:
        """End it and all it started, and wait until they are gone."""
        ...


class Launch(Protocol):
    """Starts an agent on a task in its directories. `callbacks` hear of its requests."""

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> RunningAgent: ...


@dataclass(frozen=True)
class ServedAgent:
    """A process with its own gateway."""

    process: AgentProcess
    gateway: Gateway

    @property
    def ended(self) -> asyncio.Future[int]:
        return self.process.ended

    @property
    def last_line(self) -> str:
        return self.process.last_line

    def excess(self) -> str:
        return self.process.excess()

    async def end(self) -> None:
        try:
            await self.process.end()
        finally:
            await self.gateway.close()
            self.process.listener.close()


@dataclass(frozen=True)
class Command:
    """Starts a command, as its settings say."""

    settings: AgentSettings

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> ServedAgent:
        process = await AgentProcess.start(self.settings, directories, task)
        agent = ServedAgent(process, Gateway(callbacks.arrive, callbacks.misuse, callbacks.refuse, process.key))
        try:
            await agent.gateway.listen(process.listener)
        except BaseException:
            await agent.end()
            raise
        return agent
