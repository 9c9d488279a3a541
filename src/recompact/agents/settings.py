"""How somebody else's agent is started: its command, what its home holds, what may differ between runs, and what can be
known to be wrong with such settings before it is started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from recompact.agents.normalizer import check_pattern, check_replacement
from recompact.environments.sandbox import HostLimits
from recompact.errors import InputError

KEY = "recompact"
"""The key of sandboxed agents, whose gateway nobody else reaches: always the same, since requests may contain it."""

STEADY_KEY = "recompact-key-of-this-episode"
"""What models see in place of the key of an agent that is not sandboxed."""

MODEL = "model"
"""The name by which agents know their model."""

HOME, WORKSPACE, TEMPORARY = "/home/agent", "/workspace", "/tmp"
"""What a sandboxed agent sees of its episode: the same paths every time, since requests contain them."""

PORT = 8100  # of the gateway, in the agent's own network
REQUEST_BYTES = 32 * 1024 * 1024
REQUESTS_AT_ONCE = 32  # others wait
SIDE_CALLS = 1000  # calls of one episode that are not part of its main conversation
IGNORED = (".git/index", ".git/logs", "__pycache__", "*.pyc", ".pytest_cache")
"""What differs from run to run in a workspace that is otherwise the same."""


@dataclass(frozen=True)
class AgentSettings:
    """An agent that is a command. In its arguments, variables and files, {task}, {url}, {key}, {model}, {home} and
    {workspace} stand for what they name."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # below its home: path -> content
    readable: tuple[Path, ...] = ()  # places besides the system's programs, such as where it is installed
    hidden: tuple[Path, ...] = ()  # places kept out of sight though they lie within others, such as the tasks
    replace: Mapping[str, str] = field(default_factory=dict)  # patterns in what its tools return -> what replaces them
    ids: tuple[str, ...] = ()  # patterns whose group is a name that differs in each run
    mask: tuple[str, ...] = ()  # patterns of what may differ between two runs
    ignore: tuple[str, ...] = IGNORED  # files of the workspace that may differ
    timeout: float = 600.0  # seconds between two requests
    unsafe: bool = False  # run it without a sandbox
    in_place: Path | None = None  # run it there, as its user would, and show what it prints
    shown_on: int = 1  # the descriptor on which what it prints there is shown
    limits: HostLimits = field(default_factory=HostLimits)


@dataclass(frozen=True)
class Places:
    """The directories of one episode, as the agent sees them, and the address of its gateway with the key to it."""

    url: str
    home: str
    workspace: str
    key: str = KEY

    @property
    def base(self) -> str:
        """The address for agents that send a key of their own, or none: this one is part of it. Only for variables,
        since anybody can read the arguments of a command."""
        return self.url if self.key == KEY else f"{self.url}/{self.key}"

    def fill(self, text: str, task: str) -> str:
        values = {
            "{url}": self.url,
            "{key}": self.key,
            "{model}": MODEL,
            "{home}": self.home,
            "{workspace}": self.workspace,
            "{task}": task,  # last: its own text is not to be filled
        }
        for name, value in values.items():
            text = text.replace(name, value)
        return text


def variables_of(settings: AgentSettings, places: Places, task: str, temporary: str, path: str) -> dict[str, str]:
    """All variables of an agent. None is ours except, outside a sandbox, `PATH`: there may be keys among them."""
    own = {
        **_steady_variables(places.home, temporary, path),
        **server_variables(places),
    }
    return own | {name: places.fill(value, task) for name, value in settings.variables.items()}


def server_variables(places: Places) -> dict[str, str]:
    """Where the libraries of providers look for their server, and for a key."""
    return {
        "OPENAI_BASE_URL": f"{places.base}/v1",
        "OPENAI_API_BASE": f"{places.base}/v1",
        "OPENAI_API_KEY": places.key,
        "ANTHROPIC_BASE_URL": places.base,
        "ANTHROPIC_API_KEY": places.key,
        "GOOGLE_GEMINI_BASE_URL": places.base,
        "GEMINI_API_KEY": places.key,
        "NO_PROXY": "127.0.0.1,localhost",
    }


def _steady_variables(home: str, temporary: str, path: str) -> dict[str, str]:
    return {
        "PATH": path,
        "HOME": home,
        "TMPDIR": temporary,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        # what would otherwise differ from one run to the next
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
    }


Defect = tuple[str, str]
"""A key of [agent], and what is wrong with it."""


def find_program(name: str) -> tuple[str | None, str]:
    """The path of a command's program by the user's own PATH, or None and the reason."""
    if program := shutil.which(name):
        return os.path.abspath(program), ""
    if "/" in name and Path(name).is_file():
        return None, f"{name} is not executable: chmod +x lets it be started"
    return None, f"there is no program {name!r}: install it, or name its path"


def defects_of(settings: AgentSettings, *, launched: bool = False) -> Iterator[Defect]:
    """Everything that would break each episode in the same way. An agent that is `launched` in another way has no
    program."""
    if not launched:
        yield from _of_command(settings.command)
    for name, value in settings.variables.items():
        if not name or "=" in name or "\0" in name + value:
            yield "variables", f"{name!r} is no name for a variable, or its value has a NUL character"
    yield from _of_files(tuple(settings.files))
    for place in settings.readable:
        if not place.exists():
            yield "readable", f"it names {place}, which is not there"
    yield from _of_patterns(settings)


def _of_command(command: tuple[str, ...]) -> Iterator[Defect]:
    if not command:
        yield "command", "it is empty: name the program and its arguments"
    elif any("\0" in part for part in command):
        yield "command", "it has a NUL character, which no argument can have"
    elif not command[0].startswith("{"):  # {home} and the like are filled in later
        program, problem = find_program(command[0])
        if program is None:
            yield "command", problem


def _of_files(names: tuple[str, ...]) -> Iterator[Defect]:
    for name in names:
        parts = name.split("/")
        if "\0" in name or ".." in parts or parts[-1] in ("", ".") or not parts[0]:
            yield "files", f"{name!r} is not the path of a file below the agent's home"
        elif above := next((other for other in names if name.startswith(f"{other.rstrip('/')}/")), None):
            yield "files", f"{name!r} lies below {above!r}, which is a file"


def _of_patterns(settings: AgentSettings) -> Iterator[Defect]:
    checks: list[tuple[str, Callable[[], object]]] = []
    checks += [("replace", partial(check_replacement, *pair)) for pair in settings.replace.items()]
    checks += [("ids", partial(check_pattern, pattern, groups=1)) for pattern in settings.ids]
    checks += [("mask", partial(check_pattern, pattern)) for pattern in settings.mask]
    for key, check in checks:
        try:
            check()
        except InputError as error:
            yield key, str(error)
