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
from recompact.environments.protocol import Task
from recompact.suites.workspace.folder import FolderTask, folders_below


def leave_far_below(path: Path) -> None:
    """More than the kernel takes for one path, though no name is long and nothing is deep."""
    above = os.open(".", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=above)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.close(above)


def leave_nothing(path: Path) -> None:
    path.absolute().parent.rmdir()


def leave_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (os.mkfifo, "left is a named pipe"),
        (leave_socket, "left is a socket"),
        (lambda path: path.write_bytes(bytes(20_000_001)), "20,000,000 bytes"),
        (leave_far_below, "/workspace could not be restored"),
        (leave_nothing, "/workspace is not a directory"),
    ],
)
async def test_a_workspace_that_cannot_be_copied_fails_its_task(
    leave: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path / "tasks")
    (folder,) = folders_below(tmp_path / "tasks")
    workspace = tmp_path / "w"
    workspace.mkdir()
    monkeypatch.chdir(workspace)  # the name of a socket must be short
    leave(Path("left"))
    shell: Any = None  # it does not come to that
    episode = AgentEpisode(AgentSettings(("true",)), Task("addition", "?"), FolderTask(folder, shell), None)
    monkeypatch.setattr(episode, "_directories", SimpleNamespace(workspace=workspace))
    score = await episode.score()
    assert not score.success
    assert reason in score.details["reason"]
    assert "recompact-check" not in score.details["reason"]  # which is another one each time
    assert str(tmp_path) not in score.details["reason"]
