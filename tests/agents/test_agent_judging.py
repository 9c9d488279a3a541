"""What an agent leaves in its workspace may be anything, and never keeps its task from being finished."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from workspace_support import write_task

from recompact.agents.episode import AgentEpisode
from recompact.agents.settings import AgentSettings
from recompact.agents.suite import FolderGround
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.environments.workspace.folder import folders_below


def leave_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (os.mkfifo, "left is a named pipe, which a directory snapshot cannot hold"),
        (leave_socket, "left is a socket, which a directory snapshot cannot hold"),
        (
            lambda path: path.write_bytes(bytes(20_000_001)),
            r"it is larger than the 20,000,000 bytes of \[limits\] disk in its task.toml",
        ),
    ],
)
async def test_a_workspace_that_cannot_be_copied_is_the_environments_failure(
    leave: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path / "tasks")
    (folder,) = folders_below(tmp_path / "tasks")
    workspace = tmp_path / "w"
    workspace.mkdir()
    monkeypatch.chdir(workspace)  # the name of a socket must be short
    leave(Path("left"))
    shell: Any = None  # it does not come to that
    episode = AgentEpisode(AgentSettings(("true",)), Task("addition", "?"), FolderGround(folder, shell), None)
    monkeypatch.setattr(episode, "_quarters", SimpleNamespace(workspace=workspace))
    expected = f"task addition: the workspace of task addition cannot be judged: {reason}"
    with pytest.raises(EnvironmentFailed, match=expected):
        await episode.score()
