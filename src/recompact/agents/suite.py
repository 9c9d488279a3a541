"""Tasks that are folders, played by an agent that we do not own: a suite like any other to the steps above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recompact.agents.defects import defects_of
from recompact.agents.episode import AgentEpisode
from recompact.agents.process import sandbox_for
from recompact.agents.running import Launch
from recompact.agents.settings import AgentSettings
from recompact.environments.protocol import AsyncAsk, Behaviour, Literals, Task
from recompact.environments.shell import Shell
from recompact.environments.workspace.check import judge
from recompact.environments.workspace.folder import TaskFolder
from recompact.environments.workspace.suite import WorkspaceSuite
from recompact.errors import OptionError
from recompact.values.trajectory import Action, Score


class AgentSuite:
    """The tasks of a workspace suite, played by an agent that is a command, or that is launched in another way."""

    def __init__(self, suite: WorkspaceSuite, settings: AgentSettings, launch: Launch | None = None) -> None:
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
        folder = self.suite.folder(task)
        ground = FolderGround(folder, self.suite.shell(folder))
        settings = replace(self.settings, hidden=(*self.settings.hidden, *self.suite.hidden))
        return AgentEpisode(settings, task, ground, ask, self._launch)

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        return None

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        return None


@dataclass(frozen=True)
class FolderGround:
    """A task that is a folder."""

    folder: TaskFolder
    shell: Shell

    def lay_out(self, workspace: Path) -> None:
        self.folder.lay_out(workspace)

    def judge(self, workspace: Path, answer: str) -> Score:
        return judge(self.folder, workspace, answer, self.shell)
