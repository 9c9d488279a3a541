"""One episode of our own loop: a workspace, the tools that act in it, and the answer.

All state is in files except how the episode ended, which goes with the directory's snapshot as JSON.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from pathlib import Path

from recompact.environments.files import ActionError
from recompact.environments.own_directory import empty_directory, remove_tree
from recompact.environments.protocol import Observation, Opening
from recompact.environments.shell import TEMPORARY, Shell
from recompact.environments.snapshots.mask import VOLATILE
from recompact.environments.trees import tree_excess
from recompact.suites.workspace.check import judge
from recompact.suites.workspace.folder import MOUNT, TaskFolder, files_of
from recompact.suites.workspace.tools import TOOLS, do
from recompact.values.chat import system, user
from recompact.values.trajectory import Action, Score

SYSTEM = f"""You work on a task in the directory {MOUNT}, with a shell and with tools to read, write and edit files.
There is no network. Look before you change something, and test what you have changed. Call one tool at a time, and
`finish` when the task is done: nobody answers questions."""


class WorkspaceEnvironment:
    """An `Environment` whose snapshots are copies of its directory."""

    snapshots = "directory"
    mask = VOLATILE

    def __init__(self, folder: TaskFolder, shell: Shell) -> None:
        self._folder, self._shell = folder, shell
        self.directory = Path(tempfile.mkdtemp(prefix="recompact-workspace-"))
        self.directory_limit = folder.limits.disk
        self._remove = weakref.finalize(self, remove_tree, self.directory)
        self._workspace = self.directory / "workspace"
        self._files = files_of(self._workspace)
        self._ended = False
        self._answer = self._misuse = ""

    def start(self) -> Opening:
        self._clear()
        self._folder.lay_out(self._workspace)
        self._ended, self._answer, self._misuse = False, "", ""
        return Opening((system(SYSTEM), user(self._folder.instruction)), TOOLS)

    def step(self, action: Action) -> Observation:
        if self._ended:
            return Observation("Error: the task is ended already.", done=True, error=True)
        if action.name == "finish":
            self._ended, self._answer = True, str(action.arguments.get("answer", ""))
            return Observation("The task is ended.", done=True)
        try:
            text, failed = do(action.name, action.arguments, self._workspace, self._files, self._shell), False
        except ActionError as error:
            text, failed = f"Error: {error}", True
        if excess := tree_excess(self.directory, self._folder.limits.disk):
            return self._end_for(f"the workspace has {excess} in it")
        return Observation(text, error=failed)

    def score(self) -> Score:
        if self._misuse:
            return Score.of(False, reason=self._misuse)
        return judge(self._folder, self._workspace, self._answer, self._shell)

    def snapshot(self) -> bytes:
        return json.dumps({"ended": self._ended, "answer": self._answer, "misuse": self._misuse}).encode()

    def restore(self, state: bytes) -> None:
        data = json.loads(state)
        self._ended, self._answer, self._misuse = data["ended"], data["answer"], data["misuse"]

    def close(self) -> None:
        self._remove()

    def _end_for(self, reason: str) -> Observation:
        """End an episode that would fill the disk, and give the space back at once."""
        self._clear()
        self._ended, self._misuse = True, reason
        return Observation(f"Error: the episode is ended: {reason}.", done=True, error=True)

    def _clear(self) -> None:
        empty_directory(self.directory)
        self._workspace.mkdir()
        (self.directory / TEMPORARY).mkdir()
