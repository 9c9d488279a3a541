"""How somebody else's agent is started: its command, what its home holds, what may differ between runs, and what can be
known to be wrong with such settings before it is started.

Presets for known agents are listed in `profiles.toml`.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from recompact.agents.normalizer import check_pattern, check_replacement
from recompact.environments.sandbox import HostLimits
from recompact.errors import InputError
from recompact.models.endpoint import Seconds
from recompact.values.reading import key

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
KEPT_CHARACTERS = 1024 * 1024 * 1024  # of the last requests of all conversations of an episode
REQUEST_VALUES = 200_000  # of JSON, in one request
REQUESTS_AT_ONCE = 32  # others wait
SIDE_CALLS = 1000  # calls of one episode that are not part of its main conversation
IGNORED = (".git/index", ".git/logs", "__pycache__", "*.pyc", ".pytest_cache")
"""What differs from run to run in a workspace that is otherwise the same."""


@dataclass(frozen=True)
class AgentProgram:
    """The keys of [agent] that say how a program is started. Configs, settings and profiles have those that stand here.

    In its arguments, variables and files, {task}, {url}, {key}, {model}, {home} and {workspace} stand for what they
    name.
    """

    command: tuple[str, ...] = key((), "program and arguments of an agent of your own, or other ones for a profile")
    variables: Mapping[str, str] = key({}, "environment variables of that program")
    files: Mapping[str, str] = key({}, "files below its home: path -> content")
    replace: Mapping[str, str] = key({}, "pattern -> text, for tool output that differs each time")
    ids: tuple[str, ...] = key((), "patterns with one group, for names generated anew in each run")
    mask: tuple[str, ...] = key((), "patterns that may differ when a replay is compared")
    ignore: tuple[str, ...] = key(IGNORED, "files of the workspace that may differ")
    timeout: Seconds = key(600.0, "seconds from one request to the next")
    limits: HostLimits = key(HostLimits(), "what it may use")


@dataclass(frozen=True)
class AgentSettings(AgentProgram):
    """An agent that is a command."""

    readable: tuple[Path, ...] = ()  # places besides the system's programs, such as where it is installed
    hidden: tuple[Path, ...] = ()  # places kept out of sight though they lie within others, such as the tasks
    unsafe: bool = False  # run it without a sandbox
    in_place: Path | None = None  # run it there, as its user would, and show what it prints
    shown_on: int = 1  # the descriptor on which what it prints there is shown


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
            yield "variables", f"{name!r} is not a name for a variable, or its value has a NUL character"
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
    for name, check in checks:
        try:
            check()
        except InputError as error:
            yield name, str(error)


@dataclass(frozen=True)
class Profile(AgentProgram):
    """How one agent is started behind the gateway."""

    options: tuple[str, ...] = ()  # which lead its program to the gateway, after the program's name

    def equip(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """A command with the options, after the name of this agent's program; without them where it is not named."""
        at = _position(command, self.command[0]) if self.options else None
        return command if at is None else (*command[: at + 1], *self.options, *command[at + 1 :])


def _profile(table: Mapping[str, Any]) -> Profile:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return Profile(**values)


_TEXT = (files("recompact.agents") / "profiles.toml").read_text(encoding="utf-8")
PROFILES = {name: _profile(table) for name, table in tomllib.loads(_TEXT).items()}


def profile_named(name: str) -> Profile:
    if name not in PROFILES:
        near = difflib.get_close_matches(name, PROFILES, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROFILES)}"
        raise InputError(f"there is no agent {name!r}; {hint}; any other is a command")
    return PROFILES[name]


PROGRAMS = {
    profile.command[0]: name
    for name, profile in PROFILES.items()
    if not any(part.startswith("{home}/") for part in profile.command[1:2])  # an interpreter, of no matter what
}
"""The profiles by the programs that they are of."""

_LAUNCHERS = ("bunx", "env", "nice", "npx", "timeout", "uvx")  # programs whose arguments name the one that they start


def known_agent(command: tuple[str, ...]) -> str | None:
    """The name of the profile of the agent that a command starts, if it is known."""
    return next((name for program, name in PROGRAMS.items() if _position(command, program) is not None), None)


def _position(command: tuple[str, ...], program: str) -> int | None:
    """Where a command names a program: first, or after a launcher, perhaps as a package with its version."""
    places = range(len(command)) if PurePath(command[0]).name in _LAUNCHERS else (0,)
    return next((at for at in places if PurePath(command[at]).name.split("@")[0] == program), None)
