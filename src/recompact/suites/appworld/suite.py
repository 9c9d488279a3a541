"""The suite: the tasks of AppWorld's data, with its splits, and an episode: a world, what an agent is told about it,
and the single function with which it acts in it.

The words are our own: the package ships no prompt for an agent. The episode does not grade itself, since the agent's
code runs in its process: its score is evidence, and a `Grader` in another process gives the verdict. Options are those
of [suite.options] in a config; docs/appworld.md says what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from recompact.environments.protocol import Behaviour, Environment, Literals, Observation, Opening, Task, tool
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.appworld.grader import Grader, pack
from recompact.suites.appworld.installation import DIFFICULTIES, NAME
from recompact.suites.appworld.world import World
from recompact.values.chat import system, user
from recompact.values.trajectory import Action, Score

TOOL = "execute_python"

EXECUTE_PYTHON = tool(
    TOOL,
    "Run Python code in a shell that keeps its variables. You see only what the code prints.",
    ["code"],
    code={"type": "string", "description": "The code to run."},
)

_SYSTEM = Path(__file__).with_name("prompt.txt").read_text(encoding="utf-8")


def system_prompt(apps: Mapping[str, str]) -> str:
    return _SYSTEM.format(apps="\n".join(f"- {name}: {description}" for name, description in apps.items()))


def task_message(supervisor: Mapping[str, str], instruction: str) -> str:
    name = f"{supervisor['first_name']} {supervisor['last_name']}"
    reached = f"e-mail {supervisor['email']}, phone {supervisor['phone_number']}"
    return f"Your supervisor is {name} ({reached}).\n\nThe task: {instruction}"


class AppWorldEnvironment:
    """An `Environment` whose process is its state, so it is brought back by a replay."""

    snapshots = "replay"

    def __init__(self, data: Path, task: str, *, seconds: int) -> None:
        self._data, self._task, self._seconds = data, task, seconds
        self._world: World | None = None
        self._ended = False

    def start(self) -> Opening:
        if self._world is not None:
            raise RuntimeError("a process has one world: start another host")
        self._world = World(self._data, self._task, seconds=self._seconds)
        task = self._world.task
        message = task_message(task.supervisor, task.instruction)
        return Opening((system(system_prompt(task.app_descriptions)), user(message)), (EXECUTE_PYTHON,))

    def step(self, action: Action) -> Observation:
        if self._ended:
            return Observation("Error: the task is ended already.", done=True, error=True)
        code = action.arguments.get("code")
        if action.name != TOOL or not isinstance(code, str):
            return Observation(f"Error: the only tool is {TOOL}, and it takes code, a text.", error=True)
        output, failed = self._open.execute(code)
        self._ended = self._open.completed()
        return Observation(output, done=self._ended, error=failed)

    def score(self) -> Score:
        return Score.of(False, evidence=pack(self._open.evidence()))

    def digest(self) -> str:
        return self._open.digest()

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._world is not None:
            self._world.close()

    @property
    def _open(self) -> World:
        if self._world is None:
            raise RuntimeError("the world is not open: start comes first")
        return self._world


SPLITS = ("train", "dev", "test_normal", "test_challenge")
_CALL = re.compile(r"\bapis\.(\w+)\.(\w+)\s*\(")
_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")  # of a login: a JSON web token
_NAMED_CALL = re.compile(r"\bapis\.(\w+\.\w+)\s*\([^()]*?\b\w+\s*=")  # with at least one argument by name
_LOOKS = ("show_", "search_", "login", "logout")


class AppWorldSuite:
    """A `Suite`. With `grading` its environments are graders; `root` then has the ground truth in it."""

    name = NAME

    def __init__(
        self, root: str | Path | None = None, *, seconds: Annotated[int, Limit(gt=0)] = 60, grading: bool = False
    ) -> None:
        if root is None:
            raise InputError(f"suite {NAME!r} lives in a process of its own: set [suite] host = true")
        self._root, self._seconds, self._grading = Path(root), int(seconds), grading

    def splits(self) -> Sequence[str]:
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise InputError(f"suite {NAME!r} has no split {split!r}: choose one of {', '.join(SPLITS)}")
        file = self._root / "data" / "datasets" / f"{split}.txt"
        lines = file.read_text(encoding="utf-8").splitlines()
        return [self._task(line.partition(":")[0].strip()) for line in lines if line.strip()]

    def environment(self, task: Task) -> Environment:
        data = self._root / "data"
        return Grader(data) if self._grading else AppWorldEnvironment(data, task.id, seconds=self._seconds)

    def behaviour(self, action: Action) -> Behaviour | None:
        """By the APIs that the code calls: a look at the documentation, else a change, else a look at the apps."""
        code = action.arguments.get("code")
        if action.name != TOOL or not isinstance(code, str):
            return None
        calls = [(app, api) for app, api in _CALL.findall(code) if api != "complete_task"]
        if any(app == "api_docs" for app, _ in calls):
            return "documentation"
        if any(not api.startswith(_LOOKS) for _, api in calls):
            return "mutation"
        return "read" if calls else None

    def literals(self, text: str) -> Literals:
        """What the paper counts in summaries: tokens of logins, and APIs whose call can be made as it stands there."""
        return {"tokens": tuple(_TOKEN.findall(text)), "signatures": tuple(_NAMED_CALL.findall(text))}

    def _task(self, id: str) -> Task:
        specification = json.loads((self._root / "data" / "tasks" / id / "specs.json").read_text(encoding="utf-8"))
        difficulty = self._difficulties.get(id)
        groups = {"difficulty": str(difficulty)} if difficulty is not None else {}
        return Task(id, str(specification["instruction"]), {**groups, "scenario": id.partition("_")[0]})

    @cached_property
    def _difficulties(self) -> Mapping[str, Any]:
        file = self._root / DIFFICULTIES
        difficulties: Mapping[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
        return difficulties
