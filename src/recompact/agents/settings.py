"""How somebody else's agent is started: its command, what its home holds, and what may differ between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recompact.environments.sandbox import HostLimits

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
