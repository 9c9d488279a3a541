"""Tasks in workspaces, played by an agent that we do not own: a suite like any other to the steps above. Here is also
the test of whether such an agent can be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from recompact.agents.episode import AgentEpisode, WorkspaceTask
from recompact.agents.process import sandbox_for
from recompact.agents.running import Launch
from recompact.agents.settings import AgentSettings, defects_of
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, NoHooks, Suite, Task
from recompact.errors import OptionError
from recompact.values.texts import quantity
from recompact.values.trajectory import Action


@runtime_checkable
class WorkspaceTasks(Suite, Protocol):
    """A suite whose tasks agents can play: each has a workspace to begin with, and a check of what became of it."""

    def hidden_places(self) -> tuple[Path, ...]:
        """What no program that plays the tasks may see, such as the checks."""
        ...

    def workspace_task(self, task: Task) -> WorkspaceTask: ...


class AgentSuite(NoHooks):
    """The tasks of a suite, played by an agent that is a command, or that is launched in another way."""

    def __init__(self, suite: WorkspaceTasks, settings: AgentSettings, launch: Launch | None = None) -> None:
        if launch is None:
            sandbox_for(settings)  # which refuses what this machine cannot do
        for key, text in defects_of(settings, launched=launch is not None):
            raise OptionError(text, key)
        self.suite, self.settings, self._launch = suite, settings, launch

    @property
    def name(self) -> str:
        return self.suite.name

    async def tasks(self, split: str) -> Sequence[Task]:
        return self.suite.tasks(split)

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> AgentEpisode:
        settings = replace(self.settings, hidden=(*self.settings.hidden, *self.suite.hidden_places()))
        return AgentEpisode(settings, task, self.suite.workspace_task(task), ask, self._launch)


@dataclass(frozen=True)
class Fidelity:
    """How a replay went. `masked` are pairs of texts, recorded and seen, that were the same only after masking."""

    actions: int
    masked: tuple[tuple[str, str], ...] = ()
    difference: str = ""

    def __str__(self) -> str:
        if self.difference:
            return f"the agent does not replay faithfully: {self.difference}"
        lines = [
            f"the agent replays faithfully: {quantity(self.actions, 'action')}, the same requests and the same"
            " workspace"
        ]
        if self.masked:
            lines[0] += f"; {quantity(len(self.masked), 'observation')} only after masking, such as"
            lines += [f"  {before!r} and {now!r}" for before, now in self.masked[:5]]
        return "\n".join(lines)


async def fidelity(suite: AgentSuite, task: Task, actions: Sequence[Action], ask: AsyncAsk | None = None) -> Fidelity:
    """Let an agent do the actions, then bring a second one to the same point."""
    one, other = suite.episode(task, ask), suite.episode(task, ask)
    count = 0
    try:
        await one.start()
        for action in actions:
            observation = await one.step(action)
            count += 1
            if observation.done:
                break
        snapshot = await one.snapshot()
        other.expect(snapshot)
        await other.start()
        await other.restore(snapshot)
    except EnvironmentFailed as failure:
        return Fidelity(count, tuple(other.masked), str(failure))
    finally:
        await one.close()
        await other.close()
    return Fidelity(count, tuple(other.masked))
