"""One episode: a world, what an agent is told about it, and the single function with which it acts in it.

The words are our own: the package ships no prompt for an agent. The episode does not grade itself, since the agent's
code runs in its process: its score is evidence, and a `Grader` in another process gives the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recompact.environments.protocol import Observation, Opening
from recompact.suites.appworld.grader import pack
from recompact.suites.appworld.world import World
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

TOOL = "execute_python"

EXECUTE_PYTHON = ToolSpec(
    TOOL,
    "Run Python code in a shell that keeps its variables. You see only what the code prints.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The code to run."}},
        "required": ["code"],
    },
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
