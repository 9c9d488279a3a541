"""How an agent is started, wherever it runs, and what an episode then knows of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from recompact.agents.process import AgentDirectories, AgentProcess
from recompact.agents.server import AgentCallbacks
from recompact.agents.settings import AgentSettings


class RunningAgent(Protocol):
    """An agent that was started. Where it ends by itself, `ended` is its exit code."""

    @property
    def ended(self) -> asyncio.Future[int]: ...

    @property
    def last_line(self) -> str: ...

    def excess(self) -> str:
        """What it uses too much of, or nothing."""
        ...

    def kill(self) -> None:
        """End its processes at once, where it has any; `end` has still to be called."""
        ...

    async def end(self) -> None:
        """End it and all it started, and wait until they are gone."""
        ...


class Launch(Protocol):
    """Starts an agent on a task in its directories. `callbacks` hear of its requests."""

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> RunningAgent: ...


@dataclass(frozen=True)
class Command:
    """Starts a command, as its settings say."""

    settings: AgentSettings

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> AgentProcess:
        agent = await AgentProcess.start(self.settings, directories, task)
        try:
            await agent.serve(callbacks)
        except BaseException:
            await agent.end()
            raise
        return agent
