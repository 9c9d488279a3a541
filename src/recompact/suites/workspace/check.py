"""The check of a task: it judges a copy of the final workspace, where no agent can reach it any more."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recompact.environments.own_directory import remove_tree
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.shell import TEMPORARY, CommandResult, Shell
from recompact.environments.snapshots.directory import SnapshotRefused, SnapshotTooLarge, archive, unpack
from recompact.suites.workspace.folder import CHECK, MOUNT, TaskFolder
from recompact.values.trajectory import Score

CHECK_MOUNT = f"/{CHECK}"
_WORKSPACE = "workspace"
_ANSWER = "answer.txt"


class CheckFailed(EnvironmentFailed):
    """The check gave no verdict."""


@dataclass(frozen=True)
class FolderTask:
    """A task that is a folder, with the shell in which its check runs."""

    folder: TaskFolder
    shell: Shell

    def lay_out(self, workspace: Path) -> None:
        self.folder.lay_out(workspace)

    def judge(self, workspace: Path, answer: str) -> Score:
        return judge(self.folder, workspace, answer, self.shell)


def judge(folder: TaskFolder, workspace: Path, answer: str, shell: Shell) -> Score:
    """Run the task's check. Of what it prints only a verdict in JSON is kept: scores are shown to models."""
    scratch = Path(tempfile.mkdtemp(prefix="recompact-check-"))
    try:
        directory = scratch / _WORKSPACE
        if reason := _copy(folder, workspace, directory):
            return Score.of(False, reason=f"the workspace cannot be judged: {reason}")
        os.chmod(directory, 0o700)
        folder.put_back(directory)
        temporary = scratch / TEMPORARY
        temporary.mkdir()
        (temporary / _ANSWER).write_text(answer, encoding="utf-8", errors="replace")
        return _score(folder, _shell_of(folder, shell, temporary).run(folder.check.command, directory))
    finally:
        remove_tree(scratch)


def _copy(folder: TaskFolder, workspace: Path, directory: Path) -> str:
    """Copy what the agent left. That may be anything, and where it cannot be copied this returns the reason, which is
    the agent's doing: pipes, sockets, more than the disk holds."""
    try:
        unpack(archive(workspace, folder.limits.disk), directory)
    except SnapshotTooLarge:
        return f"it is larger than the {folder.limits.disk:,} bytes of [limits] disk in its task.toml"
    except SnapshotRefused as error:
        return str(error)
    return ""


def _shell_of(folder: TaskFolder, shell: Shell, temporary: Path) -> Shell:
    """The agent's shell, with the check visible and the check's time limits."""
    limits = replace(folder.limits, seconds=folder.check.seconds, cpu=max(1, round(folder.check.seconds)))
    own = folder.path / CHECK
    sandboxed = shell.bubblewrap is not None
    variables = {
        **shell.variables,
        "CHECK": CHECK_MOUNT if sandboxed else str(own),
        "WORKSPACE": MOUNT if sandboxed else str(temporary.parent / _WORKSPACE),
        "ANSWER_FILE": f"/tmp/{_ANSWER}" if sandboxed else str(temporary / _ANSWER),
    }
    readable = (*shell.readable, *([(own, CHECK_MOUNT)] if own.is_dir() else []))
    return replace(shell, limits=limits, readable=readable, variables=variables)


def _score(folder: TaskFolder, result: CommandResult) -> Score:
    if result.stopped:
        return Score.of(False, reason=f"the check was stopped: {result.stopped}")
    if folder.check.verdict == "exit":
        return Score.of(result.code == 0, exit_code=result.code)
    lines = [line for line in result.output.splitlines() if line.strip()]
    try:
        return _read(json.loads(lines[-1]))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError) as error:
        if result.code:
            return Score.of(False, reason=f"the check ended with exit code {result.code} and no score")
        raise CheckFailed(
            f"the check of task {folder.id} must print its score as JSON in its last line, a number from 0 to 1 or"
            f' {{"score": …}}, and did not ({type(error).__name__})'
        ) from None


def _read(data: Any) -> Score:
    table = data if isinstance(data, dict) else {"score": data}
    value = table["score"]
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a score lies between 0 and 1")
    success = table.get("success", value >= 1)
    details = {key: each for key, each in table.items() if key not in ("score", "success")}
    return Score(bool(success), float(value), details)
