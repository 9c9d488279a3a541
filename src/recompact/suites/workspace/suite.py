"""The suite of the tasks in a directory. Options are those of [suite.options]; docs/workspace.md explains them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from recompact.environments.protocol import NoSandbox, Task
from recompact.environments.shell import Shell
from recompact.errors import InputError
from recompact.suites.workspace.container import ContainerSpec, Engine
from recompact.suites.workspace.environment import ContainerEnvironment, WorkspaceEnvironment
from recompact.suites.workspace.folder import TASKS, FolderTask, folders_below
from recompact.suites.workspace.harbor_task import WITH_HARBOR
from recompact.suites.workspace.task import DEFAULT_LIMITS, MOUNT, TaskFolder

_HARNESS = Path(__file__).resolve().parents[2]


class WorkspaceSuite:
    """A `Suite`. `config_directory` is where relative paths start from."""

    name = "workspace"

    def __init__(
        self,
        tasks: str | Path = TASKS,
        *,
        readable: Sequence[str] = (),
        path: Sequence[str] = (),
        unsafe_shell: bool = False,
        container: str = "",
        config_directory: Path = Path(),
    ) -> None:
        self._root = (config_directory / Path(tasks).expanduser()).resolve()
        # Not relative to the current directory: a sandbox has another one. Links stay: a virtual environment has some.
        places, first = (
            [Path(os.path.abspath(config_directory / Path(place).expanduser())) for place in named]
            for named in (readable, path)
        )
        if missing := [str(place) for place in places if not place.exists()]:
            raise InputError(f"suite 'workspace': readable names {missing[0]}, which is not there")
        # An agent's command must find neither the tasks with their checks nor the harness.
        hidden = (self._root, _HARNESS)
        shell = Shell.of_this_machine(unsafe_shell, MOUNT, DEFAULT_LIMITS, readable=places, hidden=hidden)
        system_path = "/usr/local/bin:/usr/bin:/bin"
        variables = {"PATH": ":".join((*map(str, first), system_path))} if path else {}
        self._shell = replace(shell, variables=variables, shared_memory=True)
        self._engine_command = container
        if shell.refused and not all(folder.container for folder in folders_below(self._root)):
            raise NoSandbox(f"suite 'workspace' needs a sandbox: {shell.refused}", self)

    @cached_property
    def folders(self) -> dict[str, TaskFolder]:
        """The tasks by their ids."""
        return {folder.id: folder for folder in folders_below(self._root)}

    @cached_property
    def _engine(self) -> tuple[Engine | None, str]:
        return Engine.of_this_machine(self._engine_command)

    def hidden_places(self) -> tuple[Path, ...]:
        """What no program that plays the tasks may see. Each task is named: the directory of tasks may be the
        program's own, which has to be seen."""
        return (self._root, *(folder.path for folder in self.folders.values()), _HARNESS)

    def splits(self) -> Sequence[str]:
        return tuple(sorted({folder.split for folder in self.folders.values()}))

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self.splits():
            names = ", ".join(self.splits()) or "none: it has no tasks"
            raise InputError(f"suite 'workspace' has no split {split!r} in {self._root}: there are {names}")
        folders = [folder for folder in self.folders.values() if folder.split == split]
        for folder in folders:
            if folder.container:
                self._engine_for(folder, folder.container)
        return [Task(folder.id, folder.instruction, dict(folder.groups)) for folder in folders]

    def environment(self, task: Task) -> WorkspaceEnvironment | ContainerEnvironment:
        folder = self.folder(task)
        if folder.container:
            return ContainerEnvironment(folder, folder.container, self._engine_for(folder, folder.container))
        return WorkspaceEnvironment(folder, self.shell(folder))

    def _engine_for(self, folder: TaskFolder, spec: ContainerSpec) -> Engine:
        engine, problem = self._engine
        if engine is None:
            raise InputError(
                f"task {folder.id} of Harbor needs a container ({spec.reason}), and {problem}. Install podman or"
                f" docker, name one that works with [suite.options] container, or play it with Harbor: {WITH_HARBOR}"
            )
        return engine

    def folder(self, task: Task) -> TaskFolder:
        if task.id not in self.folders:
            raise InputError(f"suite 'workspace' has no task {task.id!r} in {self._root}")
        return self.folders[task.id]

    def workspace_task(self, task: Task) -> FolderTask:
        """A task as an agent that is a program plays it."""
        folder = self.folder(task)
        if folder.container:
            raise InputError(
                f"task {folder.id} of Harbor needs a container ({folder.container.reason}), and an agent that is a"
                f" program would have to run inside it. Play it with Harbor: {WITH_HARBOR}"
            )
        return FolderTask(folder, self.shell(folder))

    def shell(self, folder: TaskFolder) -> Shell:
        """Where commands of a task run."""
        return replace(self._shell, limits=folder.limits)
