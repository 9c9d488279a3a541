"""One episode of our own loop: a workspace, the tools that act in it, and the answer.

All state is in files except how the episode ended, which goes with the directory's snapshot as JSON.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from recompact.environments.files import ActionError, tree_excess
from recompact.environments.own_directory import empty_directory, remove_tree
from recompact.environments.protocol import Observation, Opening
from recompact.environments.shell import TEMPORARY, CommandResult, Shell
from recompact.environments.snapshots import VOLATILE
from recompact.suites.workspace.folder import MOUNT, TaskFolder, files_of, judge
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

SHOWN = 16_000
"""Characters of one observation that the agent is shown; of longer ones, both ends."""

LINES = 400
"""Lines of a file that are shown at once, unless the agent asks for another number."""

_LONGEST = 100_000  # bytes of a command; the kernel takes little more

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
        return _run(_text(arguments, "command"), run)
    actions: Mapping[str, Callable[[Arguments, TextFiles], str]] = {
        "read_file": _read,
        "write_file": _write,
        "edit_file": _edit,
    }
    if name not in actions:
        raise ActionError(f"there is no tool {name[:80]!r}")
    return actions[name](arguments, files)


def _run(command: str, run: Run) -> str:
    if "\0" in command or len(command.encode("utf-8", "replace")) > _LONGEST:
        raise ActionError(f"a command has at most {_LONGEST:,} bytes, none of them zero")
    result = run(command)
    output = keep_both_ends(result.output)
    if result.stopped:
        raise ActionError(f"the command was stopped: {result.stopped}. Its output:\n{output}")
    if result.code:
        raise ActionError(f"the command failed with exit code {result.code}. Its output:\n{output}")
    return output or "The command has finished without output."


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
