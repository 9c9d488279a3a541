"""One episode of our own loop: a workspace, the tools that act in it, and the answer.

In a plain directory all state is in files except how the episode ended, which goes with the directory's snapshot as
JSON. In a container a snapshot is what differs from the image, or the actions themselves where programs go on; it is
judged there by the task's `tests/test.sh`, as Harbor does it.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from recompact.environments.files import ActionError, tree_excess
from recompact.environments.own_directory import empty_directory, remove_tree
from recompact.environments.protocol import EnvironmentFailed, Observation, Opening
from recompact.environments.shell import TEMPORARY, CommandResult, Shell, observe_command
from recompact.environments.snapshots import VOLATILE
from recompact.suites.workspace.container import Container, ContainerSpec, Engine
from recompact.suites.workspace.folder import CheckFailed, files_of, judge, read_score
from recompact.suites.workspace.task import MOUNT, TaskFolder
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

SHOWN = 16_000
"""Characters of one observation that the agent is shown; of longer ones, both ends."""

LINES = 400
"""Lines of a file that are shown at once, unless the agent asks for another number."""

Arguments = Mapping[str, Any]


def _object(required: tuple[str, ...], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def tools_for(place: str, left_running: str = "whatever it started ends with it") -> tuple[ToolSpec, ...]:
    """The tools of an agent whose directory is `place`."""
    path = {"type": "string", "description": f"Path of the file, from {place}."}
    return (
        ToolSpec(
            "shell",
            f"Run a command with bash in {place}. Each command starts there anew, and {left_running}.",
            _object(("command",), command={"type": "string"}),
        ),
        ToolSpec(
            "read_file",
            f"Show the lines of a text file, at most {LINES} unless told otherwise.",
            _object(
                ("path",),
                path=path,
                start={"type": "integer", "description": "Number of the first line, from 1."},
                lines={"type": "integer", "description": "How many lines."},
            ),
        ),
        ToolSpec(
            "write_file",
            "Write a whole text file. Directories above it are made.",
            _object(("path", "content"), path=path, content={"type": "string"}),
        ),
        ToolSpec(
            "edit_file",
            "Replace one passage of a text file, which must occur in it exactly once.",
            _object(("path", "old", "new"), path=path, old={"type": "string"}, new={"type": "string"}),
        ),
        ToolSpec(
            "finish",
            "End the task. Say in a few words what was done, or give the answer where one is asked for.",
            _object(("answer",), answer={"type": "string"}),
        ),
    )


class TextFiles(Protocol):
    """Files by their names, as bytes."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...


Run = Callable[[str], CommandResult]


def do(name: str, arguments: Arguments, files: TextFiles, run: Run) -> str:
    """Carry out an action other than `finish`, and say what came of it."""
    if name == "shell":
        return observe_command(_text(arguments, "command"), run, keep_both_ends)
    actions: Mapping[str, Callable[[Arguments, TextFiles], str]] = {
        "read_file": _read,
        "write_file": _write,
        "edit_file": _edit,
    }
    if name not in actions:
        raise ActionError(f"there is no tool {name[:80]!r}")
    return actions[name](arguments, files)


def _read(arguments: Arguments, files: TextFiles) -> str:
    name = _text(arguments, "path")
    lines = _content(files, name).split("\n")
    start, count = _number(arguments, "start", 1), _number(arguments, "lines", LINES)
    shown = lines[start - 1 : start - 1 + count]
    if not shown:
        raise ActionError(f"{name} has {len(lines)} lines, so none from {start} on")
    rest = len(lines) - (start - 1 + len(shown))
    more = f"\n[{rest} more lines: read on from line {start + len(shown)}]" if rest > 0 else ""
    return keep_both_ends("\n".join(shown)) + more or "The file is empty."


def _write(arguments: Arguments, files: TextFiles) -> str:
    name, content = _text(arguments, "path"), arguments.get("content")
    if not isinstance(content, str):
        raise ActionError("content must be a text")
    files.write(name, content.encode("utf-8", "replace"))
    return f"{name} is written, {len(content.splitlines())} lines."


def _edit(arguments: Arguments, files: TextFiles) -> str:
    name, old, new = _text(arguments, "path"), _text(arguments, "old"), arguments.get("new")
    if not isinstance(new, str):
        raise ActionError("new must be a text")
    content = _content(files, name)
    times = content.count(old)
    if times != 1:
        problem = "does not occur" if not times else f"occurs {times} times"
        raise ActionError(f"the passage {problem} in {name}; give one that occurs exactly once, as it stands there")
    files.write(name, content.replace(old, new).encode("utf-8", "replace"))
    return f"{name} is changed."


def _content(files: TextFiles, name: str) -> str:
    try:
        return files.read(name).decode("utf-8")
    except UnicodeDecodeError:
        raise ActionError(f"{name} is not text in UTF-8") from None


def _text(arguments: Arguments, key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value:
        raise ActionError(f"{key} must be a text")
    return value


def _number(arguments: Arguments, key: str, default: int) -> int:
    value = arguments.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ActionError(f"{key} must be a whole number from 1 on")
    return value


def keep_both_ends(text: str, most: int = SHOWN) -> str:
    """Both ends of a text that is too long, with a mark between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[cut: {len(text) - 2 * half:,} characters]\n{text[-half:]}"


def system_prompt(place: str, network: str = "There is no network.") -> str:
    return f"""You work on a task in the directory {place}, with a shell and with tools to read, write and edit files.
{network} Look before you change something, and test what you have changed. Call one tool at a time, and
`finish` when the task is done: nobody answers questions."""


@dataclass
class Progress:
    """How far an episode is: whether it has ended, with which answer, or for which misuse of its place."""

    ended: bool = False
    answer: str = ""
    misuse: str = ""

    def step(self, action: Action, files: TextFiles, run: Run, excess: Callable[[], str]) -> Observation:
        """Do one action. Where `excess` has something to say, the episode is over."""
        if self.ended:
            return Observation("Error: the task is ended already.", done=True, error=True)
        if action.name == "finish":
            self.ended, self.answer = True, str(action.arguments.get("answer", ""))
            return Observation("The task is ended.", done=True)
        try:
            text, failed = do(action.name, action.arguments, files, run), False
        except ActionError as error:
            text, failed = f"Error: {error}", True
        if found := excess():
            self.ended, self.misuse = True, f"the workspace has {found} in it"
            return Observation(f"Error: the episode is ended: {self.misuse}.", done=True, error=True)
        return Observation(text, error=failed)


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
        self._progress = Progress()

    def start(self) -> Opening:
        self._clear()
        self._folder.lay_out(self._workspace)
        self._progress = Progress()
        return Opening((system(system_prompt(MOUNT)), user(self._folder.instruction)), tools_for(MOUNT))

    def step(self, action: Action) -> Observation:
        limit = self._folder.limits.disk
        observation = self._progress.step(
            action,
            self._files,
            lambda command: self._shell.run(command, self._workspace),
            lambda: tree_excess(self.directory, limit),
        )
        if self._progress.misuse:
            self._clear()  # give the space back at once
        return observation

    def score(self) -> Score:
        if self._progress.misuse:
            return Score.of(False, reason=self._progress.misuse)
        return judge(self._folder, self._workspace, self._progress.answer, self._shell)

    def snapshot(self) -> bytes:
        return json.dumps(asdict(self._progress)).encode()

    def restore(self, state: bytes) -> None:
        self._progress = Progress(**json.loads(state))

    def close(self) -> None:
        self._remove()

    def _clear(self) -> None:
        empty_directory(self.directory)
        self._workspace.mkdir()
        (self.directory / TEMPORARY).mkdir()


LARGEST = 256 * 1024**2
"""Bytes of a snapshot; an episode that has written more is restored by replaying it."""

_LEFT_RUNNING = "what it leaves running in the background goes on"
_NETWORK = {True: "There is a network.", False: "There is no network."}
_EMPTY = "rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier /logs/agent && chmod 777 /logs/verifier"
_TEST = "chmod +x /tests/test.sh; /tests/test.sh > /logs/verifier/test-stdout.txt 2>&1 < /dev/null"
_REWARD = "cd /logs/verifier && if test -e reward.json; then cat reward.json; else cat reward.txt; fi"


class ContainerEnvironment:
    """An `Environment` in a container of its own."""

    snapshots = "state"
    mask = VOLATILE

    def __init__(self, folder: TaskFolder, spec: ContainerSpec, engine: Engine) -> None:
        self._folder, self._spec, self._engine = folder, spec, engine
        self._container: Container | None = None
        self._progress = Progress()

    def start(self) -> Opening:
        place, self._progress = self._fresh().place, Progress()
        prompt = system_prompt(place, _NETWORK[self._spec.network])
        return Opening((system(prompt), user(self._folder.instruction)), tools_for(place, _LEFT_RUNNING))

    def step(self, action: Action) -> Observation:
        container, seconds = self._running(), self._folder.limits.seconds
        observation = self._progress.step(
            action, container, lambda command: container.run(command, seconds), container.excess
        )
        if self._progress.misuse:
            self.close()  # give the space back at once
        return observation

    def score(self) -> Score:
        if self._progress.misuse:
            return Score.of(False, reason=self._progress.misuse)
        container, seconds = self._running(), self._folder.check.seconds
        try:
            container.command_of_ours(_EMPTY)
            container.unpack(_archive_of(self._folder), "/tests")
        except EnvironmentFailed as error:
            if container.runs:  # the episode has removed what every command needs
                return Score.of(False, reason=f"the container cannot be judged: {error}")
            raise
        user, variables = self._spec.verifier_user or None, self._spec.verifier_variables
        if stopped := container.run(_TEST, seconds, user=user, variables=variables).stopped:
            return Score.of(False, reason=f"the check was stopped: {stopped}")
        return self._reward(container.run(_REWARD, seconds, user="0").output)

    def _reward(self, text: str) -> Score:
        try:
            data = json.loads(text)
            rewards = data if isinstance(data, dict) else {"reward": data}
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in rewards.values()):
                raise ValueError("not a number")
            return read_score({"score": rewards["reward"]} | {k: v for k, v in rewards.items() if k != "reward"})
        except (ValueError, KeyError, TypeError, RecursionError):
            way_out = (
                ""
                if self._spec.network
                else ('; it had no network: if it needs one, say network_mode = "public" in [environment] of task.toml')
            )
            raise CheckFailed(
                f"tests/test.sh of task {self._folder.id} must write a number from 0 to 1 to"
                f" /logs/verifier/reward.txt, or reward.json with the key 'reward', and did not{way_out}"
            ) from None

    def snapshot(self) -> bytes:
        removed_names, archive = ((), b"") if self._progress.misuse else self._running().state(LARGEST)
        return json.dumps({**asdict(self._progress), "gone": removed_names}).encode() + b"\n" + archive

    def restore(self, state: bytes) -> None:
        head, _, archive = state.partition(b"\n")
        data = json.loads(head)
        removed_names = data.pop("gone")
        self._progress = Progress(**data)
        if not self._progress.misuse:
            self._fresh().put_back(removed_names, archive)

    def close(self) -> None:
        if self._container is not None:
            self._container.close()
            self._container = None

    def _fresh(self) -> Container:
        self.close()
        self._container = Container(self._engine, self._spec, self._folder.limits)
        return self._container

    def _running(self) -> Container:
        if self._container is None:
            raise EnvironmentFailed(f"the container of task {self._folder.id} is not there: it was not started")
        return self._container


def _archive_of(folder: TaskFolder) -> bytes:
    """The task's tests, owned by root there."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(folder.path / folder.judge, ".", filter=_of_root)
    return buffer.getvalue()


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
