"""What an environment is: one episode of one task, and the suite that hands them out.

Whoever connects an environment implements `Environment` (plain, synchronous) and `Suite`. The rollout drives an
`Episode`, which has the same verbs but is asynchronous, so that an environment may just as well live in another
process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from recompact.errors import InputError, RecompactError
from recompact.values.chat import Message, Reply, Request, ToolSpec, Usage
from recompact.values.trajectory import Action, Score, Snapshot


@dataclass(frozen=True)
class Task:
    """One thing to do. `groups` are what results are broken down by, such as difficulty or family."""

    id: str
    text: str
    groups: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Opening:
    """What the agent starts from: the fixed prefix (system prompt, task, examples) and its tools."""

    prefix: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    text_actions: bool = False  # plain text is an action too (the agent talks to somebody)
    empty_actions: bool = False  # and so is no text at all: whoever is talked to decides what it means
    judged_at_limit: bool = False  # what was done counts even if the agent ran out of steps before it said so


def tool(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> ToolSpec:
    """A tool whose arguments have these JSON schemas."""
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(required)})


@dataclass(frozen=True)
class Observation:
    """What came back from one action. `done` ends the episode; `error` marks a text that reports a mistake."""

    text: str
    done: bool = False
    error: bool = False


Strategy = Literal["state", "directory", "replay"]
"""How an environment is brought back to a boundary; see `Environment`."""


class Environment(Protocol):
    """One episode, as somebody who connects an environment writes it.

    `snapshot` returns all of the state as bytes and `restore` puts it back, in this or another instance of the same
    task; an environment that cannot do so raises NotImplementedError, and is restored by replaying its actions.

    Some attributes may be added, and are looked for on the instance:
    - `snapshots`: a `Strategy`. "state", the default, was just described. "directory": the tree in the attribute
      `directory` is all of the state, with the bytes of `snapshot` if it is implemented. "replay": the actions are done
      again.
    - `mask`: regular expressions, or a function from text to text, for the parts of an observation that may change from
      one run to the next; a replay is compared after masking. A suite may have it instead.
    - `digest()`, in a host only: a short text that stands for all state. A replay is compared by it as well, since not
      every difference is observed.
    - `ask`: see `Ask`.
    """

    def start(self) -> Opening:
        """Begin the episode: the messages and tools that the agent starts with."""
        ...

    def step(self, action: Action) -> Observation:
        """Do one action, and say what the agent gets to see of it."""
        ...

    def score(self) -> Score:
        """Judge the episode as it stands. `violations` among its details, a list of texts, are rules that were broken
        on the way: a second outcome, which evaluations and verifications report. With them, set `judged_at_limit`."""
        ...

    def snapshot(self) -> bytes:
        """All of the state, as bytes."""
        ...

    def restore(self, state: bytes) -> None:
        """Put a state back that `snapshot` returned."""
        ...

    def close(self) -> None:
        """Free what the episode holds; nothing is asked of it afterwards."""
        ...


Behaviour = Literal["documentation", "mutation", "read"]
"""What an action is for: looking up how something is done, changing something, or looking at something."""

Literals = Mapping[str, tuple[str, ...]]
"""What a text holds that cannot be guessed once it is lost, by kind: tokens, ids, call signatures."""


@runtime_checkable
class Suite(Protocol):
    """A set of tasks with splits, and the environments to do them in.

    Two methods may be added, which tell `recompact show --behaviour` what agents do here; the suite is asked for them:
    - `behaviour(action)`: a `Behaviour`, or None for an action that is none of them, such as ending the task. It goes
      by what the action is meant for, whether or not it succeeds.
    - `literals(text)`: a mapping from kinds, as the suite names them, to the literals of that kind in a text.
    """

    @property
    def name(self) -> str:
        """The suite's name in run files and tables."""
        ...

    def splits(self) -> Sequence[str]:
        """The names of its splits."""
        ...

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, always in the same order."""
        ...

    def environment(self, task: Task) -> Environment:
        """A fresh episode of a task."""
        ...


class Episode(Protocol):
    """An environment as the rollout drives it, wherever it lives."""

    @property
    def usage(self) -> Mapping[str, Usage]:
        """What the environment itself asked models for, by role."""
        ...

    @property
    def changes(self) -> Mapping[str, int]:
        """What had to be changed in values of the environment before they could be used, and how often."""
        ...

    async def start(self) -> Opening: ...

    async def step(self, action: Action) -> Observation: ...

    async def score(self) -> Score: ...

    async def snapshot(self) -> Snapshot | None: ...

    async def restore(self, snapshot: Snapshot) -> None: ...

    async def close(self) -> None: ...


class Episodes(Protocol):
    """A suite as the harness uses it: its tasks, and a fresh episode for any of them."""

    @property
    def name(self) -> str: ...

    async def tasks(self, split: str) -> Sequence[Task]: ...

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode: ...

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        """What each action is for; None where the suite does not say."""
        ...

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        """The literals of each text by kind; None where the suite does not say."""
        ...


class NoHooks:
    """The part of `Episodes` that says what actions and texts are, where nobody does."""

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        return None

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        return None


Ask = Callable[[str, Request], Reply]
"""How an environment asks the harness for a model, by role: a simulated user, a judge. An environment that needs this
has an attribute `ask`, which its host sets before `start`."""

AsyncAsk = Callable[[str, Request], Awaitable[Reply]]
"""The other end of it, in the harness."""


class NoSandbox(InputError):
    """This machine cannot sandbox what a suite's tasks run. `suite` lists its tasks all the same, for a check."""

    def __init__(self, text: str, suite: Suite) -> None:
        super().__init__(text)
        self.suite = suite


class EnvironmentFailed(RecompactError):
    """This episode is broken: its host crashed, hung or raised. No other episode is affected. `option` is one that the
    suite does not take, if that was the reason."""

    def __init__(self, text: str, option: str | None = None) -> None:
        super().__init__(text)
        self.option = option


class HostFailed(EnvironmentFailed):
    """This episode's host did not come up: its process could not be started, or the suite could not be loaded in it."""


class EpisodeLost(RecompactError):
    """The machine that this episode lived on is gone, or as good as gone. That says nothing about the episode: its unit
    of work is played again from the journal, elsewhere."""


class SuiteFailed(EnvironmentFailed, InputError):
    """The suite itself cannot be used: it has no name, or no list of tasks that names each of them once; or it does not
    take an `option`, which only its host could tell."""
