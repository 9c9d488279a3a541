"""The suite: tasks in four splits, dealt out to the families in turn, and the environments to do them in.

With `example` the prefix carries one worked episode of another world as chat turns, which small models need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from recompact.environments.protocol import Behaviour, Literals, Task
from recompact.suites.pocket.environment import PocketEnvironment
from recompact.suites.pocket.families import BY_NAME, FAMILIES
from recompact.suites.pocket.families.family import APPS_OF
from recompact.suites.pocket.hooks import behaviour_of, literals_in
from recompact.suites.pocket.oracle import play
from recompact.suites.pocket.prompt import SYSTEM, task_message
from recompact.suites.pocket.tasks import compose
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.trajectory import Action

SPLITS: Mapping[str, int] = {"train": 90, "dev": 30, "test": 168, "fresh": 60}
EASIEST = tuple(BY_NAME[name] for name in ("contact_detail", "event_time", "bill_total"))
"""The families of the split `fresh`: those that a small real model can do at all."""
_EXAMPLE_SEED = "pocket-example"
_EXAMPLE_FAMILY = "contact_detail"  # for families whose own episodes would be too long as an example


NEXT_TASK = """\
That task is finished. The next one comes from another person, with other passwords and tokens: begin again with \
account.show_passwords."""
"""Between the worked example and the task: without it a small model goes on with the tokens of the example."""


class PocketSuite:
    """The `Suite` of pocket. With `example`, each prefix carries a worked example."""

    def __init__(self, example: bool = False) -> None:
        self._example = example

    @property
    def name(self) -> str:
        return "pocket"

    def splits(self) -> Sequence[str]:
        return tuple(SPLITS)

    def tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def environment(self, task: Task) -> PocketEnvironment:
        return PocketEnvironment(task.data["seed"], task.data["family"], self.prefix(task))

    def behaviour(self, action: Action) -> Behaviour | None:
        return behaviour_of(action)

    def literals(self, text: str) -> Literals:
        return literals_in(text)

    def prefix(self, task: Task) -> tuple[Message, ...]:
        """The fixed messages of a task."""
        example = _worked_example(_example_family(task.data["family"])) if self._example else ()
        return (system(SYSTEM), *example, user(task.data["message"]))


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    return tuple(_task(split, index) for index in range(SPLITS[split]))


def _task(split: str, index: int) -> Task:
    families = EASIEST if split == "fresh" else FAMILIES
    family = families[index % len(families)]
    seed = f"pocket-{split}-{index:03d}"
    composed = compose(seed, family.name)
    groups = {
        "difficulty": family.difficulty,
        "family": family.name,
        "apps": str(APPS_OF[family.difficulty]),
    }
    data = {
        "seed": seed,
        "family": family.name,
        "parameters": composed.parameters,
        "message": task_message(composed.owner, composed.instruction),
    }
    return Task(seed, composed.instruction, groups, data)


def _example_family(family: str) -> str:
    """Small models need an example of the same kind of task, so an easy family is its own, in another world."""
    return family if BY_NAME[family].difficulty == "easy" else _EXAMPLE_FAMILY


@cache
def _worked_example(family: str) -> tuple[Message, ...]:
    """One episode as chat turns, played by the oracle, so that it can never disagree with the apps."""
    seed = _EXAMPLE_SEED
    composed = compose(seed, family)
    request = user(task_message(composed.owner, composed.instruction))
    environment = PocketEnvironment(seed, family, (request,))
    played = play(environment, BY_NAME[family].solve, composed.parameters, thorough=True)
    environment.close()
    messages = [request]
    for number, (action, observation) in enumerate(played.steps, start=1):
        call = ToolCall(f"example-{number}", action.name, json.dumps(dict(action.arguments)))
        messages += [assistant("", call), Message("tool", observation.text, call_id=call.id)]
    return (*messages, user(NEXT_TASK))
